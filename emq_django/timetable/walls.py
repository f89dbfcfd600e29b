"""Cron expressions against the clocks on the wall of a time zone.

cronsim reads the expression and walks a clock that never changes. Here that clock is laid over a
zone's real one. An expression that names minutes and hours speaks of the wall: a time in a gap
means the moment behind the gap, a time that comes twice means the first. One with ``*`` first in
minute or hour speaks of time that passes: it has a slot whenever the wall shows a match.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from emq_django.errors import ConfigError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_STEP_MS: Final = 6 * 3_600_000  # no zone changes its clocks twice within so long
_SHIFT: Final = timedelta(hours=3)  # nor by so much


def after(expression: str, zone: ZoneInfo, ms: int) -> Iterator[int]:
    """Yield the slots behind a time (Unix ms), the earliest first.

    Raises ValueError for nonsense.
    """
    return _passing(expression, zone, ms) if _passes(expression) else _fixed(expression, zone, ms)


def back_from(expression: str, zone: ZoneInfo, ms: int) -> Iterator[int]:
    """Yield the slots at and before a time, the latest first."""
    if _passes(expression):
        return _passing_back(expression, zone, ms)
    return _fixed_back(expression, zone, ms)


def _passes(expression: str) -> bool:
    minute, hour, *_ = [*expression.split()[-5:], "", ""]
    return minute.startswith("*") or hour.startswith("*")


def _fixed(expression: str, zone: ZoneInfo, ms: int) -> Iterator[int]:
    for wall in _walk(expression, _wall(zone, ms) - _SHIFT):
        slot = _moment(zone, wall)
        if slot > ms:
            yield slot
            ms = slot


def _fixed_back(expression: str, zone: ZoneInfo, ms: int) -> Iterator[int]:
    for wall in _walk(expression, _wall(zone, ms) + _SHIFT, back=True):
        slot = _moment(zone, wall)
        if slot <= ms:
            yield slot
            ms = slot - 1


def _passing(expression: str, zone: ZoneInfo, ms: int) -> Iterator[int]:
    while True:
        # Up to the next change of the clocks the wall is a constant away from UTC.
        offset_ms = _offset_ms(zone, ms)
        change_ms = None
        for wall in _walk(expression, _as_wall(ms + offset_ms)):
            slot = _ms(wall) - offset_ms
            change_ms = _first_change(zone, ms, slot)
            if change_ms is not None:
                break
            yield slot
            ms = slot
        if change_ms is None:
            return
        if _shows(expression, zone, change_ms):
            yield change_ms
        ms = change_ms


def _passing_back(expression: str, zone: ZoneInfo, ms: int) -> Iterator[int]:
    while True:
        offset_ms = _offset_ms(zone, ms)
        change_ms = None
        start = _as_wall(ms + offset_ms + 1_000).replace(microsecond=0)
        for wall in _walk(expression, start, back=True):
            slot = _ms(wall) - offset_ms
            if slot > ms:
                continue
            change_ms = _last_change(zone, slot, ms)
            if change_ms is not None:
                break
            yield slot
            ms = slot
        if change_ms is None:
            return
        ms = change_ms - 1


def _shows(expression: str, zone: ZoneInfo, ms: int) -> bool:
    wall = _wall(zone, ms)
    return next(_walk(expression, wall - timedelta(seconds=1)), None) == wall


def _walk(expression: str, wall: datetime, *, back: bool = False) -> Iterator[datetime]:
    try:
        from cronsim import CronSim, CronSimError
    except ImportError as exc:
        raise ConfigError(
            "cron expressions need the package cronsim: install 'emq-django[cron]', or give every="
        ) from exc
    try:
        return _until_time_ends(CronSim(expression, wall, reverse=back))
    except CronSimError as exc:
        raise ValueError(str(exc)) from exc


def _until_time_ends(walk: Any) -> Iterator[datetime]:
    try:
        yield from walk
    except OverflowError:  # the year 9999, or the year 1
        return


def _moment(zone: ZoneInfo, wall: datetime) -> int:
    """Return the moment at which a wall shows a time, the first; or the one behind its gap."""
    ms = _ms(wall.replace(tzinfo=zone, fold=0))
    if _wall(zone, ms) == wall:
        return ms
    change_ms = _last_change(zone, ms - _STEP_MS, ms)
    return ms if change_ms is None else change_ms


def _first_change(zone: ZoneInfo, from_ms: int, to_ms: int) -> int | None:
    """Return when the clocks first change behind ``from_ms``, up to ``to_ms``."""
    offset_ms = _offset_ms(zone, from_ms)
    while from_ms < to_ms:
        step_ms = min(from_ms + _STEP_MS, to_ms)
        if _offset_ms(zone, step_ms) != offset_ms:
            return _change_within(zone, from_ms, step_ms)
        from_ms = step_ms
    return None


def _last_change(zone: ZoneInfo, from_ms: int, to_ms: int) -> int | None:
    """Return when the clocks last change behind ``from_ms``, up to ``to_ms``."""
    offset_ms = _offset_ms(zone, to_ms)
    while from_ms < to_ms:
        step_ms = max(to_ms - _STEP_MS, from_ms)
        if _offset_ms(zone, step_ms) != offset_ms:
            return _change_within(zone, step_ms, to_ms)
        to_ms = step_ms
    return None


def _change_within(zone: ZoneInfo, low_ms: int, high_ms: int) -> int:
    before_ms = _offset_ms(zone, low_ms)
    while high_ms - low_ms > 1:
        middle_ms = (low_ms + high_ms) // 2
        if _offset_ms(zone, middle_ms) == before_ms:
            low_ms = middle_ms
        else:
            high_ms = middle_ms
    return high_ms


def _offset_ms(zone: ZoneInfo, ms: int) -> int:
    offset = (_EPOCH + ms * _MS).astimezone(zone).utcoffset()
    return 0 if offset is None else offset // _MS


def _wall(zone: ZoneInfo, ms: int) -> datetime:
    return (_EPOCH + ms * _MS).astimezone(zone).replace(tzinfo=None, fold=0)


def _as_wall(ms: int) -> datetime:
    return (_EPOCH + ms * _MS).replace(tzinfo=None)


def _ms(moment: datetime) -> int:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MS
