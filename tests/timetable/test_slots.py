"""Which moments are slots, where clocks change and where they don't; and what was missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emq_django.errors import ConfigError
from emq_django.timetable.slots import Cron, Every, Plan, Policy, cron, due, every

BERLIN = "Europe/Berlin"
MINUTE = 60_000


def ms(text: str) -> int:
    """Return a UTC time as Unix ms."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000)


def utc(slot_ms: int) -> str:
    return datetime.fromtimestamp(slot_ms / 1_000, UTC).strftime("%d %H:%M")


def slots_between(schedule: Cron, start: str, end: str) -> list[str]:
    """Return the slots from `start` on and before `end`, in UTC."""
    found, at = [], ms(start) - 1
    while (at := schedule.after(at) or ms(end)) < ms(end):
        found.append(utc(at))
    return found


# What a schedule does on the days when clocks change: (zone, expression, from, to, slots in UTC).
CHANGES = {
    # Berlin: 29 March 2026 02:00 becomes 03:00; 25 October 03:00 becomes 02:00.
    "a fixed time in the gap comes once, right behind it": (
        BERLIN, "30 2 * * *", "2026-03-28T00:00", "2026-03-31T00:00",
        ["28 01:30", "29 01:00", "30 00:30"],
    ),
    "a fixed time that comes twice counts once": (
        BERLIN, "30 2 * * *", "2026-10-24T00:00", "2026-10-27T00:00",
        ["24 00:30", "25 00:30", "26 01:30"],
    ),
    "half hours have no gap": (
        BERLIN, "*/30 * * * *", "2026-03-29T00:00", "2026-03-29T02:01",
        ["29 00:00", "29 00:30", "29 01:00", "29 01:30", "29 02:00"],
    ),
    "half hours come twice where clocks go back": (
        BERLIN, "*/30 * * * *", "2026-10-25T00:00", "2026-10-25T02:00",
        ["25 00:00", "25 00:30", "25 01:00", "25 01:30"],
    ),
    "six in the morning stays six: spring (C66)": (
        BERLIN, "0 6 * * *", "2026-03-28T00:00", "2026-03-31T00:00",
        ["28 05:00", "29 04:00", "30 04:00"],
    ),
    "six in the morning stays six: autumn (C66)": (
        BERLIN, "0 6 * * *", "2026-10-24T00:00", "2026-10-27T00:00",
        ["24 04:00", "25 05:00", "26 05:00"],
    ),
    # São Paulo has had no change since 2019; in 2018 midnight of 4 November was 01:00.
    "São Paulo is three hours behind UTC all year": (
        "America/Sao_Paulo", "0 9 * * *", "2026-01-01T00:00", "2026-01-03T00:00",
        ["01 12:00", "02 12:00"],
    ),
    "a midnight that did not exist comes at one": (
        "America/Sao_Paulo", "0 0 * * *", "2018-11-03T00:00", "2018-11-06T00:00",
        ["03 03:00", "04 03:00", "05 02:00"],
    ),
    "Tokyo never changes (C73)": (
        "Asia/Tokyo", "0 9 * * *", "2026-03-28T00:00", "2026-03-30T00:00",
        ["28 00:00", "29 00:00"],
    ),
    # Lord Howe moves by half an hour: 5 April 2026 02:00 becomes 01:30, 4 October 02:00 02:30.
    "a change of half an hour: the time in its gap comes behind it": (
        "Australia/Lord_Howe", "15 2 * * *", "2026-10-02T12:00", "2026-10-05T12:00",
        ["02 15:45", "03 15:30", "04 15:15"],
    ),
    "a change of half an hour: a time that comes twice counts once": (
        "Australia/Lord_Howe", "45 1 * * *", "2026-04-03T12:00", "2026-04-06T12:00",
        ["03 14:45", "04 14:45", "05 15:15"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
def test_slots_where_clocks_change(case: str) -> None:
    zone, expression, start, end, expected = CHANGES[case]

    assert slots_between(Cron(expression, ZoneInfo(zone)), start, end) == expected


@pytest.mark.parametrize("zone", [BERLIN, "America/Sao_Paulo", "Asia/Tokyo", "Australia/Lord_Howe"])
@pytest.mark.parametrize("expression", ["30 2 * * *", "*/20 * * * *", "15 */2 * * *", "45 1 * * *"])
@pytest.mark.parametrize("day", ["2026-03-28", "2026-04-04", "2026-10-03", "2026-10-24"])
def test_slots_are_the_same_from_every_starting_point(zone: str, expression: str, day: str) -> None:
    """No slot is seen twice or lost because a worker looked in the middle of a change."""
    schedule = Cron(expression, ZoneInfo(zone))
    start, end = ms(f"{day}T00:00"), ms(f"{day}T00:00") + 2 * 24 * 60 * MINUTE
    whole, at = [], start
    while (at := schedule.after(at) or end) <= end:
        whole.append(at)

    assert [*takewhile(lambda slot: slot > start, schedule.back_from(end))] == whole[::-1]
    for moment in range(start, end, 13 * MINUTE):
        later = [slot for slot in whole if slot > moment]
        if later:
            assert schedule.after(moment) == later[0], utc(moment)
        earlier = [slot for slot in whole if slot <= moment]
        if earlier:
            assert next(schedule.back_from(moment)) == earlier[-1], utc(moment)


def test_an_interval_counts_from_1970_whoever_looks() -> None:
    hourly = Every(3_600_000)

    assert hourly.after(ms("2026-03-29T00:00")) == ms("2026-03-29T01:00")
    assert hourly.after(ms("2026-03-29T00:59:59")) == ms("2026-03-29T01:00")
    assert next(hourly.back_from(ms("2026-03-29T00:00"))) == ms("2026-03-29T00:00")


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("61 * * * *", "Bad minute"),
        ("", "fields"),
        ("@daily", "fields"),
        ("0 0 31 2 *", "Bad|never"),
        (5, "give text"),
        (None, "give text"),
    ],
)
def test_a_wrong_cron_expression_is_refused_by_name(expression: object, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        cron(expression, ZoneInfo("UTC"), "the entry")

    assert "the entry" in str(caught.value)


@pytest.mark.parametrize(
    "interval", [0, -1, 0.5, "5", True, None, float("nan"), float("inf"), 10**300, timedelta(0)]
)
def test_a_wrong_interval_is_refused(interval: object) -> None:
    with pytest.raises(ConfigError, match="one second at least"):
        every(interval, "the entry")


def test_an_interval_may_be_a_timedelta() -> None:
    assert every(timedelta(minutes=2), "the entry") == Every(2 * MINUTE)
    assert str(every(2.5, "the entry")) == "every 2.5 s"


SKIP, ONE, ALL = (Policy(catch_up=rule) for rule in ("skip", "one", "all"))
NOON = ms("2026-01-01T12:00")


def test_a_slot_that_is_only_late_is_fired_under_every_rule() -> None:
    for policy in (SKIP, ONE, ALL):
        assert due(Every(MINUTE), policy, NOON, NOON + MINUTE + 30_000).fire == (NOON + MINUTE,)


def test_nothing_is_owed_before_the_next_slot() -> None:
    assert due(Every(MINUTE), ALL, NOON, NOON + MINUTE - 1) == Plan()


def test_all_is_capped_to_the_latest() -> None:
    plan = due(Every(MINUTE), Policy(catch_up="all", at_most=3), NOON, NOON + 10 * MINUTE)

    assert plan.fire == tuple(NOON + n * MINUTE for n in (8, 9, 10))
    assert plan.skipped == 7


@given(
    st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1_000, 10**5),
    st.sampled_from([SKIP, ONE, ALL]),
)  # fmt: skip
def test_every_passed_slot_is_either_fired_or_counted(
    last_ms: int, waited_ms: int, every_ms: int, policy: Policy
) -> None:
    now_ms = last_ms + waited_ms
    plan = due(Every(every_ms), policy, last_ms, now_ms)

    passed = now_ms // every_ms - last_ms // every_ms
    assert len(plan.fire) + plan.skipped == min(passed, 1_000)
    assert all(last_ms < slot <= now_ms for slot in plan.fire)
