"""The page of all queues: a line of figures for each, their sum, and how the servers keep jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.formats import localize
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from emq_django import reading
from emq_django.admin import health, render, words, workers
from emq_django.admin.base import named, read_at
from emq_django.admin.lists import SUMMED, oldest_of
from emq_django.admin.rights import may
from emq_django.admin.words import Moment, Problem
from emq_django.conf import conf, keys
from emq_django.connections import admin_wire_for
from emq_django.errors import EmqError, WireError
from emq_django.protocol.records import Counts

if TYPE_CHECKING:
    from emq_django.admin.base import PagesAdmin
    from emq_django.admin.links import Links


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    """One queue of the overview: its figures, or why there are none."""

    name: str
    counts: Counts | None = None
    problem: Problem | None = None

    @property
    def oldest(self) -> Moment | None:
        """How long the head of the flat set has been waiting."""
        return oldest_of(self.counts) if self.counts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All queues that the settings or the server name."""

    lines: list[QueueLine]
    left_out: int  # names above the limit of a page
    known: int  # queues before the filter
    registry_problem: Problem | None
    now_ms: int | None
    totals: dict[str, int] = field(default_factory=dict)
    servers: list[health.Server] = field(default_factory=list)
    is_cut_off: bool = False  # from a server: asking it once more would wait once more

    @property
    def unread(self) -> int:
        """How many queues the totals leave out."""
        return sum(line.counts is None for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One queue in the overview; no counts where there is a problem."""

    name: str
    url: str | None
    counts: Counts | None
    problem: Problem | None
    oldest: Moment | None
    in_lanes: str  # how many of the waiting jobs, in words
    folded: str


def look(name_part: str, may_see: Callable[[str], bool]) -> Overview:
    """Return a line for each queue whose name holds ``name_part`` and that one may see."""
    noted = reading.noted(reading.wires())
    lost = {wire: exc for wire, exc in noted.troubles.items() if isinstance(exc, WireError)}
    names = {name for name in {*conf().queues, *noted.names} if may_see(name)}
    wanted = sorted(name for name in names if name_part.casefold() in name.casefold())
    shown = wanted[: conf().admin.max_queues]
    lines = [_line(name, found) for name, found in reading.counts_of(shown, lost).items()]
    figures = [line.counts for line in lines if line.counts]
    trouble = next(iter(noted.troubles.values()), None)
    return Overview(
        lines=lines,
        left_out=len(wanted) - len(shown),
        known=len(names),
        registry_problem=None if trouble is None else words.problem(trouble),
        now_ms=max((counts.now_ms for counts in figures), default=None),
        totals={name: sum(getattr(counts, name) for counts in figures) for name in SUMMED},
        servers=_servers(shown, lost),
        is_cut_off=bool(lost),
    )


def _line(name: str, found: Counts | Exception) -> QueueLine:
    if isinstance(found, Exception):
        return QueueLine(name=name, problem=words.problem(found))
    return QueueLine(name=name, counts=found)


def _servers(names: list[str], lost: Mapping[int, Exception]) -> list[health.Server]:
    """Ask each server that answers how it keeps jobs."""
    asked = {id(wire): (wire, queue.base) for queue in map(keys, names)
             for wire in [admin_wire_for(queue)]}  # fmt: skip
    return [health.ask(*one) for number, one in asked.items() if number not in lost]


def show(page: PagesAdmin, request: HttpRequest) -> TemplateResponse:
    """Show one line per queue."""
    links = page.links()
    wanted = request.GET.get("q", "").strip()[:128]
    found = problem = None
    try:
        found = look(wanted, lambda name: may(request, "view_queue", name))
    except EmqError as exc:
        problem = words.problem(exc)
    return page.page(
        request,
        "overview",
        [(_("Queues"), None)],
        title=_("Queues"),
        found=found,
        lines=rows_of(found.lines, links) if found else [],
        health=_health(found),
        problem=problem,
        read_at=read_at(found.now_ms if found else None),
        workers_url=links.workers,
        periodic_url=links.periodic,
        wanted=wanted,
        dropped=named(set(request.GET) - {"q"}),
    )


def rows_of(lines: list[QueueLine], links: Links) -> list[QueueRow]:
    """Return the rows of the overview."""
    return [
        QueueRow(
            name=render.one_line(line.name, 128),
            url=links.queue(line.name),
            counts=line.counts,
            problem=line.problem,
            oldest=line.oldest,
            in_lanes=_in_lanes(line.counts) if line.counts else "",
            folded=_folded(line.counts, line.oldest) if line.counts else "",
        )
        for line in lines
    ]


def _in_lanes(counts: Counts) -> str:
    if not counts.lane_pending:
        return ""
    text = ngettext("%(jobs)s in %(lanes)s lane", "%(jobs)s in %(lanes)s lanes", counts.lanes)
    return text % {"jobs": localize(counts.lane_pending), "lanes": localize(counts.lanes)}


def _folded(counts: Counts, oldest: Moment | None) -> str:
    figures = {
        _("Expired leases"): counts.expired,
        _("Scheduled"): counts.scheduled,
        _("Completed"): counts.completed,
        _("Failed"): counts.failed,
    }
    said = [f"{label} {localize(figure)}" for label, figure in figures.items()]
    if in_lanes := _in_lanes(counts):
        said.insert(0, _("Waiting: %s") % in_lanes)
    if oldest:
        said.append(_("Oldest pending %s") % oldest.words)
    return " · ".join(said)


def _health(found: Overview | None) -> list[health.Note]:
    if found is None or found.now_ms is None:
        return []
    seen = None if found.is_cut_off else workers.alive()
    return health.notes(found.servers, found.totals.get("expired"), seen)
