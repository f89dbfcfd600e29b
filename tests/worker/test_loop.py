"""The worker's loop, run on a thread of the test against the real server."""

from __future__ import annotations

import contextlib
import logging
import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import settle
from emq_django.protocol.claim import take
from emq_django.protocol.enqueue import enqueue, enqueue_in, enqueue_lane
from emq_django.protocol.ids import mint
from emq_django.protocol.read import counts, row
from emq_django.protocol.records import Taken, Verdict
from emq_django.worker.crew import Crew
from emq_django.worker.ending import Ended
from emq_django.worker.loop import Worker
from emq_django.worker.options import QueueOptions, WorkerOptions
from emq_django.worker.watched import Watched
from tests.worker.processes import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    import redis

    from emq_django.protocol.calls import Call
    from emq_django.protocol.records import Counts
    from emq_django.worker.handlers import Handler
    from emq_django.worker.job import Job
    from emq_django.worker.options import Order
    from tests.monitoring import Recording

pytestmark = pytest.mark.server


def options(
    name: str, handler: Handler, lease_ms: int = 30_000, max_attempts: int = 5
) -> QueueOptions:
    return QueueOptions(
        keys=keys(name), handler=handler, lease_ms=lease_ms, max_attempts=max_attempts
    )


def add(name: str, payload: bytes = b"", lane: str | None = None) -> str:
    job_id = mint.one()
    where = keys(name)
    if lane is None:
        wire_for(where).run(enqueue(where, job_id, payload))
    else:
        wire_for(where).run(enqueue_lane(where, job_id, payload, lane))
    return job_id


def figures(name: str) -> Counts:
    return wire_for(keys(name)).run(counts(keys(name)))


def burst(
    queues: Sequence[QueueOptions], *, order: Order = "strict", concurrency: int = 1
) -> Ended:
    wanted = WorkerOptions(
        queues=tuple(queues), order=order, concurrency=concurrency, burst=True, grace_s=5
    )
    return Worker(wanted, wire_for).run()


@contextlib.contextmanager
def serving(*queues: QueueOptions, grace_s: float = 10, poll_ms: int = 100) -> Iterator[Worker]:
    """A worker on a thread: it may install no signal handlers there."""
    wanted = WorkerOptions(queues=queues, concurrency=4, grace_s=grace_s, poll_ms=poll_ms)
    worker = Worker(wanted, wire_for)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop.ask()
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture
def ran() -> list[Job]:
    return []


def test_a_handler_gets_the_job_as_it_was_enqueued(queue: str, ran: list[Job]) -> None:
    payload = bytes(range(256))
    flat = add(queue, payload)
    lane = add(queue, payload, "USR00000000001")

    burst([options(queue, ran.append)])

    assert {job.id: (job.payload, job.lane, job.attempts, job.queue) for job in ran} == {
        flat: (payload, None, 1, queue),
        lane: (payload, "USR00000000001", 1, queue),
    }


def test_flat_jobs_and_lanes_are_served_in_turn(queue: str, ran: list[Job]) -> None:
    for _ in range(4):
        add(queue)
    for _ in range(4):
        add(queue, lane="USR00000000001")

    burst([options(queue, ran.append)])

    lanes = [job.lane for job in ran]
    assert sorted(lanes[:4], key=str) == [None, None, "USR00000000001", "USR00000000001"]
    assert all(a != b for a, b in pairwise(lanes))


def test_strict_order_empties_the_first_queue_first(queue: str, ran: list[Job]) -> None:
    names = (f"{queue}-a", f"{queue}-b")
    for name in names * 3:
        add(name)

    burst([options(name, ran.append) for name in names])

    assert [job.queue for job in ran] == [names[0]] * 3 + [names[1]] * 3


def test_round_robin_serves_queues_in_turn(queue: str, ran: list[Job]) -> None:
    names = (f"{queue}-a", f"{queue}-b")
    for name in names * 3:
        add(name)

    burst([options(name, ran.append) for name in names], order="round-robin")

    served = [job.queue for job in ran]
    assert sorted(served[:4]) == [names[0], names[0], names[1], names[1]]


def test_no_more_jobs_are_taken_than_can_start(queue: str) -> None:
    gate, most = threading.Event(), []
    for _ in range(6):
        add(queue)

    def handler(_job: Job) -> None:
        most.append(figures(queue).active)
        gate.wait(20)

    threading.Timer(0.3, gate.set).start()
    burst([options(queue, handler)], concurrency=2)

    assert max(most) == 2
    assert len(most) == 6


