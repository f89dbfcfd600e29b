"""C64: what is no moment is refused at the call, and nothing is sent."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.api import aenqueue_at, enqueue_at
from emq_django.errors import InvalidInput
from emq_django.task_backend.compat import InvalidTask
from tests.task_backend import zoo

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.task_backend.conftest import Desk


class Moment:
    """Of another class, but with a tzinfo."""

    tzinfo = UTC


TEXT, NAIVE = "2030-01-01T00:00:00", datetime(2030, 1, 1)  # noqa: DTZ001 - that is the point
# Django's own class for a naive datetime, whatever the backend, is InvalidTask.
REFUSED = (TypeError, ValueError, InvalidTask)
WRONG = [TEXT, date(2030, 1, 1), NAIVE, Moment(), time(1, tzinfo=UTC), 1.5]


@pytest.mark.parametrize("when", WRONG, ids=lambda one: type(one).__name__)
async def test_enqueue_at_refuses_it(queue: str, monitor: Callable[[], Any], when: Any) -> None:
    with monitor() as recording:
        with pytest.raises(InvalidInput, match="aware datetime"):
            enqueue_at(queue, b"x", when)
        with pytest.raises(InvalidInput, match="aware datetime"):
            await aenqueue_at(queue, b"x", when)

    assert not [words for words in recording.commands if queue.encode() in b" ".join(words)]


@pytest.mark.parametrize("when", [*WRONG, 1_900_000_000], ids=lambda one: type(one).__name__)
def test_run_after_refuses_it(desk: Desk, monitor: Callable[[], Any], when: Any) -> None:
    with monitor() as recording, pytest.raises(REFUSED):
        zoo.noted.using(queue_name=desk.queue, run_after=when).enqueue("x")

    assert not [words for words in recording.commands if desk.queue.encode() in b" ".join(words)]


def test_what_is_a_moment_runs_afterwards(desk: Desk) -> None:
    with pytest.raises(REFUSED):
        zoo.noted.using(queue_name=desk.queue, run_after=TEXT).enqueue("x")  # type: ignore[arg-type]
    zoo.noted.using(queue_name=desk.queue, run_after=datetime.now(UTC)).enqueue("due")

    desk.run()

    assert [one["name"] for one in desk.notes("ran")] == ["due"]
