"""The page of the workers that were seen on the servers of this project."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _

from emq_django.admin import render, words
from emq_django.admin.rights import may
from emq_django.admin.words import Moment, Problem
from emq_django.conf import conf
from emq_django.errors import EmqError
from emq_django.protocol import workers
from emq_django.protocol.workers import WorkerSeen
from emq_django.reading import ask_each, wires

if TYPE_CHECKING:
    from emq_django.admin.base import PagesAdmin
    from emq_django.admin.links import Links

MOST: Final = 1_000
_MOST_LINKS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A queue or a job by name, with its page if there is one."""

    name: str
    url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """One worker tree."""

    host: str
    pid: int
    incarnation: str
    version: str
    queues: list[Named]
    more_queues: int
    concurrency: int
    processes: int
    busy: list[Named]
    busy_count: int
    up: str
    beat: Moment
    gone: bool


def show(page: PagesAdmin, request: HttpRequest) -> HttpResponseBase:
    """Show each worker: where it runs, what it serves, what it does, and when it was last heard."""
    links, rows, problems = page.links(), list[WorkerRow](), list[Problem]()
    now_ms: int | None = None
    try:
        for wire in wires():
            (seen,) = ask_each(wire, [workers.workers(conf().queue_prefix, MOST)])
            if isinstance(seen, Exception):
                problems.append(words.problem(seen))
                continue
            now_ms = seen.now_ms
            rows += [_row(request, links, one, seen.now_ms) for one in seen.workers]
    except EmqError as exc:
        problems.append(words.problem(exc))
    return page.page(
        request,
        "workers",
        [(_("Queues"), links.queues), (_("Workers"), None)],
        title=_("Workers"),
        rows=rows,
        known=now_ms is not None,
        problem=problems[0] if problems else None,
        read_at=None if now_ms is None else words.stamp(now_ms),
        dropped="",
    )


def _row(request: HttpRequest, links: Links, worker: WorkerSeen, now_ms: int) -> WorkerRow:
    served = dict.fromkeys(map(conf().base_of, worker.queues))  # not the bands of one
    names = [name for name in served if may(request, "view_queue", name)]
    busy = [one for one in worker.busy if may(request, "view_job", one.queue)]
    gone = worker.is_gone(now_ms)
    beat = words.ended(worker.last_beat_ms, now_ms)
    return WorkerRow(
        host=render.name(worker.host),
        pid=worker.pid,
        incarnation=render.name(worker.incarnation),
        version=render.name(worker.version),
        queues=[
            Named(name=render.one_line(name, 128), url=links.queue(name))
            for name in names[:_MOST_LINKS]
        ],
        more_queues=max(len(names) - _MOST_LINKS, 0),
        concurrency=worker.concurrency,
        processes=worker.processes,
        busy=[
            Named(name=render.name(one.id), url=links.job(one.queue, one.id))
            for one in busy[:_MOST_LINKS]
        ],
        busy_count=worker.busy_count,
        up=words.span(now_ms - worker.started_ms) if worker.started_ms else "-",
        beat=Moment(beat.words, beat.iso, beat.local, late=gone),
        gone=gone,
    )


def alive() -> int | None:
    """Count the workers that are heard of now; None where a server can't tell."""
    total = 0
    for wire in wires():
        (seen,) = ask_each(wire, [workers.workers(conf().queue_prefix, MOST)])
        if isinstance(seen, Exception):
            return None
        total += len(seen.alive())
    return total
