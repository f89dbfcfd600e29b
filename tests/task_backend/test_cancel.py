"""A call that runs is asked to end: plain tasks look for it, coroutines are cancelled."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from emq_django import JobCancelled
from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import claim, settle
from emq_django.protocol.records import Verdict
from emq_django.task_backend.backend import Cancelled
from emq_django.task_backend.compat import TaskResultStatus, task_finished
from tests.task_backend import zoo
from tests.task_backend.zoo import until_cancelled

if TYPE_CHECKING:
    from tests.task_backend.conftest import Desk

pytestmark = pytest.mark.django_db(transaction=True)

TASKS = [until_cancelled, zoo.async_until_cancelled]


def run_and_cancel(desk: Desk, task: Any, *, gives_in: bool) -> Any:
    """Enqueue a call, run it here, and ask for its end as soon as it has started."""
    result = task.using(queue_name=desk.queue).enqueue(gives_in=gives_in)
    answers: list[Cancelled] = []

    def ask() -> None:
        desk.noted("started")
        answers.append(result.cancel())

    thread = threading.Thread(target=ask)
    thread.start()
    desk.run()
    thread.join()
    assert answers == [Cancelled.ASKED]
    assert len(desk.notes("started")) == 1  # it is not run again
    assert len(desk.notes("asked")) == 1
    result.refresh()
    return result


@pytest.mark.parametrize("task", TASKS)
def test_a_task_that_gives_in_has_failed_as_cancelled(desk: Desk, task: Any) -> None:
    ended: list[TaskResultStatus] = []

    def hear(task_result: Any, **_: object) -> None:
        ended.append(task_result.status)

    task_finished.connect(hear)
    try:
        result = run_and_cancel(desk, task, gives_in=True)
    finally:
        task_finished.disconnect(hear)

    assert result.status == TaskResultStatus.FAILED
    assert [one.exception_class for one in result.errors] == [JobCancelled]
    assert ended == [TaskResultStatus.FAILED]
    assert desk.counts().dead == 1
    assert result.cancel() == Cancelled.FINISHED


@pytest.mark.parametrize("task", TASKS)
def test_a_task_that_goes_on_ends_as_usual(desk: Desk, task: Any) -> None:
    result = run_and_cancel(desk, task, gives_in=False)

    assert result.status == TaskResultStatus.SUCCESSFUL
    assert result.return_value == "went on"


def test_a_call_whose_worker_was_lost_after_the_request_has_failed_as_cancelled(
    desk: Desk,
) -> None:
    result, named = zoo.add.using(queue_name=desk.queue).enqueue(1), keys(desk.queue)
    (job,) = wire_for(named).run(claim.take(named, "worker-1", 30_000)).jobs
    assert result.cancel() == Cancelled.ASKED
    assert wire_for(named).run(settle.release(named, job)) is Verdict.RELEASED

    desk.run()

    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert [one.exception_class for one in result.errors] == [JobCancelled]
    assert "asked to end" in result.errors[0].traceback


async def test_the_async_twin_asks_too(desk: Desk) -> None:
    result, named = await zoo.add.using(queue_name=desk.queue).aenqueue(1), keys(desk.queue)
    wire_for(named).run(claim.take(named, "worker-1", 30_000))

    assert await result.acancel() == Cancelled.ASKED


def test_outside_a_worker_nobody_asks() -> None:
    from emq_django import Job
    from emq_django.task_backend.context import Run

    run = Run(Job(id="JOB00000000001", payload=b""))

    assert not run.cancelled
    run.raise_if_cancelled()
