"""C89: what is no Exception ends one run by the retry rule, and the worker goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emq_django.task_backend.compat import TaskResultStatus
from tests.task_backend import zoo
from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.task_backend.conftest import Desk

KINDS = {
    "CancelledError": "asyncio.exceptions.CancelledError",
    "KeyboardInterrupt": "KeyboardInterrupt",
    "GeneratorExit": "GeneratorExit",
    "StopIteration": "StopIteration",
    "StopAsyncIteration": "StopAsyncIteration",
    "OwnBase": "tests.worker.zoo.OwnBase",
    "Group": "ExceptionGroup",
}


def ended(result: Any) -> bool:
    result.refresh()
    return bool(result.is_finished)


@pytest.mark.parametrize("task", [zoo.odd_twice, zoo.async_odd_twice])
def test_each_is_one_failed_run_that_is_tried_again(desk: Desk, task: Any) -> None:
    worker = desk.start("--concurrency", "2")
    results = {kind: task.using(queue_name=desk.queue).enqueue(kind) for kind in KINDS}
    good: Any = zoo.async_add.using(queue_name=desk.queue).enqueue(1, 2)

    until(lambda: all(map(ended, [good, *results.values()])), "all have ended", 60)

    assert good.return_value == 3
    for kind, result in results.items():
        assert result.status == TaskResultStatus.FAILED, kind
        name = KINDS[kind]
        if task is zoo.async_odd_twice and kind == "StopIteration":
            name = "RuntimeError"  # Python lets none leave a coroutine
        assert [one.exception_class_path for one in result.errors] == [
            name if "." in name else f"builtins.{name}"
        ] * 2, kind
    assert worker.process.poll() is None


def test_a_coroutine_that_swallows_its_cancellation_is_ended_by_its_limit_and_the_grace(
    desk: Desk,
) -> None:
    worker = desk.start("--concurrency", "2")
    stubborn = zoo.async_never_ends.using(queue_name=desk.queue).enqueue()

    until(lambda: ended(stubborn), "it is given up", 60)

    assert stubborn.status == TaskResultStatus.FAILED
    assert stubborn.errors[-1].exception_class_path.endswith("SoftTimeLimit")
    good: Any = zoo.async_add.using(queue_name=desk.queue).enqueue(1, 2)
    until(lambda: ended(good), "the slot is free")
    assert worker.process.poll() is None
