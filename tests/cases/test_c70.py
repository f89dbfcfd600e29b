"""C70: a time without a zone is refused, by every call that takes a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings

from emq_django import enqueue_at, outbox
from emq_django.errors import InvalidInput
from emq_django.task_backend.compat import InvalidTask
from tests.operating import shell
from tests.timetable import zoo
from tests.timetable.conftest import declared, table

if TYPE_CHECKING:
    from tests.timetable.conftest import Table

__all__ = ["declared", "table"]

NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001 - that is the point


class Odd(datetime):
    """Says that it has a zone, and has none."""

    def utcoffset(self) -> timedelta | None:
        return None


ODD = Odd(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "when", [NAIVE, ODD, "2030-01-01T00:00:00", NAIVE.date(), 1.5, timedelta(1), None]
)
def test_what_is_no_moment_is_refused_at_the_call(table: Table, when: Any) -> None:
    """Before anything is sent."""
    with override_settings(USE_TZ=True, TIME_ZONE="America/Sao_Paulo"):
        for call in (enqueue_at, outbox.enqueue_at):
            with pytest.raises(InvalidInput):
                call(table.queue, b"x", when)

    assert table.jobs() == 0


@pytest.mark.parametrize("when", [NAIVE, "2030-01-01T00:00:00", NAIVE.date(), 1.5, timedelta(1)])
def test_a_task_refuses_them_too(table: Table, when: Any) -> None:
    with (
        override_settings(USE_TZ=True, TIME_ZONE="America/Sao_Paulo"),
        pytest.raises(InvalidTask if when is NAIVE else InvalidInput),
    ):
        zoo.tick.using(queue_name=table.queue, run_after=when).enqueue()

    assert table.jobs() == 0


def test_the_command_refuses_it_and_says_how_it_is_written(table: Table) -> None:
    told = shell.run_here("emq_enqueue", table.queue, "x", "--at", "2030-01-01T00:00:00")

    assert told.code != 0
    assert "is naive: say its zone, such as 2030-01-01T00:00:00Z" in told.err
    assert table.jobs() == 0
