"""When a schedule is due: cron expressions in a time zone, plain intervals, and what was missed.

Pure: times are Unix ms, "now" is handed in. A slot is a moment for which a schedule owes a job.

Cron follows the rules of Debian's cron where clocks change (``walls``):

| the schedule names | clocks go forward over it | clocks go back over it |
| --- | --- | --- |
| fixed minutes and hours (``30 2 * * *``) | once, at the first minute behind the gap | once, the first time |
| every minute or every hour (``*/30 * * * *``) | not in the gap: by time that passes | both times |

Intervals count from 1970-01-01 00:00 UTC and know no time zone.
"""  # noqa: E501 - a table

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Final, Literal, NamedTuple, Protocol
from zoneinfo import ZoneInfo

from emq_django.errors import ConfigError
from emq_django.timetable import walls

CatchUp = Literal["skip", "one", "all"]
CATCH_UPS: Final = ("skip", "one", "all")

COUNTED: Final = 1_000  # missed slots are counted up to here: a clock may be wrong by centuries
# A server whose clock stepped back by more than this goes on at once; protocol/periodic agrees.
STEP_BACK_MS: Final = 60_000

_MS: Final = timedelta(milliseconds=1)
_LAST_MS: Final = 253_370_764_800_000  # the year 9999: datetimes end there


class Schedule(Protocol):
    """Which moments are slots."""

    def after(self, ms: int) -> int | None:
        """Return the first slot behind a time; None for never again."""

    def back_from(self, ms: int) -> Iterator[int]:
        """Yield the slots at and before a time, the latest first."""


@dataclass(frozen=True, slots=True)
class Every:
    """A slot every so many ms, counted from the start of 1970."""

    every_ms: int

    def after(self, ms: int) -> int:
        """Return the first slot behind a time."""
        return (ms // self.every_ms + 1) * self.every_ms

    def back_from(self, ms: int) -> Iterator[int]:
        """Yield the slots at and before a time."""
        slot = ms // self.every_ms * self.every_ms
        while slot >= 0:
            yield slot
            slot -= self.every_ms

    def __str__(self) -> str:
        return f"every {self.every_ms / 1_000:g} s"


@dataclass(frozen=True, slots=True)
class Cron:
    """A slot whenever the clocks of a zone show what the expression says."""

    expression: str
    zone: ZoneInfo

    def after(self, ms: int) -> int | None:
        """Return the first slot behind a time."""
        if ms >= _LAST_MS:
            return None
        return next(walls.after(self.expression, self.zone, ms), None)

    def back_from(self, ms: int) -> Iterator[int]:
        """Yield the slots at and before a time."""
        return walls.back_from(self.expression, self.zone, min(ms, _LAST_MS))

    def __str__(self) -> str:
        return f"{self.expression} {self.zone.key}"


def cron(expression: object, zone: ZoneInfo, what: str) -> Cron:
    """Return a checked cron schedule. Raises ConfigError; ``what`` names its place."""
    if not isinstance(expression, str):
        raise ConfigError(f"{what}: cron={expression!r}: give text such as '*/5 * * * *'.")
    schedule = Cron(expression, zone)
    try:
        first = schedule.after(time.time_ns() // 1_000_000)
    except ValueError as exc:  # CronSimError is one
        raise ConfigError(
            f"{what}: cron={expression!r}: {exc}. Give minute, hour, day, month and weekday, such"
            " as '30 6 * * 1-5'."
        ) from exc
    if first is None:
        raise ConfigError(f"{what}: cron={expression!r} never comes: no such day exists.")
    return schedule


def every(interval: object, what: str) -> Every:
    """Return a checked interval (seconds or a timedelta). Raises ConfigError."""
    if isinstance(interval, timedelta):
        ms = interval // _MS
    elif isinstance(interval, int | float) and not isinstance(interval, bool):
        ms = round(interval * 1_000) if abs(interval) < _LAST_MS else -1
    else:
        ms = -1
    if not 1_000 <= ms <= _LAST_MS:
        raise ConfigError(
            f"{what}: every={interval!r}: give seconds or a timedelta, one second at least."
        )
    return Every(ms)


class Plan(NamedTuple):
    """What a schedule owes: jobs for ``fire`` (oldest first), none for those left out.

    ``skipped`` counts these up to ``COUNTED``; ``through_ms`` is the last slot that has passed.
    """

    fire: tuple[int, ...] = ()
    skipped: int = 0
    through_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What becomes of slots that passed while nobody could fire them.

    Attributes:
        catch_up: "skip" leaves them out, "one" makes up for the last, "all" for each.
        at_most: "all" makes up for no more than so many, the latest ones.
        late_ms: a slot that is no older than this was not missed: its job is only late.
    """

    catch_up: CatchUp = "skip"
    at_most: int = 100
    late_ms: int = 30_000


def due(schedule: Schedule, policy: Policy, last_ms: int, now_ms: int) -> Plan:
    """Return what is owed now, when ``last_ms`` is the last slot that was dealt with."""
    if last_ms > now_ms + STEP_BACK_MS:
        last_ms = now_ms  # fired while the clock was wrong: it holds nothing up
    most = max(COUNTED, policy.at_most)
    passed: list[int] = []
    for slot in islice(schedule.back_from(now_ms), most):
        if slot <= last_ms:
            break
        passed.append(slot)
    if not passed:
        return Plan()
    wanted = policy.at_most if policy.catch_up == "all" else 1
    owed = passed[:wanted]
    if policy.catch_up == "skip":
        owed = [slot for slot in owed if now_ms - slot <= policy.late_ms]
    return Plan(tuple(reversed(owed)), len(passed) - len(owed), passed[0])
