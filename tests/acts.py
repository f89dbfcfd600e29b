"""Steps that tests of transitions share: put a job in, hand it over, let its time come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emq_django.protocol import claim, enqueue, ids, settle
from emq_django.protocol.records import Verdict

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from emq_django.protocol.records import ClaimedJob
    from tests.speakers import Speaker

LANE, OTHER_LANE = "USR0KHTOWnGLuC", "USR0NgWEfAEJfs"
LEASE_MS = 60_000


def put(speaker: Speaker, q: Queue, payload: bytes = b"payload", lane: str | None = None) -> str:
    """Enqueue a job and return its id."""
    job_id = ids.mint.one()
    admitted = (
        enqueue.enqueue(q, job_id, payload)
        if lane is None
        else enqueue.enqueue_lane(q, job_id, payload, lane)
    )
    assert speaker.run(admitted) is Verdict.ENQUEUED
    return job_id


def put_many(speaker: Speaker, q: Queue, count: int, lane: str | None = None) -> list[str]:
    """Enqueue up to 1,000 jobs and return their ids, the oldest first."""
    minted = ids.mint.many(count)
    for i in range(0, count, 100):
        items = [(job_id, b"payload") for job_id in minted[i : i + 100]]
        speaker.run(enqueue.enqueue_many(q, items, lane))
    return minted


def put_off(speaker: Speaker, q: Queue, lane: str | None = None) -> str:
    """Schedule a job for much later and return its id."""
    job_id = ids.mint.one()
    speaker.run(enqueue.enqueue_in(q, job_id, b"payload", 3_600_000, lane))
    return job_id


def take_one(speaker: Speaker, q: Queue, **options: Any) -> ClaimedJob:
    """Take the next job as a worker does."""
    taken = speaker.run(claim.take(q, "w", LEASE_MS, **options))
    assert len(taken.jobs) == 1
    return taken.jobs[0]


def take_all(speaker: Speaker, q: Queue, limit: int = 100, **options: Any) -> list[ClaimedJob]:
    """Take up to `limit` jobs at once."""
    return speaker.run(claim.take(q, "w", LEASE_MS, limit, **options)).jobs


def start(speaker: Speaker, q: Queue, lane: str | None = None) -> ClaimedJob:
    """Enqueue a job and take it."""
    put(speaker, q, lane=lane)
    return take_one(speaker, q)


def kill(speaker: Speaker, q: Queue, lane: str | None = None) -> ClaimedJob:
    """Enqueue a job and let it fail for good."""
    job = start(speaker, q, lane)
    assert speaker.run(settle.retry(q, job, "boom", 0, 1)) is Verdict.DEAD
    return job


def expire(client: Any, q: Queue, *job_ids: str) -> None:
    """Let leases end now."""
    assert client.zadd(q.active, dict.fromkeys(job_ids, 1), xx=True, ch=True) == len(job_ids)


def fall_due(client: Any, q: Queue, *job_ids: str) -> None:
    """Let the time of scheduled jobs come now."""
    assert client.zadd(q.schedule, dict.fromkeys(job_ids, 1), xx=True, ch=True) == len(job_ids)
