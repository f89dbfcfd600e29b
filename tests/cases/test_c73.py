"""C73: cron text speaks of TIME_ZONE or of the entry's own zone, never of the host's."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from django.test import override_settings
from django.urls import reverse

from emq_django.timetable.entries import entries
from tests.timetable.conftest import declared, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.test import Client

    from tests.timetable.conftest import Table

__all__ = ["declared", "table"]

NINE = {"CRON": "0 9 * * *"}
SUMMER = datetime(2026, 7, 1, tzinfo=UTC)


@pytest.fixture(params=["America/New_York", "Asia/Tokyo", "UTC"])
def host_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A host that is somewhere else."""
    with monkeypatch.context() as there:
        there.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


@pytest.mark.usefixtures("host_zone")
@pytest.mark.parametrize(
    ("entry", "utc_hour"),
    [(NINE, 0), ({**NINE, "TZ": "America/New_York"}, 13), ({**NINE, "TZ": "Europe/Berlin"}, 7)],
    ids=["TIME_ZONE", "New York", "Berlin"],
)
def test_nine_is_nine_there(table: Table, entry: dict[str, str], utc_hour: int) -> None:
    with override_settings(TIME_ZONE="Asia/Tokyo"), table.of(nine=entry):
        schedule = entries()["nine"].schedule
    before_ms = round(SUMMER.timestamp() * 1_000) - 1

    due_ms = schedule.after(before_ms)

    assert due_ms is not None
    assert datetime.fromtimestamp(due_ms / 1_000, UTC) == SUMMER.replace(hour=utc_hour)


def test_the_admin_names_the_zone(table: Table, admin_client: Client) -> None:
    with override_settings(TIME_ZONE="Asia/Tokyo"), table.of(nine=NINE):
        page = admin_client.get(reverse("admin:emq_django_queue_periodic")).content.decode()

    assert "0 9 * * * Asia/Tokyo" in page
