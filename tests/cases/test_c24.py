"""C24: a handler that runs longer than the lease runs once, because the lease moves with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emq_django.conf import keys
from tests.worker.processes import until

if TYPE_CHECKING:
    import redis

    from tests.worker.processes import Bench

LEASE_MS = 2_000


def test_a_long_job_starts_once_and_its_lease_moves(
    bench: Bench, redis_client: redis.Redis
) -> None:
    for _ in range(2):
        bench.start("--lease-ms", str(LEASE_MS))
    job_id = bench.add(sleep_s=2.5 * LEASE_MS / 1_000)

    ends: set[float] = set()
    expired: list[float] = []

    def sampled_to_the_end() -> bool:
        now_ms, end_ms = lease()
        if end_ms is not None:
            ends.add(end_ms)
            if end_ms <= now_ms:
                expired.append(now_ms - end_ms)
        return end_ms is None and bench.empty()

    def lease() -> tuple[float, float | None]:
        with redis_client.pipeline(transaction=True) as at_once:
            at_once.time()
            at_once.zscore(keys(bench.queue).active, job_id)
            (seconds, micros), end_ms = at_once.execute()
        return seconds * 1_000 + micros / 1_000, end_ms

    until(sampled_to_the_end, "the job is done")

    assert [(note.event, note.token) for note in bench.ledger.notes()] == [("start", 1), ("end", 1)]
    # What counts is that no sample found the lease over; how early it moves is the worker's affair.
    assert expired == []
    assert len(ends) >= 3  # 2.5 leases long: the first end, and it moved at least twice
