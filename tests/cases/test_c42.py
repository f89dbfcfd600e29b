"""C42: a job that always fails ends after the default number of runs, with growing pauses."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from emq_django.conf import QueueConf, keys
from emq_django.worker.retry import ceiling_ms, delay_ms
from tests.queue_state import read_state
from tests.worker.processes import until

if TYPE_CHECKING:
    import redis

    from tests.worker.processes import Bench

DEFAULT = QueueConf(name="q")


def test_the_default_limit_ends_it(bench: Bench, redis_client: redis.Redis) -> None:
    bench.settings = {"BACKOFF_BASE_MS": 10}
    job_id = bench.add(**{"raise": "ValueError"})
    copies: Counter[int] = Counter()

    def dead() -> bool:
        places = read_state(redis_client, keys(bench.queue)).places
        copies[len(places[job_id.encode()])] += 1
        return places == {job_id.encode(): [b"dead"]}

    bench.start("--processes", "0", ready=False)

    until(dead, "it has died")
    assert set(copies) == {1}
    assert bench.ledger.count("start") == {job_id: DEFAULT.max_attempts}
    counts = bench.counts()
    assert (counts.pending, counts.active, counts.scheduled, counts.dead) == (0, 0, 0, 1)


def test_pauses_grow_and_carry_jitter() -> None:
    base_ms, cap_ms = DEFAULT.backoff_base_ms, DEFAULT.backoff_cap_ms
    ceilings = [ceiling_ms(tries, base_ms, cap_ms) for tries in range(1, 12)]
    assert ceilings[:3] == [1_000, 2_000, 4_000]
    assert ceilings == sorted(ceilings)
    assert ceilings[-1] == cap_ms

    for tries, ceiling in enumerate(ceilings, 1):
        drawn = [delay_ms(tries, base_ms, cap_ms) for _ in range(200)]
        assert len(set(drawn)) > 50, "the pauses are all alike"
        assert 0 <= min(drawn) < ceiling / 2 < max(drawn) <= ceiling
