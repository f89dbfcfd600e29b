"""C60: what becomes of five times that passed while every worker was down, by each rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from emq_django.timetable.slots import Every, Policy, due
from tests.timetable.conftest import declared, table

if TYPE_CHECKING:
    from emq_django.timetable.slots import CatchUp
    from tests.timetable.conftest import Table

__all__ = ["declared", "table"]

MINUTE = 60_000
NOON = 1_767_268_800_000


@pytest.mark.parametrize(("rule", "jobs"), [("skip", 0), ("one", 1), ("all", 5)])
def test_missed_minutes_by_each_rule(
    table: Table, rule: str, jobs: int, caplog: pytest.LogCaptureFixture
) -> None:
    """All workers were down for five slots and more than LATE_S."""
    every_ms = 3_600_000
    with table.of(tick={"EVERY_S": 3_600, "CATCH_UP": rule, "LATE_S": 0}):
        last_ms = (table.now_ms() // every_ms - 5) * every_ms
        table.last_was("tick", last_ms)

        for keeper in (table.keeper(), table.keeper()):
            keeper.tick()

        assert table.jobs() == jobs
        assert table.state("tick").last_ms == last_ms + 5 * every_ms
    skipped = [one.getMessage() for one in caplog.records if "left out" in one.getMessage()]
    assert len(skipped) == (jobs < 5)
    if skipped:
        assert f"{5 - jobs} times were missed" in skipped[0]


@pytest.mark.parametrize(
    ("rule", "jobs", "skipped"), [("skip", 0, 5), ("one", 1, 4), ("all", 5, 0)]
)
def test_the_plan_for_five_missed_minutes(rule: CatchUp, jobs: int, skipped: int) -> None:
    plan = due(Every(MINUTE), Policy(catch_up=rule), NOON, NOON + 5 * MINUTE + 45_000)

    assert len(plan.fire) == jobs
    assert plan.skipped == skipped
    assert plan.through_ms == NOON + 5 * MINUTE
    assert list(plan.fire) == sorted(plan.fire)
