"""What the main thread does with what its worker has in its hands: no server."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.conf import keys
from emq_django.protocol.records import ClaimedJob, Verdict
from emq_django.worker.crew import Crew
from emq_django.worker.hooks import NoHooks
from emq_django.worker.leases import Lease
from emq_django.worker.link import Link
from emq_django.worker.options import QueueOptions, WorkerOptions
from emq_django.worker.seat import slots_for
from emq_django.worker.sources import Source, Sources
from emq_django.worker.table import Table
from emq_django.worker.wait import Bell
from tests.worker.processes import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emq_django.worker.job import Job

TRIFLE_S = 0.0001


class FakeLink(Link):
    """Agrees with everything."""

    def __init__(self) -> None:
        super().__init__(None)  # type: ignore[arg-type]

    def run(self, call: Any, timeout_s: float | None = None) -> Any:
        return Verdict.COMPLETED

    def run_many(self, calls: Any, timeout_s: float | None = None, aside: Any = ()) -> Any:
        return [[Verdict.COMPLETED] * 100 for _ in calls]


class Gang:
    """A crew of eight whose jobs ran as trifles so far; those called long wait at a gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.begun: list[str] = []
        queue = QueueOptions(keys=keys("q"), handler=self._work)
        self.source = Source(queue, FakeLink())
        self.source.pace.run_s = TRIFLE_S
        options = WorkerOptions(queues=(queue,), concurrency=8)
        self.bell = Bell()
        self.crew = Crew(
            options, NoHooks(), "w", Sources([self.source], "strict"),
            Table(1, slots_for(options)).region(0), self.bell,
        )  # fmt: skip

    def _work(self, job: Job) -> None:
        self.begun.append(job.id)
        if job.id.startswith("long"):
            self.gate.wait(20)

    def start(self, *ids: str) -> None:
        leases = [Lease(self.source, ClaimedJob(one, b"", 1, "q"), 0.0) for one in ids]
        for lease in leases:
            lease.renew_by(10**9)
            lease.renewed(0.0)
        self.crew.start(leases, full=False)


@pytest.fixture
def gang() -> Iterator[Gang]:
    gang = Gang()
    yield gang
    gang.gate.set()
    until(gang.crew.slots.is_idle, "all ended")
    gang.crew.close()


def test_a_few_more_trifles_take_no_slot_from_those_in_line(gang: Gang) -> None:
    """A batch of one is worth one slot; what was in line before it is worth all."""
    gang.source.pace.run_s = 10 * TRIFLE_S
    gang.start(*[f"long {number}" for number in range(8)])
    until(lambda: len(gang.begun) == 8, "all are at work")
    gang.start(*map(str, range(20)))
    assert gang.crew.slots._hands >= 8

    gang.start("20")

    assert gang.crew.slots._hands >= 8


def test_what_stands_still_is_given_to_those_who_are_free_before_it_is_handed_back(
    gang: Gang,
) -> None:
    gang.start("long", "a", "b")
    until(lambda: gang.begun == ["long"], "one slot was woken, and keeps at it")
    until(lambda: gang.crew.slots.still_s() > 0.15, "the main thread was away for a while")

    gang.crew.look_after()

    until(lambda: sorted(gang.begun) == ["a", "b", "long"], "the others did the rest")


def test_what_a_free_slot_was_woken_for_is_not_handed_back_when_it_comes_late(gang: Gang) -> None:
    """On a busy machine a thread may take its time: a run that was handed back costs a token."""
    serve, comes = gang.crew.slots._serve, threading.Event()

    def come_late() -> None:
        comes.wait(20)
        serve()

    gang.crew.slots._serve = come_late  # type: ignore[method-assign]
    gang.start("a")
    until(lambda: gang.crew.slots.still_s() > 0.15, "no slot has come")

    for _ in range(20):
        gang.crew.look_after()

    assert [lease.job.id for lease in gang.crew.slots.line()] == ["a"]
    comes.set()
    until(lambda: gang.begun == ["a"], "it came")


def test_what_is_handed_back_makes_room_and_the_main_thread_sees_it(gang: Gang) -> None:
    gang.source.pace.run_s = None  # nothing is known of them yet: each is worth a slot
    gang.start(*[f"long {number}" for number in range(8)])
    until(lambda: len(gang.begun) == 8, "all are at work")
    gang.start("a")
    until(lambda: gang.crew.slots.still_s() > 0.15, "nobody is free for it")
    assert gang.crew.free() == 0

    gang.crew.look_after()

    assert gang.crew.slots.line() == []
    assert gang.bell.wait(0)


def test_nothing_waits_behind_a_long_job_while_the_main_thread_waits_for_a_server(
    gang: Gang,
) -> None:
    gang.start("long", "a", "b")
    gang.crew.keeper.start()

    until(lambda: sorted(gang.begun) == ["a", "b", "long"], "the keeper saw to it")
