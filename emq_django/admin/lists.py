"""A queue's figures and a page of one of its lists, read from the server. Nothing is written.

Every read is bounded, made by Calls of ``protocol`` over the admin's own wire, and waits 3 s at
most. A read that fails becomes a ``Problem`` in its place; nothing is shown as zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from emq_django.admin import bands, paging, words
from emq_django.admin.asking import Ask, Tab
from emq_django.admin.bands import Hit
from emq_django.admin.paging import Slice
from emq_django.admin.searching import Scan, Shows, search
from emq_django.admin.words import Moment, Problem
from emq_django.conf import conf, keys
from emq_django.protocol import browse, lanes, read
from emq_django.protocol.calls import Call
from emq_django.protocol.ids import minted_or_none
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.lanes import Lane
from emq_django.protocol.records import Counts, Entry
from emq_django.reading import ask_where, sum_of

LANES: Final = 200  # lanes on a page
SUMMED: Final = (
    "waiting", "pending", "lane_pending", "active", "expired", "scheduled", "dead", "lanes",
    "completed", "failed",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The figures of one queue on the wire."""

    counts: Counts | None
    finished: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRead:
    """A queue's figures and a page of one of its lists; each may fail by itself."""

    counts: Counts | None
    counts_problem: Problem | None
    finished: int | None = None
    parts: dict[str, Part] = field(default_factory=dict)  # by queue on the wire, all of its bands
    now_ms: int | None = None  # when the list was read
    slice: Slice | None = None
    page_problem: Problem | None = None
    scan: Scan | None = None
    lanes: list[tuple[str, Lane]] | None = None  # each with its queue on the wire

    @property
    def oldest(self) -> Moment | None:
        """How long the head of the flat set has been waiting."""
        return oldest_of(self.counts) if self.counts else None

    @property
    def used(self) -> bool:
        """Tell whether the figures show any job, now or before."""
        return bool(self.counts) and any(getattr(self.counts, name) for name in SUMMED)


def everything(_: Entry) -> bool:
    """Let every job be a hit."""
    return True


def queue_page(
    name: str, ask: Ask, *, with_jobs: bool, value_bytes: int, shows: Shows = everything
) -> QueueRead:
    """Return a queue's figures and, ``with_jobs``, the page of jobs that is asked for.

    Values above ``value_bytes`` are not read; 0 reads none. ``shows`` has the last word on what a
    search found: a hit in text that the reader may not see is none.
    """
    every, wanted = bands.queues_of(name), bands.queues_of(name, ask.band)
    calls: list[tuple[Queue, Call[Any]]] = [(keys(one), read.counts(keys(one))) for one in every]
    calls += [(keys(one), browse.tally(keys(one), browse.FINISHED)) for one in every]
    # A window is told by the server's now, so its list is read behind the figures.
    plan = None if _needs_now(ask) else paging.plan(ask, 0)
    if with_jobs and plan:
        calls += _list_calls(wanted, ask, plan, value_bytes)
    answers = ask_where(calls)
    found = answers[2 * len(every) :]
    figures = _figures(every, wanted, answers)
    if not with_jobs:
        return QueueRead(**figures)
    if ask.tab is Tab.LANES:
        return QueueRead(**figures, **_lanes(wanted, found))
    if plan is None:
        counts = figures["counts"]
        if counts is None:
            return QueueRead(**figures, page_problem=figures["counts_problem"])
        plan = paging.plan(ask, counts.now_ms)
        if ask.sieve:
            return QueueRead(**figures, **search(wanted, ask, plan, value_bytes, shows))
        found = ask_where(_list_calls(wanted, ask, plan, value_bytes))
    return QueueRead(**figures, **_plain(ask, plan, wanted, found))


def _needs_now(ask: Ask) -> bool:
    return ask.tab is not Tab.LANES and bool(ask.window or ask.sieve)


def _figures(every: Sequence[str], wanted: Sequence[str], answers: list[Any]) -> dict[str, Any]:
    """Return the figures of each band, and the sum of those that are asked for."""
    counts = dict(zip(every, answers, strict=False))
    parts = {
        name: Part(
            counts=counts[name] if isinstance(counts[name], Counts) else None,
            finished=finished if isinstance(finished, int) else None,
        )
        for name, finished in zip(every, answers[len(every) :], strict=False)
    }
    finished = [parts[name].finished for name in wanted]
    return {
        **_good_or_problem("counts", sum_of([counts[name] for name in wanted])),
        "finished": None if None in finished else sum(one or 0 for one in finished),
        "parts": parts,
    }


def _plain(
    ask: Ask, plan: paging.Plan, wanted: Sequence[str], found: Sequence[Any]
) -> dict[str, Any]:
    """Return the page: of several bands the rows that come first in all of them."""
    if problem := _first_problem(found):
        return {"page_problem": problem}
    size = conf().admin.page_size
    hits = [
        Hit(name, entry) for name, page in zip(wanted, found, strict=True) for entry in page.entries
    ]
    if len(wanted) > 1:
        hits = paging.in_order(hits, reverse=plan.place.reverse)
    more = len(hits) > size or any(page.more for page in found)
    return {
        "now_ms": max(page.now_ms for page in found),
        "slice": paging.cut(ask, plan, hits[:size], more),
    }


def _lanes(wanted: Sequence[str], found: Sequence[Any]) -> dict[str, Any]:
    if problem := _first_problem(found):
        return {"page_problem": problem}
    return {
        "lanes": [(name, one) for name, some in zip(wanted, found, strict=True) for one in some]
    }


def _first_problem(answers: Sequence[Any]) -> Problem | None:
    return next((words.problem(one) for one in answers if isinstance(one, Exception)), None)


def oldest_of(counts: Counts) -> Moment | None:
    """Return how long the head of the flat set has been waiting, if its id tells."""
    head = counts.oldest_pending_id
    return minted_of(head, counts.now_ms) if head else None


def minted_of(job_id: str, now_ms: int) -> Moment | None:
    """Return when an id was minted; an id that another speaker made up does not tell."""
    at_ms = minted_or_none(job_id)
    return None if at_ms is None else words.minted(at_ms, now_ms)


def _list_calls(
    wanted: Sequence[str], ask: Ask, plan: paging.Plan, value_bytes: int
) -> list[tuple[Queue, Call[Any]]]:
    return [(keys(one), _list_call(keys(one), ask, plan, value_bytes)) for one in wanted]


def _list_call(queue: Queue, ask: Ask, plan: paging.Plan, value_bytes: int) -> Call[Any]:
    if ask.tab is Tab.LANES:
        return lanes.lane_depths(queue, [ask.lane] if ask.lane else None, LANES)
    size, place = conf().admin.page_size, plan.place
    if ask.job_set == browse.FINISHED:
        return browse.finished(queue, size, place, value_bytes=value_bytes)
    return read.page(
        queue,
        ask.job_set,
        size,
        cursor=place.cursor,
        cursor_score=place.score,
        reverse=place.reverse,
        value_bytes=value_bytes,
    )


def _good_or_problem(name: str, answer: Any) -> dict[str, Any]:
    if isinstance(answer, Exception):
        return {name: None, f"{name}_problem": words.problem(answer)}
    return {name: answer, f"{name}_problem": None}
