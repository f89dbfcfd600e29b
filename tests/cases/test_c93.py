"""C93: what a receiver of a task's signals does changes nothing for the job."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import threading
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from emq_django import Retry, testing
from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import read
from emq_django.task_backend.compat import TaskResultStatus, task_finished, task_started
from emq_django.workers import worker_for
from tests.cases.tasks import loses_its_lease
from tests.task_backend import zoo
from tests.worker.processes import until
from tests.worker.test_loop import add, burst, options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from emq_django.worker.job import Job
    from emq_django.worker.outcomes import Completed, Failed
    from tests.task_backend.conftest import Desk

SUCCESSFUL, FAILED = TaskResultStatus.SUCCESSFUL, TaskResultStatus.FAILED


@contextlib.contextmanager
def listening(to: Any, receiver: Callable[..., Any]) -> Iterator[None]:
    to.connect(receiver)
    try:
        yield
    finally:
        to.disconnect(receiver)


class Heard:
    """Receives ``task_finished`` and notes what it is told and what is on the server then."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.read: list[Any] = []
        self.states: list[str] = []

    def hear(self, task_result: Any, **_: Any) -> None:
        self.told.append(task_result)
        self.read.append(task_result.task.get_backend().get_result(task_result.id))
        queue, _, job_id = task_result.id.rpartition(":")
        self.states.append(wire_for(keys(queue)).run(read.state(keys(queue), job_id)))


@pytest.fixture
def heard() -> Iterator[Heard]:
    made = Heard()
    with listening(task_finished, made.hear):
        yield made


def raises(**_: Any) -> None:
    raise RuntimeError("a receiver failed")


def exits(**_: Any) -> None:
    sys.exit("a receiver left")


def interrupts(**_: Any) -> None:
    raise KeyboardInterrupt


