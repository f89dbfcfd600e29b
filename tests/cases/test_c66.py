"""C66: six in the morning stays six in the morning when the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from django.test import override_settings

from emq_django.timetable.entries import entries
from tests.timetable.conftest import declared, table

if TYPE_CHECKING:
    from tests.timetable.conftest import Table

__all__ = ["declared", "table"]


@pytest.mark.parametrize(
    ("day", "hours"),
    [((2026, 3, 28), [5, 4, 4]), ((2026, 10, 24), [4, 5, 5])],
    ids=["spring", "autumn"],
)
@pytest.mark.parametrize("entry", [{}, {"TZ": "Europe/Berlin"}], ids=["TIME_ZONE", "its own"])
def test_daily_at_six_in_berlin(
    table: Table, day: tuple[int, int, int], hours: list[int], entry: dict[str, str]
) -> None:
    zone = "UTC" if entry else "Europe/Berlin"
    with override_settings(TIME_ZONE=zone), table.of(six={"CRON": "0 6 * * *", **entry}):
        schedule = entries()["six"].schedule
    at = round(datetime(*day, tzinfo=UTC).timestamp() * 1_000)
    due = []
    for _ in hours:
        at = schedule.after(at) or 0
        due.append(datetime.fromtimestamp(at / 1_000, UTC))

    first = datetime(*day, tzinfo=UTC)
    assert due == [first.replace(day=first.day + n, hour=hour) for n, hour in enumerate(hours)]
