"""The page of one queue: its figures, one of its lists, and the actions on both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _

from emq_django.admin import actions, asking, audit, bands, filters, lists, render, rows, words
from emq_django.admin.actions import Press
from emq_django.admin.asking import Ask, Tab
from emq_django.admin.base import keys_or_404, named, read_at
from emq_django.admin.render import Shown
from emq_django.admin.rights import may
from emq_django.conf import conf, keys
from emq_django.errors import EmqError
from emq_django.models import Queue
from emq_django.protocol import browse, read
from emq_django.protocol.ids import is_branded
from emq_django.protocol.records import Row
from emq_django.reading import ask_where

if TYPE_CHECKING:
    from emq_django.admin.base import PagesAdmin
    from emq_django.admin.links import Links
    from emq_django.protocol import keyspace
    from emq_django.protocol.calls import Call


def show(page: PagesAdmin, request: HttpRequest, name: str) -> HttpResponseBase:
    """Show a queue's figures and one of its lists; take its actions."""
    keys_or_404(name)
    links = page.links()
    sees_jobs = may(request, "view_job", name)
    sees_payload = sees_jobs and may(request, "view_payload_job", name)
    name, ask, dropped = _asked(name, request)
    if request.method == "POST":
        back = (links.queue(name) or request.path) + ask.url()
        return actions.handle(Press(page=page, request=request, queue=name, ask=ask, back=back))
    if not sees_payload and (ask.task or ask.text):
        dropped += [one for one in ("task", "text") if getattr(ask, one)]
        ask = asking.without_contents(ask)
    if sees_jobs and is_branded(ask.prefix) and (url := _job_url(links, name, ask.prefix)):
        return HttpResponseRedirect(url)
    found = problem = None
    job_rows: list[rows.JobRow] = []
    try:
        contents = render.Contents(request, name, allowed=sees_payload)
        found = lists.queue_page(
            name,
            ask,
            with_jobs=sees_jobs,
            value_bytes=conf().admin.preview_max_bytes if sees_payload else 0,
            shows=lambda entry: contents.shows(entry, ask),
        )
        if found.slice and found.now_ms is not None:
            job_rows = rows.job_rows(ask, found.now_ms, found.slice.hits, contents, links)
    except EmqError as exc:
        problem = words.problem(exc)
    shown_name = render.one_line(name, 128)
    counts = found.counts if found else None
    ghosts = ask.tab is not Tab.FINISHED and any(row.ghost for row in job_rows)
    buttons = actions.buttons(request, name, ask, ghosts=ghosts) if counts else {}
    return page.page(
        request,
        "queue",
        [(_("Queues"), links.queues), (shown_name, None)],
        title=_("Queue %(name)s") % {"name": shown_name},
        shown_name=shown_name,
        base_url=links.queue(name) or "",
        here=ask.url(),
        history_url=links.history(Queue, name),
        metrics_url=links.metrics(name),
        lanes_url=links.lanes(name, ask.band),
        found=found,
        problem=problem,
        rows=job_rows,
        lanes=rows.lane_rows(found.lanes, links) if found and found.lanes else [],
        most_lanes=lists.LANES,
        ask=ask,
        tab=ask.tab.value,
        **_columns(ask, found, job_rows, sees_payload=sees_payload),
        buttons=buttons,
        selectable=bool(buttons.get("jobs") or buttons.get("lanes")),
        paused_by=audit.last_pause(name) if counts and counts.paused else None,
        previous=_url(found, "previous"),
        following=_url(found, "following"),
        sees_jobs=sees_jobs,
        sees_payload=sees_payload,
        read_at=read_at(_now_of(found)),
        window_name=asking.WINDOW_PARAMETERS[ask.tab][0] if ask.window else "",
        default_order=ask.order is asking.default_order(ask.tab),
        dropped=named(dropped),
        **filters.context(ask, found, sees_payload=sees_payload),
    )


def _asked(name: str, request: HttpRequest) -> tuple[str, Ask, list[str]]:
    """Return the queue, what is asked of it, and what makes no sense; a band as its queue."""
    ask, dropped = asking.parse(request.GET.dict())
    base, band = bands.split(name)
    if base != name:
        return base, replace(ask, band=band), dropped
    if ask.band and not band:
        return base, replace(ask, band=""), [*dropped, "band"]
    return base, ask, dropped


def _job_url(links: Links, name: str, job_id: str) -> str | None:
    """Return the page of a job, in the band that knows it."""
    parts = bands.queues_of(name)
    if len(parts) == 1:
        return links.job(name, job_id)
    calls: list[tuple[keyspace.Queue, Call[Any]]] = [
        (keys(one), read.state(keys(one), job_id)) for one in parts
    ]
    calls += [(keys(one), browse.result_row(keys(one), job_id, 1)) for one in parts]
    try:
        answers = ask_where(calls)
    except EmqError:
        return None  # the list says what is wrong
    known = [
        one
        for one, state, result in zip(
            parts, answers[: len(parts)], answers[len(parts) :], strict=True
        )
        if (isinstance(state, str) and state != "absent") or isinstance(result, Row)
    ]
    return links.job(known[0] if known else name, job_id)


def _columns(
    ask: Ask, found: lists.QueueRead | None, shown: list[rows.JobRow], *, sees_payload: bool
) -> dict[str, bool]:
    """Return which columns a list has, and which of them a narrow screen folds away."""
    return {
        "has_band": found is not None and len(found.parts) > 1 and not ask.band,
        "has_moment": ask.by_score,
        "has_worker": ask.tab is Tab.ACTIVE,
        "has_ran": ask.tab is Tab.FINISHED,
        "has_lane": any(row.lane for row in shown),
        "has_task": any(row.task for row in shown),
        "has_died": any(row.died for row in shown),
        "has_error": ask.tab is Tab.DEAD
        or (ask.tab is Tab.SCHEDULE and any(row.error != Shown() for row in shown)),
        "folds_payload": sees_payload and ask.tab is not Tab.PENDING,
    }


def _url(found: lists.QueueRead | None, side: str) -> str | None:
    ask = getattr(found.slice, side) if found and found.slice else None
    return ask.url() if ask else None


def _now_of(found: lists.QueueRead | None) -> int | None:
    if found is None or found.counts is None:
        return found.now_ms if found else None
    return found.counts.now_ms
