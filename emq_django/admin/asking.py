"""What the URL of a list asks for: its tab, order, filters and place. Pure: no request, no server.

A parameter that makes no sense is dropped and reported; it never fails the page. How a list is then
read is in ``paging``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final
from urllib.parse import urlencode

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from emq_django.admin import bands
from emq_django.admin.tokens import cursor_from, cursor_token
from emq_django.protocol import browse
from emq_django.protocol.ids import is_branded
from emq_django.protocol.records import JobSet

LEAST_PREFIX: Final = 5  # characters of an id that make a range worth looking at
WINDOWS_MS: Final = {
    "1m": 60_000,
    "15m": 15 * 60_000,
    "1h": 3_600_000,
    "24h": 24 * 3_600_000,
    "7d": 7 * 24 * 3_600_000,
}
PAST: Final = "past"  # the window of what is over: expired leases, jobs that are due
_LONGEST_TEXT = 200
_MOST_ATTEMPTS = 1_000_000


class Tab(StrEnum):
    """A list of a queue."""

    PENDING = "pending"
    ACTIVE = "active"
    SCHEDULE = "schedule"
    DEAD = "dead"
    FINISHED = "finished"
    LANES = "lanes"


# Which parameter names a list's window of time, and which windows it has.
WINDOW_PARAMETERS: Final[Mapping[Tab, tuple[str, tuple[str, ...]]]] = {
    Tab.PENDING: ("minted", ("15m", "1h", "24h", "7d")),
    Tab.DEAD: ("minted", ("15m", "1h", "24h", "7d")),
    Tab.ACTIVE: ("lease", (PAST, "1m", "15m")),
    Tab.SCHEDULE: ("due", (PAST, "15m", "1h", "24h", "7d")),
    Tab.FINISHED: ("ended", ("15m", "1h", "24h", "7d")),
}


DEATHS: Final = ("15m", "1h", "24h", "7d")  # windows of the time at which jobs died


class Order(StrEnum):
    """Which end of the set comes first."""

    FIRST = "first"  # oldest mint, earliest lease end, due time or end
    LAST = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What the query string asks for, as far as it makes sense."""

    tab: Tab = Tab.PENDING
    order: Order = Order.FIRST
    after: str | None = None  # cursors are ids; at most one of the two is set
    before: str | None = None
    at: float | None = None  # score of the cursor
    prefix: str = ""  # start of an id
    window: str = ""  # a key of WINDOWS_MS, or PAST
    since_ms: int | None = None  # bounds of the list's own time: mint, lease end, due time or end
    until_ms: int | None = None
    band: str = ""  # of a queue with priorities; else all of it
    lane: str = ""
    attempts: int = 0  # at least
    died: str = ""  # of dead jobs: a key of WINDOWS_MS
    died_since_ms: int | None = None
    died_until_ms: int | None = None
    task: str = ""
    text: str = ""

    @property
    def by_score(self) -> bool:
        """Tell whether the set is ordered by time instead of by id."""
        return self.tab in {Tab.ACTIVE, Tab.SCHEDULE, Tab.FINISHED}

    @property
    def job_set(self) -> JobSet | str:
        """Return the set that is read: one of the queue's, or a lane."""
        if self.tab is Tab.PENDING and self.lane:
            return self.lane
        return browse.FINISHED if self.tab is Tab.FINISHED else JobSet(self.tab.value)

    @property
    def sieve(self) -> browse.Sieve:
        """Return what only a look at each row can tell."""
        return browse.Sieve(
            attempts=self.attempts,
            lane="" if self.tab is Tab.PENDING else self.lane,
            task=f'"task":{json.dumps(self.task)}'.encode() if self.task else b"",
            texts=_spellings(self.text),
            died_within_ms=WINDOWS_MS.get(self.died, 0),
            died_from_ms=0 if self.died_since_ms is None else max(self.died_since_ms, 1),
            died_until_ms=0 if self.died_until_ms is None else max(self.died_until_ms, 1),
        )

    @property
    def by_death(self) -> bool:
        """Tell whether the list has only jobs that died at a certain time."""
        return any(self.sieve.deaths)

    @property
    def bounded(self) -> bool:
        """Tell whether the list leaves members out by their place."""
        return bool(self.prefix or self.window) or (self.since_ms, self.until_ms) != (None, None)

    @property
    def filtered(self) -> bool:
        """Tell whether the list leaves out members of the set."""
        return self.bounded or bool(self.sieve)

    def url(self, **changes: object) -> str:
        """Return the query string of this ask with some of its values changed."""
        changed = replace(self, **changes)  # type: ignore[arg-type]
        pairs: dict[str, str] = {"tab": changed.tab.value}
        if changed.order is not default_order(changed.tab):
            pairs["order"] = changed.order.value
        pairs |= {"band": changed.band, "q": changed.prefix, "lane": changed.lane}
        if changed.window:
            pairs[WINDOW_PARAMETERS[changed.tab][0]] = changed.window
        pairs |= {"from": local_text(changed.since_ms), "to": local_text(changed.until_ms)}
        pairs["died"] = changed.died
        pairs["died_from"] = local_text(changed.died_since_ms)
        pairs["died_to"] = local_text(changed.died_until_ms)
        pairs |= {"attempts": str(changed.attempts or ""), "task": changed.task}
        pairs["text"] = changed.text
        for name, cursor in (("after", changed.after), ("before", changed.before)):
            token = cursor_token(cursor) if cursor is not None else None
            if token and changed.at is not None and changed.by_score:
                pairs["at"] = repr(changed.at)
            pairs[name] = token or ""
        return "?" + urlencode({name: value for name, value in pairs.items() if value})

    def fixed(self, now_ms: int) -> Ask:
        """Return the ask whose window of deaths stands still while work on it goes on."""
        if not self.died:
            return self
        since_ms = max(now_ms - WINDOWS_MS[self.died], self.died_since_ms or 0)
        return replace(self, died="", died_since_ms=since_ms // 1_000 * 1_000)

    def start(self) -> Ask:
        """Return the first page of the same list."""
        return replace(self, after=None, before=None, at=None)


def default_order(tab: Tab) -> Order:
    """Return which end of a set comes first unless the URL says otherwise."""
    return Order.LAST if tab in {Tab.DEAD, Tab.FINISHED} else Order.FIRST


def parse(query: Mapping[str, str]) -> tuple[Ask, list[str]]:
    """Return what a query string asks for and the names of the parameters that were dropped."""
    reader = _Reader(query)
    tab = Tab(reader.one_of("tab", Tab, Tab.PENDING))
    order = Order(reader.one_of("order", Order, default_order(tab)))
    band = reader.one_of("band", bands.NAMES, "")
    if tab is Tab.LANES:
        ask = Ask(tab=tab, order=order, band=band, lane=reader.checked("lane", is_branded))
    else:
        ask = _with_filters(Ask(tab=tab, order=order, band=band), reader)
        ask = _with_cursor(ask, reader)
    return ask, reader.dropped()


def without_contents(ask: Ask) -> Ask:
    """Return an ask without the conditions that tell what stands in payloads and errors."""
    return replace(ask, task="", text="")


def _with_filters(ask: Ask, reader: _Reader) -> Ask:
    parameter, windows = WINDOW_PARAMETERS[ask.tab]
    by_id = not ask.by_score
    if ask.tab is Tab.DEAD:
        ask = replace(
            ask,
            died=reader.one_of("died", DEATHS, ""),
            died_since_ms=reader.time_ms("died_from"),
            died_until_ms=reader.time_ms("died_to"),
        )
    return replace(
        ask,
        prefix=reader.checked("q", _is_prefix) if by_id else "",  # others are in order of time
        window=reader.one_of(parameter, windows, ""),
        since_ms=reader.time_ms("from"),
        until_ms=reader.time_ms("to"),
        lane=reader.checked("lane", is_branded),
        attempts=int(reader.checked("attempts", _is_count) or 0),
        task=reader.checked("task", _is_short),
        text=reader.checked("text", _is_short),
    )


KNOWN: Final = frozenset({
    "tab", "order", "after", "before", "at", "band", "q", "minted", "lease", "due", "ended", "from",
    "to", "lane", "attempts", "died", "died_from", "died_to", "task", "text",
})  # fmt: skip


class _Reader:
    """Takes parameters out of a query string and remembers which ones made no sense."""

    def __init__(self, query: Mapping[str, str]) -> None:
        self._query = query
        self._taken: set[str] = set()
        self._bad: set[str] = set()

    def get(self, name: str) -> str:
        self._taken.add(name)
        return self._query.get(name, "").strip()

    def drop(self, *names: str) -> None:
        self._bad.update(names)

    def one_of(self, name: str, allowed: Iterable[str], default: str) -> str:
        return self.checked(name, lambda value: value in set(allowed)) or default

    def checked(self, name: str, is_right: Callable[[str], bool]) -> str:
        value = self.get(name)
        if value and not is_right(value):
            self.drop(name)
            return ""
        return value

    def time_ms(self, name: str) -> int | None:
        value = self.get(name)
        at_ms = _time_ms(value) if value else None
        if value and at_ms is None:
            self.drop(name)
        return at_ms

    def dropped(self) -> list[str]:
        strange = {name for name in self._query if not name.startswith("_")} - self._taken
        return sorted(self._bad | {name for name in strange if self._query[name]})


def _is_prefix(text: str) -> bool:
    if not LEAST_PREFIX <= len(text) <= 14:
        return False
    return is_branded(text) if len(text) == 14 else is_branded(text.ljust(14, "0"))


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 8 and int(text) <= _MOST_ATTEMPTS


def _is_short(text: str) -> bool:
    if len(text) > _LONGEST_TEXT or "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _time_ms(text: str) -> int | None:
    """Read a time as a browser's field writes it, in the reader's zone."""
    try:
        at = parse_datetime(text) if len(text) <= 40 else None
        if at is None:
            return None
        return int((at if at.tzinfo else timezone.make_aware(at)).timestamp()) * 1000
    except (OverflowError, ValueError):
        return None


def local_text(at_ms: int | None) -> str:
    """Write a time as a browser's field wants it, in the reader's zone."""
    if at_ms is None:
        return ""
    at = timezone.localtime(datetime.fromtimestamp(at_ms / 1000, UTC))
    return at.replace(tzinfo=None).isoformat(timespec="seconds")


def _spellings(text: str) -> tuple[bytes, ...]:
    """Return a text as it is, and as JSON would spell it where that differs."""
    if not text:
        return ()
    inside = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return tuple(one.encode() for one in sorted({text, *inside}))


def _with_cursor(ask: Ask, reader: _Reader) -> Ask:
    tokens = {name: reader.get(name) for name in ("after", "before")}
    at_text = reader.get("at")
    if all(tokens.values()):
        reader.drop("before")
    for name, token in tokens.items():
        if not token:
            continue
        cursor = cursor_from(token)
        if cursor is None:
            reader.drop(name)
            return ask
        at, bad = _score(at_text) if ask.by_score else (None, False)
        if bad:
            reader.drop("at")
        return replace(ask, at=at, **{name: cursor})  # type: ignore[arg-type]
    return ask


def _score(text: str) -> tuple[float | None, bool]:
    if not text:
        return None, False
    try:
        score = float(text) if len(text) <= 32 else math.nan
    except ValueError:
        score = math.nan
    return (None, True) if math.isnan(score) else (score, False)
