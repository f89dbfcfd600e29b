"""C15: a queue that is resumed is served again, however it was paused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import operate
from tests.worker.processes import until

if TYPE_CHECKING:
    import redis

    from tests.worker.processes import Bench


@pytest.mark.parametrize("pauses", [1, 2])
def test_three_jobs_end_after_a_resume(bench: Bench, pauses: int) -> None:
    where = keys(bench.queue)
    worker = bench.start()
    for _ in range(pauses):
        wire_for(where).run(operate.pause(where))
    ids = [bench.add() for _ in range(3)]

    wire_for(where).run(operate.resume(where))

    until(bench.empty, "all jobs ended")
    assert bench.ledger.count("end") == dict.fromkeys(ids, 1)
    assert worker.process.poll() is None


@pytest.mark.parametrize("value", [b"1", b"true", b"0", b"", b"false"])
def test_any_value_of_the_flag_is_a_pause_and_its_removal_is_heard(
    bench: Bench, redis_client: redis.Redis, value: bytes
) -> None:
    where = keys(bench.queue)
    bench.start()
    redis_client.hset(where.meta, "paused", value)
    bench.add()
    assert bench.counts().paused

    redis_client.hdel(where.meta, "paused")

    until(bench.empty, "the job ended")
