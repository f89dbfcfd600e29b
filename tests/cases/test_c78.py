"""C78: a clock that jumps by centuries makes up for nothing, and holds nothing up."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from emq_django.conf import keys
from emq_django.protocol.periodic import Fired
from emq_django.timetable.slots import Cron, Every, Plan, Policy, due
from tests.timetable.conftest import declared, table, tick_until
from tests.timetable.firing import fire, now_ms

if TYPE_CHECKING:
    import redis

    from tests.timetable.conftest import Table

__all__ = ["declared", "table"]

MINUTE = 60_000
NOON = round(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp() * 1_000)
CENTURIES_ON = round(datetime(2200, 1, 1, tzinfo=UTC).timestamp() * 1_000)
POLICIES = [Policy(catch_up=rule) for rule in ("skip", "one", "all")]


def test_a_host_clock_that_jumps_to_another_century_fires_nothing(table: Table) -> None:
    """Between two answers of the server a clock may say anything."""
    jump_s = [0.0]
    with table.of(tick={"EVERY_S": 1, "CATCH_UP": "all"}):
        keeper = table.keeper(lambda: time.monotonic() + jump_s[0])
        keeper.tick()
        jump_s[0] = 174 * 365 * 86_400.0
        before = table.jobs()
        began_s = time.process_time()
        for _ in range(5):
            keeper.tick()
        assert table.jobs() - before <= 1
        assert time.process_time() - began_s < 1.0
        jump_s[0] = 0.0
        tick_until(keeper, lambda: table.jobs() > before)


def test_a_slot_of_another_century_holds_nothing_up(queue: str, redis_client: redis.Redis) -> None:
    """Fired while the server's clock was wrong."""
    key = keys(queue).base + b"dj:periodic"
    redis_client.hset(key, "slot:nightly", now_ms(queue) + 170 * 365 * 86_400_000)

    assert fire(queue, now_ms(queue)).fired is Fired.FIRED
    redis_client.hset(key, "slot:nightly", now_ms(queue) + 30_000)
    assert fire(queue, now_ms(queue)).fired is Fired.NOT_NEW  # small steps are waited for


@pytest.mark.parametrize("schedule", [Every(1_000), Cron("* * * * *", ZoneInfo("UTC"))])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_clock_that_jumps_by_centuries_owes_a_bounded_number(
    schedule: Every | Cron, policy: Policy
) -> None:
    """At most the documented cap, quickly, both on the way there and back."""
    began_s = time.process_time()

    there = due(schedule, policy, NOON, CENTURIES_ON)
    assert there.through_ms is not None
    back = due(schedule, policy, there.through_ms, NOON)
    on = due(schedule, policy, there.through_ms, NOON + MINUTE)

    assert len(there.fire) <= policy.at_most
    assert there.skipped <= 1_000
    assert back == Plan()
    assert len(on.fire) <= 1
    assert time.process_time() - began_s < 5.0
