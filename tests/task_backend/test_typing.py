"""What type checkers know of tasks. The gate's mypy reads this file; running it proves little more.

An ignored error that is not there is an error of its own (``warn_unused_ignores``), so each
``type: ignore`` below proves that the line is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

from emq_django import Backoff, EmqTaskContext, task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emq_django.task_backend.results import EmqTaskResult
    from emq_django.task_backend.task import EmqTask


@task
def bare(a: int, b: str = "") -> float:
    return a / 2


@task(max_attempts=3, backoff=Backoff(base_ms=1), retry_on=(OSError,), lane=lambda a, **_: None)
def with_keywords(a: int) -> str:
    return str(a)


@task(takes_context=True, unique=True, expires_in_s=5, lease_ms=500)
def with_context(context: EmqTaskContext, a: int) -> int:
    assert_type(context.emq.token, int)
    assert_type(context.attempt, int)
    context.emq.progress(0.5)
    return a


def these_are_right() -> None:
    assert_type(bare.enqueue(1, b="x").return_value, float)
    assert_type(bare.using(queue_name="q").enqueue(1).return_value, float)
    assert_type(with_keywords.enqueue(1).return_value, str)
    assert_type(with_context.enqueue(1).return_value, int)  # the context is not the caller's
    results = with_context.enqueue_many([with_context.bind(1), (2,), {"a": 3}])
    first: EmqTaskResult[..., int] = results[0]
    many: Sequence[EmqTaskResult[..., int]] = results
    on_commit: EmqTaskResult[..., int] = with_context.enqueue_on_commit(4)
    one: EmqTask[[int], str] = with_keywords
    del first, many, on_commit, one


def these_are_refused() -> None:
    bare.enqueue("x")  # type: ignore[arg-type]
    bare.enqueue()  # type: ignore[call-arg]
    bare.enqueue(1, c=2)  # type: ignore[call-arg]
    bare.enqueue_on_commit("x")  # type: ignore[arg-type]
    bare.bind(1, 2)  # type: ignore[arg-type]
    with_context.enqueue("x")  # type: ignore[arg-type]
    bare.using(max_attempts=1)  # type: ignore[call-arg]
    task(max_attempts="x")(len)  # type: ignore[call-overload]
    task(maximum_attempts=1)(len)  # type: ignore[call-overload]


def test_tasks_stay_plain_functions_to_call() -> None:
    assert bare.func(4) == 2.0
    assert bare.call(4) == 2.0
    assert with_keywords.call(1) == "1"
