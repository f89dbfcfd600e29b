"""The page of the periodic tasks: when each fired, when it will, and a way to pause or fire one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _

from emq_django.admin import audit, render, tokens, words
from emq_django.admin.acting import Outcome, is_first
from emq_django.admin.actions import sent_before
from emq_django.admin.base import SeeOther
from emq_django.admin.redact import mask_secrets
from emq_django.admin.registry import VERBS, Scope, Verb
from emq_django.admin.rights import may
from emq_django.admin.words import Moment
from emq_django.conf import conf
from emq_django.connections import admin_wire_for
from emq_django.errors import EmqError, InvalidInput
from emq_django.timetable import operate

if TYPE_CHECKING:
    from collections.abc import Callable

    from emq_django.admin.base import PagesAdmin
    from emq_django.admin.links import Links
    from emq_django.timetable.operate import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """One periodic task."""

    name: str
    shown_name: str
    task: str
    rule: str
    queue: str
    queue_url: str | None
    paused: bool
    last: Moment | None
    job_id: str
    job_url: str | None
    next: Moment | None
    trouble: str
    verbs: list[Verb]
    once: str  # what its form carries, so that nothing is fired by a second send


def show(page: PagesAdmin, request: HttpRequest) -> HttpResponseBase:
    """Show every entry of the timetable, or do to one what a button says."""
    if request.method == "POST":
        return _press(page, request)
    links, problem = page.links(), None
    rows: list[ScheduleRow] = []
    try:
        rows = [
            _row(request, links, one)
            for one in operate.standings(admin_wire_for)
            if not one.queue or may(request, "view_queue", one.queue)
        ]
    except EmqError as exc:
        problem = words.problem(exc)
    return page.page(
        request,
        "periodic",
        [(_("Queues"), links.queues), (_("Periodic tasks"), None)],
        title=_("Periodic tasks"),
        rows=rows,
        problem=problem,
        read_at=None,
        dropped="",
    )


def _row(request: HttpRequest, links: Links, one: Standing) -> ScheduleRow:
    state = one.state
    verbs = [
        verb
        for verb in VERBS.values()
        if verb.scope is Scope.SCHEDULE and one.queue and may(request, verb.codename, one.queue)
        if verb.name != ("pause_schedule" if one.is_paused else "resume_schedule")
    ]
    return ScheduleRow(
        name=one.entry.name,
        shown_name=render.one_line(one.entry.name, 128),
        task=render.one_line(one.task, 128),
        rule=render.one_line(str(one.entry.schedule), 128),
        queue=render.one_line(conf().base_of(one.queue), 128),
        queue_url=links.queue(one.queue) if one.queue else None,
        paused=one.is_paused,
        last=words.stamp(state.fired_ms) if state.fired_ms else None,
        job_id=render.name(state.job_id),
        job_url=links.job(one.queue, state.job_id)
        if state.job_id and may(request, "view_job", one.queue)
        else None,
        next=words.stamp(one.next_ms) if one.next_ms is not None else None,
        trouble=mask_secrets(render.one_line(one.trouble, 300)),
        verbs=verbs,
        once=tokens.once_token() if any(verb.once for verb in verbs) else "",
    )


def _press(page: PagesAdmin, request: HttpRequest) -> HttpResponseBase:
    verb = VERBS.get(request.POST.get("action", ""))
    back = SeeOther(request.get_full_path())
    if verb is None or verb.scope is not Scope.SCHEDULE:
        messages.error(request, _("There is no such action."))
        return back
    name = request.POST.get("id", "")
    if not may(request, verb.codename):
        raise PermissionDenied
    try:
        named = operate.entry_called(name).queue
    except InvalidInput:  # which names there are is not for all to know
        messages.error(request, _("There is no periodic task of this name."))
        return back
    except EmqError as exc:
        messages.error(request, mask_secrets(render.one_line(str(exc), 300)))
        return back
    queue = named.name
    if not (may(request, "view_queue", queue) and may(request, verb.codename, queue)):
        raise PermissionDenied
    outcome, job_id = Outcome(), ""
    send = tokens.once_from(request.POST.get("once", ""))
    if verb.once and not send:
        messages.warning(request, _("The page was open for too long. Press the button again."))
        return back
    try:
        if verb.once and not is_first(named, send):
            messages.warning(request, sent_before())
            return back
        job_id, changed = _ACTS[verb.name](name)
    except Exception as exc:  # noqa: BLE001 - a task's own enqueue runs code of the project
        outcome.failed, outcome.problem = 1, words.problem(exc)
        audit.record(request, verb, queue, outcome)
        detail = mask_secrets(outcome.problem.detail)
        messages.error(request, f"{outcome.problem.headline} {detail}")
        return back
    if not changed:
        messages.warning(request, _("%s: nothing to change.") % render.one_line(name, 128))
        return back
    outcome.done.append(name)
    audit.record(request, verb, queue, outcome, " ".join(part for part in (name, job_id) if part))
    messages.success(request, f"{verb.label}: {render.one_line(name, 128)} {job_id}".strip())
    return back


def _fire(name: str) -> tuple[str, bool]:
    return operate.fire_now(name).rpartition(":")[2], True  # a result's id names its queue first


def _pause(name: str) -> tuple[str, bool]:
    return "", operate.pause(name, admin_wire_for)


def _resume(name: str) -> tuple[str, bool]:
    return "", operate.resume(name, admin_wire_for)


_ACTS: dict[str, Callable[[str], tuple[str, bool]]] = {
    "fire_schedule": _fire,
    "pause_schedule": _pause,
    "resume_schedule": _resume,
}
