"""How a list is read: where a page starts, which members count, and the pages around it. Pure.

Lists are paged by keyset: a page starts behind the last place of the page before, so its cost does
not depend on where it is and no id is shown twice while jobs come and go. What the URL asks for is
in ``asking``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from emq_django.admin.asking import PAST, WINDOWS_MS, Ask, Order, Tab
from emq_django.admin.bands import Hit
from emq_django.admin.tokens import cursor_token
from emq_django.protocol import browse
from emq_django.protocol.ids import decode, first_id_at
from emq_django.protocol.ids import encode as digits_of
from emq_django.protocol.keyspace import id_bytes

if TYPE_CHECKING:
    from emq_django.protocol.records import Entry

_PAST_ALL: Final = "~"  # sorts behind every character of a branded id


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Which members of a set count: ids, both exclusive, or scores, both inclusive."""

    low: str | None = None
    high: str | None = None
    low_score: float | None = None
    high_score: float | None = None

    def hold(self, raw_id: bytes, score: float) -> bool:
        """Tell whether a member lies within."""
        return (
            (self.low is None or raw_id > self.low.encode())
            and (self.high is None or raw_id < self.high.encode())
            and (self.low_score is None or score >= self.low_score)
            and (self.high_score is None or score <= self.high_score)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One read: from where, which way, and which members of it count."""

    place: browse.Place
    backwards: bool  # read against the order of display: turn the rows round
    bounds: Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The rows of a page in their order of display, and the asks of its neighbours."""

    hits: list[Hit]
    previous: Ask | None
    following: Ask | None


def plan(ask: Ask, now_ms: int) -> Plan:
    """Return how to read the page that is asked for."""
    bounds = bounds_of(ask, now_ms)
    backwards = ask.before is not None
    reverse = (ask.order is Order.LAST) != backwards
    cursor, score = ask.before if backwards else ask.after, ask.at
    if cursor is None and ask.by_score:
        score = bounds.high_score if reverse else bounds.low_score
    elif cursor is None:
        cursor = bounds.high if reverse else bounds.low
    place = browse.Place(cursor=cursor, score=score, reverse=reverse)
    return Plan(place=place, backwards=backwards, bounds=bounds)


def bounds_of(ask: Ask, now_ms: int) -> Bounds:
    """Return the bounds of a list; its window is told by the server's now."""
    return _score_bounds(ask, now_ms) if ask.by_score else _id_bounds(ask, now_ms)


def _score_bounds(ask: Ask, now_ms: int) -> Bounds:
    lows, highs = [ask.since_ms], [ask.until_ms]
    if ask.window == PAST:
        highs.append(now_ms)
    elif ask.window and ask.tab is Tab.FINISHED:
        lows.append(now_ms - WINDOWS_MS[ask.window])
    elif ask.window:
        highs.append(now_ms + WINDOWS_MS[ask.window])
    low = max((at for at in lows if at is not None), default=None)
    high = min((at for at in highs if at is not None), default=None)
    return Bounds(
        low_score=None if low is None else float(low),
        high_score=None if high is None else float(high),
    )


def _id_bounds(ask: Ask, now_ms: int) -> Bounds:
    lows: list[str] = []
    highs: list[str] = []
    if ask.prefix:
        # Just before the prefix itself, which may be a whole id and must then be inside.
        lows.append(ask.prefix[:-1] + chr(ord(ask.prefix[-1]) - 1) + _PAST_ALL)
        highs.append(ask.prefix + _PAST_ALL)
    if ask.window:
        lows.append(_before_first_id(now_ms - WINDOWS_MS[ask.window]))
    if ask.since_ms is not None:
        lows.append(_before_first_id(ask.since_ms))
    if ask.until_ms is not None:
        highs.append(first_id_at(ask.until_ms + 1))
    return Bounds(low=max(lows, default=None), high=min(highs, default=None))


def _before_first_id(at_ms: int) -> str:
    first = first_id_at(at_ms)
    return first[:3] + digits_of(max(decode(first) - 1, 0))


def place_of(member: Entry | browse.Member) -> tuple[float, bytes]:
    """Return where a member stands, so that members of several sets can be put in order."""
    return member.score, id_bytes(member.id)


def in_order(hits: Iterable[Hit], *, reverse: bool) -> list[Hit]:
    """Return members of several sets in the one order in which each was read."""
    return sorted(hits, key=lambda hit: place_of(hit.entry), reverse=reverse)


def cut(ask: Ask, done: Plan, hits: list[Hit], more: bool) -> Slice:
    """Return the rows that count in their order of display, with the ways on from there."""
    inside = [one for one in hits if done.bounds.hold(id_bytes(one.entry.id), one.entry.score)]
    if len(inside) < len(hits):
        more = False  # the rest of the set is out of bounds as well
    if done.backwards:
        inside.reverse()
    carried = [
        (one.entry.id, one.entry.score) for one in inside if cursor_token(one.entry.id) is not None
    ]
    return around(
        ask, inside, carried[0] if carried else None, carried[-1] if carried else None, more
    )


def around(
    ask: Ask,
    hits: list[Hit],
    first: tuple[str, float] | None,
    last: tuple[str, float] | None,
    more: bool,
) -> Slice:
    """Return rows with the asks of the pages before ``first`` and behind ``last``."""
    onward = ask.before is not None or more
    back = ask.after is not None or (ask.before is not None and more)
    return Slice(
        hits=hits,
        previous=_neighbour(ask, first, "before") if back and first else None,
        following=_neighbour(ask, last, "after") if onward and last else None,
    )


def _neighbour(ask: Ask, place: tuple[str, float], name: str) -> Ask:
    cursors = {"after": None, "before": None, name: place[0]}
    return replace(ask, at=place[1] if ask.by_score else None, **cursors)  # type: ignore[arg-type]
