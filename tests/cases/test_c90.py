"""C90: a time limit ends a job whose code swallows exceptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emq_django.task_backend.compat import TaskResultStatus
from tests.task_backend import zoo
from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.task_backend.conftest import Desk


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (zoo.swallows_exceptions, "SoftTimeLimit"),  # which is no Exception
        (zoo.cleans_up_for_long, "SoftTimeLimit"),
        (
            zoo.swallows_everything,
            "HardTimeLimit",
        ),  # its process is killed, and that was its only try
    ],
)
def test_the_job_ends_with_its_reason_and_the_slot_is_free(
    desk: Desk, task: Any, reason: str
) -> None:
    worker = desk.start("--processes", "1", "--concurrency", "1")
    stuck = task.using(queue_name=desk.queue).enqueue()
    after: Any = zoo.add.using(queue_name=desk.queue).enqueue(1)

    until(lambda: ended(after), "the next job has the slot", 60)

    until(lambda: ended(stuck), "it is given up")

    assert after.status == TaskResultStatus.SUCCESSFUL
    assert stuck.status == TaskResultStatus.FAILED
    assert ("runs past its hard limit" in worker.log()) is (reason == "HardTimeLimit")
    assert reason in " ".join(one.exception_class_path for one in stuck.errors), stuck.errors


def ended(result: Any) -> bool:
    result.refresh()
    return bool(result.is_finished)
