"""C133: arguments become the same values, or fail the same way, in production and in tests."""

from __future__ import annotations

import math
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.test import override_settings

from emq_django import testing
from emq_django.task_backend.compat import BaseTaskBackend
from tests.task_backend import zoo

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.task_backend.conftest import Desk

STRANGE = [
    set(), datetime(2026, 1, 1, tzinfo=UTC), uuid.UUID(int=1), Decimal("1.0"), b"\xff", User(),
]  # fmt: skip
PLAIN = [(1, (2,)), [1, "a", None], {"a": (1,)}]
# Django's own backends would take these as they are; a worker would not.
CHANGED = [{1: "a"}, math.nan]
THEIRS = BaseTaskBackend.__module__.rpartition(".")[0]
BACKENDS = [
    "emq_django.task_backend.EmqBackend",
    f"{THEIRS}.immediate.ImmediateBackend",
    f"{THEIRS}.dummy.DummyBackend",
]

pytestmark = pytest.mark.django_db(transaction=True)


def _kind(given: object) -> str:
    return "int keys" if given == {1: "a"} else type(given).__name__


def _seen(desk: Desk, given: Any, run: Callable[[], Any] | None = None) -> Any:
    """Return the arguments as the caller sees them, or as a run did; else the error's class."""
    try:
        result = zoo.echo.using(queue_name=desk.queue).enqueue(given, key=given)
    except Exception as exc:  # noqa: BLE001 - which one is the question
        return type(exc)
    if run is None:
        return [result.args, result.kwargs]
    run()
    result.refresh()
    return result.return_value


@pytest.mark.parametrize("given", [*STRANGE, *PLAIN, *CHANGED], ids=_kind)
def test_a_worker_and_the_test_modes_see_the_same(desk: Desk, given: Any) -> None:
    caller, worker = _seen(desk, given), _seen(desk, given, desk.run)
    pending = _seen(desk, given, lambda: testing.run_pending(desk.queue))
    with testing.immediate():
        immediate = _seen(desk, given, lambda: None)

    assert caller == worker == pending == immediate
    if given == (1, (2,)):
        assert worker == [[[1, [2]]], {"key": [1, [2]]}], "tuples come back as lists"


@pytest.mark.parametrize("given", [*STRANGE, *PLAIN, *CHANGED], ids=_kind)
def test_djangos_own_backends_see_the_same(desk: Desk, given: Any) -> None:
    seen = []
    for path in BACKENDS:
        with override_settings(TASKS={"default": {"BACKEND": path, "QUEUES": []}}):
            seen.append(_seen(desk, given))

    assert seen == [seen[0]] * len(BACKENDS)


@pytest.mark.parametrize("given", [*STRANGE, *PLAIN, *CHANGED], ids=_kind)
def test_backends_side_by_side_see_the_same(desk: Desk, given: Any) -> None:
    named = {f"other{n}": {"BACKEND": path, "QUEUES": []} for n, path in enumerate(BACKENDS)}
    seen: list[Any] = []
    with override_settings(TASKS={"default": named["other0"], **named}):
        for alias in named:
            task = zoo.echo.using(queue_name=desk.queue, backend=alias)
            try:
                result = task.enqueue_on_commit(given, key=given)
                seen.append([result.args, result.kwargs])
            except Exception as exc:  # noqa: BLE001 - which one is the question
                seen.append(type(exc))

    assert seen == [seen[0]] * len(BACKENDS)