def test_a_slot_that_has_become_free_meanwhile_is_not_waited_for(
    queue: str, ran: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others emptied the line that stood before it, so nobody rings for it."""
    asked: list[int] = []
    waits: list[int] = []
    free, wait = Crew.free, Watched.wait_for_slot

    def free_from_the_second_look_on(crew: Crew) -> int:
        asked.append(free(crew))
        return asked[-1] if len(asked) > 1 else 0

    def wait_for_slot(idle: Watched, longest_s: float) -> None:
        waits.append(asked[-1])
        wait(idle, longest_s)

    monkeypatch.setattr(Crew, "free", free_from_the_second_look_on)
    monkeypatch.setattr(Watched, "wait_for_slot", wait_for_slot)
    job_id = add(queue)

    burst([options(queue, ran.append)])

    assert [job.id for job in ran] == [job_id]
    assert 1 not in waits


def test_a_paused_queue_is_left_alone(
    queue: str, ran: list[Job], redis_client: redis.Redis
) -> None:
    add(queue)
    redis_client.hset(keys(queue).meta, "paused", "1")

    burst([options(queue, ran.append)])

    assert not ran
    assert figures(queue).pending == 1


def test_a_lost_lease_is_told_to_the_job_and_its_end_is_refused(
    queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = add(queue)
    where = keys(queue)
    told = threading.Event()

    def handler(job: Job) -> None:
        # Another worker gets the job, as it does after a pause longer than the lease.
        _lose(queue, job)
        until(lambda: job.lease_lost, "the job is told")
        told.set()

    with caplog.at_level(logging.INFO, "emq_django.worker"):
        with serving(options(queue, handler, lease_ms=300)):
            assert told.wait(20)
        text = caplog.text

    assert f"lease lost queue={queue} id={job_id} attempt=1" in text
    assert f"completion refused, the lease was lost queue={queue} id={job_id}" in text
    found = wire_for(where).run(row(where, job_id))
    assert found is not None
    assert (found.held_by, found.fields["attempts"].value) == ("active", b"2")


def _lose(name: str, job: Job) -> None:
    from emq_django.protocol.records import ClaimedJob

    where = keys(name)
    held = ClaimedJob(job.id, job.payload, job.attempts, name)
    # In one flush: the worker itself has free slots, and takes what it finds.
    calls: list[Call[Any]] = [settle.release(where, held), take(where, "another", 30_000)]
    released, taken = wire_for(where).run_many(calls)
    assert released is Verdict.RELEASED
    assert isinstance(taken, Taken)
    assert taken.jobs


def test_a_delayed_job_starts_soon_after_its_time(queue: str, ran: list[Job]) -> None:
    where, job_id = keys(queue), mint.one()
    with serving(options(queue, ran.append)):
        wire_for(where).run(enqueue_in(where, job_id, b"", 700))
        until(lambda: ran, "the job ran")

    assert ran[0].id == job_id


def test_an_idle_worker_hears_of_work(queue: str, ran: list[Job]) -> None:
    with serving(options(queue, ran.append)):
        for number in range(3):
            add(queue)
            until(lambda number=number: len(ran) > number, "the job ran")  # type: ignore[misc]


@pytest.mark.slow
def test_an_idle_worker_sends_little(
    queue: str, monitor: Callable[[], AbstractContextManager[Recording]], ran: list[Job]
) -> None:
    pause = threading.Event()
    with serving(options(queue, ran.append)):
        pause.wait(2)  # pauses grow to their longest
        with monitor() as recording:
            pause.wait(4)

    # Each second a trip of four commands, and two looks, since this one hears no announcements.
    assert len(recording.commands) <= 7 * 4


def test_jobs_left_at_a_stop_are_handed_back(queue: str, caplog: pytest.LogCaptureFixture) -> None:
    running, gate = threading.Event(), threading.Event()
    job_id = add(queue)

    def handler(_job: Job) -> None:
        running.set()
        gate.wait(20)

    try:
        with (
            caplog.at_level(logging.INFO, "emq_django.worker"),
            serving(options(queue, handler), grace_s=0),
        ):
            assert running.wait(20)
        found = wire_for(keys(queue)).run(row(keys(queue), job_id))
        assert found is not None
        assert found.held_by == "pending"
        assert "failures" not in found.fields
        assert f"handed back queue={queue} id={job_id}" in caplog.text
    finally:
        gate.set()


def test_a_handler_that_returns_an_awaitable_fails(queue: str) -> None:
    async def late() -> None:
        """Never awaited by a worker with threads."""

    job_id = add(queue)

    burst([options(queue, lambda _job: late(), max_attempts=1)])

    found = wire_for(keys(queue)).run(row(keys(queue), job_id))
    assert found is not None
    assert found.held_by == "dead"
    assert b"AwaitableReturned" in (found.fields["last_error"].value or b"")


def test_a_young_job_leaves_a_mark_when_it_completes(queue: str, ran: list[Job]) -> None:
    job_id = add(queue)

    burst([options(queue, ran.append)])

    found = wire_for(keys(queue)).run(row(keys(queue), job_id))
    assert found is not None
    assert found.finished
    assert not found.fields
