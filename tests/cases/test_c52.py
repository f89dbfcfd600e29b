"""C52: thousands of jobs that are due at once all move, in steps that hold nobody up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emq_django.api import enqueue_many
from emq_django.conf import keys
from emq_django.operating import steps
from emq_django.protocol import operate, read, upkeep
from emq_django.protocol.ids import mint
from emq_django.protocol.operate import Removed, Reprocessed
from emq_django.protocol.records import JobSet, Verdict
from emq_django.worker import cadence
from tests.speakers import SyncSpeaker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from emq_django.protocol.keyspace import Queue
    from emq_django.protocol.records import Counts, Swept
    from tests.servers import Server

LONGEST_US = 100_000  # what a PING of another client may have to wait for
# A script that unpacks 8,000 values fails with "too many results to unpack".
LARGE = [
    pytest.param(size, marks=[pytest.mark.nightly, pytest.mark.timeout(600)])
    for size in (20_000, 200_000)
]
sizes = pytest.mark.parametrize("size", [7_999, 8_000, *LARGE])


def parts(ids: list[str]) -> list[list[str]]:
    return [ids[start : start + steps.BATCH] for start in range(0, len(ids), steps.BATCH)]


class Yard:
    """A queue on a server of its own, worked on in the steps of workers and commands."""

    def __init__(self, server: Server) -> None:
        self.speaker = SyncSpeaker(server.port)
        self.client: Any = server.client()
        self.q: Queue = keys("c52")

    def fill(self, name: bytes, state: str, size: int) -> list[str]:
        """Put jobs into a set, all with the same long past score."""
        ids = mint.many(size)
        for start in range(0, size, 1_000):
            part = ids[start : start + 1_000]
            with self.client.pipeline(transaction=False) as pipeline:
                for job_id in part:
                    row = {"state": state, "attempts": 1, "payload": "x"}
                    pipeline.hset(self.q.row(job_id), mapping=row)
                pipeline.zadd(name, dict.fromkeys(part, 1))
                pipeline.execute()
        return ids

    def sweep(self, call: Callable[[Queue, int], Any]) -> int:
        moved = 0
        while True:
            swept: Swept = self.speaker.run(call(self.q, cadence.BATCH))
            moved += swept.moved
            if swept.seen < cadence.BATCH:
                return moved

    def counts(self) -> Counts:
        return self.speaker.run(read.counts(self.q))

    def close(self) -> None:
        # The steps of a test are alike, so their mean tells how long one holds the server; the
        # longest alone would rather tell how busy this machine is.
        mean_us = self.client.info("commandstats")["cmdstat_evalsha"]["usec_per_call"]
        self.speaker.close()
        self.client.close()
        assert mean_us < LONGEST_US


@pytest.fixture
def yard(fresh_server: Callable[..., Server]) -> Iterator[Yard]:
    made = Yard(fresh_server())
    yield made
    made.close()


@sizes
def test_all_due_jobs_are_promoted(yard: Yard, size: int) -> None:
    yard.fill(yard.q.schedule, "scheduled", size)

    assert yard.sweep(upkeep.promote) == size

    assert (yard.counts().scheduled, yard.counts().pending) == (0, size)


@sizes
def test_all_expired_leases_come_back(yard: Yard, size: int) -> None:
    yard.fill(yard.q.active, "active", size)

    assert yard.sweep(upkeep.reap) == size

    assert (yard.counts().active, yard.counts().pending) == (0, size)


@sizes
def test_all_dead_jobs_live_again(yard: Yard, size: int) -> None:
    ids = yard.fill(yard.q.dead, "dead", size)

    done = [one for part in parts(ids) for one in yard.speaker.run(operate.reprocess(yard.q, part))]

    assert done == [Reprocessed.PENDING] * size
    assert (yard.counts().dead, yard.counts().pending) == (0, size)


@sizes
def test_all_jobs_can_be_removed_and_drained(yard: Yard, size: int) -> None:
    ids = yard.fill(yard.q.dead, "dead", size)
    yard.fill(yard.q.pending, "pending", size)

    for part in parts(ids):
        assert yard.speaker.run(operate.remove(yard.q, part)) == [Removed.REMOVED] * len(part)
    while yard.speaker.run(operate.drain(yard.q, JobSet.PENDING, steps.BATCH)).left:
        pass

    assert (yard.counts().dead, yard.counts().pending) == (0, 0)
    assert yard.client.dbsize() == 0


@sizes
def test_all_jobs_of_a_bulk_arrive(yard: Yard, size: int) -> None:
    receipts = enqueue_many("c52", [b"x"] * size, via=yard.speaker)

    assert {one.verdict for one in receipts} == {Verdict.ENQUEUED}
    assert yard.counts().pending == size