def sets_a_signal_handler(**_: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@pytest.mark.parametrize("task", [zoo.add, zoo.async_add])
@pytest.mark.parametrize("receiver", [raises, exits, interrupts, sets_a_signal_handler])
@pytest.mark.parametrize("about", [task_started, task_finished])
def test_a_receiver_that_fails_leaves_the_outcome_alone(
    desk: Desk, caplog: pytest.LogCaptureFixture, receiver: Any, about: Any, task: Any
) -> None:
    results: list[Any] = [task.using(queue_name=desk.queue).enqueue(one, 1) for one in (1, 2)]
    with listening(about, receiver):
        desk.run()

    for result in results:
        result.refresh()
    assert [one.status for one in results] == [SUCCESSFUL] * 2
    told = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert len(told) == 2
    assert all(receiver.__name__ in one.getMessage() and one.exc_info for one in told)


@pytest.mark.parametrize("task", [zoo.add, zoo.async_add])
def test_a_receiver_sees_the_final_state_of_a_task_that_returned(
    desk: Desk, heard: Heard, task: Any
) -> None:
    for one in range(20):
        task.using(queue_name=desk.queue).enqueue(one, 1)

    desk.run()

    assert heard.states == ["absent"] * 20
    assert sorted(one.return_value for one in heard.told) == list(range(1, 21))
    assert sorted(one.return_value for one in heard.read) == list(range(1, 21))
    assert all(one.finished_at >= one.started_at for one in heard.told)


def test_a_receiver_sees_the_final_state_of_a_task_that_failed(desk: Desk, heard: Heard) -> None:
    zoo.fails.using(queue_name=desk.queue).enqueue()

    desk.run()

    assert heard.states == ["dead"]
    assert [one.status for one in heard.told + heard.read] == [FAILED] * 2
    assert heard.told[0].errors[-1] == heard.read[0].errors[-1]


def test_a_receiver_sees_the_final_state_of_a_task_that_expired(desk: Desk, heard: Heard) -> None:
    zoo.noted.using(queue_name=desk.queue, expires_in_s=0.001).enqueue("late")

    desk.run()

    assert heard.states == ["absent"]
    assert [one.status for one in heard.told + heard.read] == [FAILED] * 2
    assert "expired" in heard.told[0].errors[-1].traceback


@pytest.mark.django_db(transaction=True)
def test_a_task_that_leaves_a_transaction_open_is_told_of_as_failed(
    desk: Desk, heard: Heard
) -> None:
    zoo.odd.using(queue_name=desk.queue).enqueue("Transaction")

    desk.run()

    assert heard.states == ["dead"]
    assert [one.status for one in heard.told + heard.read] == [FAILED] * 2
    assert "left a transaction open" in heard.told[0].errors[-1].traceback


def test_a_settlement_that_came_to_nothing_is_told_to_nobody(desk: Desk, heard: Heard) -> None:
    loses_its_lease.using(queue_name=desk.queue).enqueue()

    desk.run()

    assert heard.told == []


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_receiver_that_hangs_holds_up_its_slot_and_nothing_else(
    desk: Desk, concurrency: int
) -> None:
    gate = threading.Event()
    hangs: list[str] = []
    queue = keys(desk.queue)

    def hang(task_result: Any, **_: Any) -> None:
        if not hangs:
            hangs.append(task_result.id)
            gate.wait(60)

    task: Any = zoo.noted.using(queue_name=desk.queue)
    first = task.enqueue("first")
    worker = worker_for((desk.queue,), concurrency=concurrency)
    thread = threading.Thread(target=worker.run)
    with listening(task_finished, hang):
        thread.start()
        try:
            until(lambda: hangs == [first.id], "the receiver hangs")
            assert wire_for(queue).run(read.counts(queue)).active == 0
            assert task.get_backend().get_result(first.id).return_value == "first"

            second = task.enqueue("second")
            if concurrency == 1:
                assert not gate.wait(0.3)  # what would begin in this time would be wrong
                assert len(desk.notes("ran")) == 1
                gate.set()
            desk.noted("ran", 2)
            until(lambda: desk.counts().active == 0, "the second has ended")
            second.refresh()
            assert second.status == SUCCESSFUL
        finally:
            gate.set()
            worker.stop.ask()
            thread.join(30)
    assert not thread.is_alive()
    assert len(desk.notes("ran")) == 2


def test_a_worker_that_stops_leaves_receivers_the_time_to_end(desk: Desk) -> None:
    worker = worker_for((desk.queue,), concurrency=1)
    ended: list[bool] = []

    def hear(**_: Any) -> None:
        worker.stop.ask()
        until(lambda: worker.stop.requested(), "the stop was asked for")
        ended.append(True)

    for one in range(3):
        zoo.add.using(queue_name=desk.queue).enqueue(one)
    with listening(task_finished, hear):
        worker.run()

    left = desk.counts()
    assert (left.active, left.pending + len(ended)) == (0, 3)
    assert ended


@pytest.mark.django_db(transaction=True)
def test_a_receivers_transaction_is_its_own(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """One that was left open would swallow what the next receiver on this thread writes."""
    inside: list[bool] = []

    def leaves_a_transaction_open(**_: Any) -> None:
        inside.append(transaction.get_connection().in_atomic_block)
        transaction.atomic().__enter__()

    for one in range(3):
        zoo.add.using(queue_name=desk.queue).enqueue(one)
    with listening(task_finished, leaves_a_transaction_open):
        desk.run(concurrency=1)

    assert inside == [False] * 3
    assert desk.counts().dead == 0
    assert len([one for one in caplog.records if "changes nothing" in one.getMessage()]) == 3


def test_both_signals_of_a_run_come_in_one_context(desk: Desk) -> None:
    """As those expect that open something at the start and close it at the end: a span, a scope."""
    scope: ContextVar[str] = ContextVar("scope", default="")
    tokens: dict[str, Token[str]] = {}
    left: list[str] = []

    def enter(task_result: Any, **_: Any) -> None:
        tokens[task_result.id] = scope.set(task_result.id)

    def leave(task_result: Any, **_: Any) -> None:
        left.append(scope.get())
        scope.reset(tokens.pop(task_result.id))

    results = [zoo.add.using(queue_name=desk.queue).enqueue(one) for one in range(20)]
    with listening(task_started, enter), listening(task_finished, leave):
        desk.run(concurrency=2)

    assert sorted(left) == sorted(one.id for one in results)
    assert tokens == {}


def test_receivers_see_the_final_state_in_a_projects_own_tests(desk: Desk, heard: Heard) -> None:
    zoo.add.using(queue_name=desk.queue).enqueue(1)
    zoo.gives_up.using(queue_name=desk.queue).enqueue()
    testing.run_pending(desk.queue, raise_errors=False)

    assert heard.states == ["absent", "dead"]
    with desk.set(), testing.immediate():
        zoo.add.using(queue_name=desk.queue).enqueue(5)
    assert [one.return_value for one in heard.read if one.status == SUCCESSFUL] == [2, 6]


def test_a_handler_of_a_raw_queue_hears_of_the_end(desk: Desk) -> None:
    ran_on: dict[bytes, set[int]] = {b"good": set(), b"bad": set()}
    told: list[tuple[bytes, str, bool]] = []

    def handler(job: Job) -> None:
        def tell(ended: Completed | Failed) -> None:
            is_here = threading.get_ident() in ran_on[job.payload]
            told.append((job.payload, type(ended).__name__, is_here))

        ran_on[job.payload].add(threading.get_ident())
        job.when_ended(tell)
        if job.payload == b"bad":
            raise Retry(in_ms=0)

    for _ in range(10):
        add(desk.queue, b"good")
    add(desk.queue, b"bad")
    burst([options(desk.queue, handler, max_attempts=2)], concurrency=2)

    assert sorted(told) == [(b"bad", "Failed", True)] + [(b"good", "Completed", True)] * 10
