"""A list under a filter that must look at rows: bounded steps through one set, or one per band.

Each band is looked through in the same order. What one of them found counts only up to the place
that all of them have reached, so that the next page can go on from there with nothing left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from emq_django.admin import paging, words
from emq_django.admin.asking import Ask
from emq_django.admin.bands import Hit
from emq_django.conf import conf, keys
from emq_django.connections import admin_wire_for
from emq_django.protocol import browse
from emq_django.protocol.browse import Member, Place
from emq_django.protocol.keyspace import id_bytes
from emq_django.protocol.records import Entry
from emq_django.reading import ask_each

SCAN_ROWS: Final = 2_000  # looked at in one request by a filter that must look at rows
SCAN_STEP: Final = 250  # of them in one script, which holds the server meanwhile

Shows = Callable[[Entry], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """How far a filter that looks at rows came."""

    looked: int
    too_large: int  # jobs whose values are too large to search
    goes_on: bool  # the budget of a request was used up


@dataclass(slots=True, kw_only=True)
class _Stream:
    """How far the search is in one queue on the wire."""

    queue: str
    place: Place
    last: Member | None = None  # of those that were looked at
    more: bool = True


@dataclass(slots=True, kw_only=True)
class _Search:
    """What was found so far, in the order of reading."""

    streams: list[_Stream]
    reverse: bool
    now_ms: int = 0
    looked: int = 0
    too_large: int = 0
    hits: list[Hit] = field(default_factory=list)

    @property
    def hindmost(self) -> _Stream | None:
        """The queue to look at next: the one that came least far of those that go on."""
        open_ones = [one for one in self.streams if one.more]
        fresh = [one for one in open_ones if one.last is None]
        if fresh or not open_ones:
            return fresh[0] if fresh else None
        return (max if self.reverse else min)(open_ones, key=_reached)

    @property
    def certain(self) -> list[Hit]:
        """The hits before which no other can turn up any more."""
        hindmost = self.hindmost
        if len(self.streams) == 1 or hindmost is None:
            return self.hits
        if hindmost.last is None:
            return []
        edge = _reached(hindmost)
        if self.reverse:
            return [one for one in self.hits if paging.place_of(one.entry) >= edge]
        return [one for one in self.hits if paging.place_of(one.entry) <= edge]

    @property
    def edge(self) -> Member | None:
        """The last place that all of them have looked at."""
        if (hindmost := self.hindmost) is not None:
            return hindmost.last
        ends = [one for one in self.streams if one.last is not None]
        farthest = (min if self.reverse else max)(ends, key=_reached, default=None)
        return farthest.last if farthest else None


def _reached(stream: _Stream) -> tuple[float, bytes]:
    return paging.place_of(stream.last) if stream.last else (0.0, b"")


def search(
    names: Sequence[str], ask: Ask, plan: paging.Plan, value_bytes: int, shows: Shows
) -> dict[str, Any]:
    """Look at rows in small steps until a page is full or the request has done enough."""
    size = conf().admin.page_size
    streams = [_Stream(queue=name, place=plan.place) for name in names]
    so_far = _Search(streams=streams, reverse=plan.place.reverse)
    found: list[Hit] = []
    while (stream := so_far.hindmost) and so_far.looked < SCAN_ROWS and len(found) < size:
        problem = _step(so_far, stream, ask, plan.bounds, value_bytes, shows)
        if problem is not None:
            return {"page_problem": words.problem(problem)}
        found = so_far.certain
    more, last = so_far.hindmost is not None, so_far.edge
    full = len(found) > size or (len(found) == size and more)
    if full:
        found, more = found[:size], True
        last = Member(found[-1].entry.id, found[-1].entry.score)
    near = Member(found[0].entry.id, found[0].entry.score) if found else None
    first, last = (last, near) if plan.backwards else (near, last)
    shown = found[::-1] if plan.backwards else found
    return {
        "now_ms": so_far.now_ms,
        "slice": paging.around(ask, shown, first, last, more),
        "scan": Scan(looked=so_far.looked, too_large=so_far.too_large, goes_on=more and not full),
    }


def _step(
    so_far: _Search,
    stream: _Stream,
    ask: Ask,
    bounds: paging.Bounds,
    value_bytes: int,
    shows: Shows,
) -> Exception | None:
    """Look at the next rows of one queue; return what kept them from being read."""
    queue = keys(stream.queue)
    call = browse.sift(
        queue, ask.job_set, SCAN_STEP, stream.place, ask.sieve, value_bytes=value_bytes
    )
    (step,) = ask_each(admin_wire_for(queue), [call])
    if isinstance(step, Exception):
        return step
    so_far.now_ms, so_far.looked = step.now_ms, so_far.looked + step.looked
    so_far.too_large += step.too_large
    found = [
        Hit(stream.queue, one)
        for one in step.entries
        if bounds.hold(id_bytes(one.id), one.score) and shows(one)
    ]
    so_far.hits += found
    if len(so_far.streams) > 1:
        so_far.hits = paging.in_order(so_far.hits, reverse=so_far.reverse)
    stream.more = step.more
    if step.last:
        stream.last = step.last
        stream.more = step.more and bounds.hold(id_bytes(step.last.id), step.last.score)
        score = step.last.score if ask.by_score else None
        stream.place = Place(cursor=step.last.id, score=score, reverse=so_far.reverse)
    return None
