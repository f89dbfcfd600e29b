"""The pages of an action on all that match: its question, its steps and its progress.

A step is a POST that ends in a redirect to the progress page, so that reloading runs nothing. The
entry of the admin log is written before the first step and rewritten by each; a step that finds
another text there than its state tells was taken already, and does nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from django.conf import settings
from django.contrib import messages
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import override

from emq_django.admin import (
    acting,
    actions,
    asking,
    audit,
    bands,
    bulk,
    filters,
    paging,
    render,
    tokens,
    words,
)
from emq_django.admin.asking import Ask, Tab
from emq_django.admin.base import SeeOther
from emq_django.admin.bulk import Walk
from emq_django.admin.registry import VERBS, Confirm, Verb
from emq_django.admin.rights import may
from emq_django.conf import conf, keys
from emq_django.errors import EmqError
from emq_django.models import Queue

if TYPE_CHECKING:
    from emq_django.admin.actions import Press
    from emq_django.admin.base import PagesAdmin

logger = logging.getLogger("emq_django.admin")

_LOOK_EVERY_S = 0.5  # whether somebody pressed stop


def begin(press: Press, verb: Verb) -> HttpResponseBase:
    """Ask back with the count; once that is confirmed, take the first step."""
    ask = press.ask.start()
    if verb.name == "drain":  # of the queue, or of the band and the lane that are looked at
        ask = Ask(band=ask.band, lane=ask.lane if ask.tab is Tab.PENDING else "")
    if (ask.task or ask.text) and not may(press.request, "view_payload_job", press.queue):
        raise PermissionDenied
    names = bands.queues_of(press.queue, ask.band)
    count, now_ms = _count(verb, names, ask)
    if isinstance(count, Exception):
        problem = words.problem(count)
        return press.answer(messages.ERROR, f"{problem.headline} {problem.detail}")
    wrong_name = False
    if press.confirmed and verb.confirm is Confirm.TYPED:
        wrong_name = press.request.POST.get("name", "").strip() != press.queue
    send = tokens.once_from(press.request.POST.get("once", ""))
    if not press.confirmed or wrong_name or not send:
        more = {"wrong_name": wrong_name, "at_most": bool(ask.sieve)}
        return actions.ask_back(replace(press, ask=ask), verb, count, **more)
    try:
        if not acting.is_first(keys(press.queue), send):
            return press.answer(messages.WARNING, actions.sent_before())
    except EmqError as exc:
        return press.answer(messages.ERROR, str(exc))
    bounds, ask = paging.bounds_of(ask, now_ms), ask.fixed(now_ms)
    walk = Walk(
        verb=verb.name,
        queue=press.queue,
        at=names[0],
        query=ask.url(),
        user=str(press.request.user.pk),
        low=bounds.low,
        high=bounds.high,
        low_score=bounds.low_score,
        high_score=bounds.high_score,
        matched=count,
        began_ms=_now_ms(),
    )
    flag = DELETION if verb.deletes else CHANGE
    entries = audit.add(press.request, [Queue(name=press.queue)], flag, _text(walk, verb, "begun"))
    if not entries:
        return SeeOther(press.back)  # without its entry nothing keeps a step from running twice
    return _step(press.page, press.request, walk.after(entry=entries[0].pk))


def _count(verb: Verb, names: Sequence[str], ask: Ask) -> tuple[int | Exception, int]:
    """Return how many jobs it is about and the server's now, by which a window is told."""
    try:
        now_ms = bulk.now_ms(names[0])
        if isinstance(now_ms, Exception):
            return now_ms, 0
        if verb.name == "drain":
            return bulk.waiting(names, ask.lane), now_ms
        return bulk.matched(names, ask, now_ms), now_ms
    except EmqError as exc:
        return exc, 0


def show(page: PagesAdmin, request: HttpRequest, name: str) -> HttpResponseBase:
    """Show how far a walk is, go on with it, or stop it."""
    user = str(request.user.pk)
    state = request.POST.get("state") or request.GET.get("state", "")
    walk = bulk.read_state(state, user)
    links = page.links()
    back = links.queue(name) or "../change/"
    if walk is None or walk.queue != name:
        messages.error(request, _("This address tells nothing of an action of yours."))
        return SeeOther(back)
    verb = VERBS[walk.verb]
    if not actions.allowed(request, verb, name):
        raise PermissionDenied
    if request.method == "POST":
        if "stop" in request.POST:
            return _stop(page, request, walk, verb)
        return _step(page, request, walk)
    shown = render.one_line(name, 128)
    ask = _ask_of(walk)
    said, _level = actions.in_words(verb, walk.done, walk.skipped, walk.failed)
    return page.page(
        request,
        "walk",
        [(_("Queues"), links.queues), (shown, back), (str(verb.label), None)],
        title=str(verb.label),
        walk=walk,
        verb=verb,
        said=said,
        state=state,
        described=filters.described(ask),
        list_url=links.queue(name, ask),
        share=min(100, 100 * walk.looked // walk.matched) if walk.matched else 100,
        still=not walk.over,
    )


def _ask_of(walk: Walk) -> Ask:
    ask, _dropped = asking.parse(dict(parse_qsl(walk.query.removeprefix("?"))))
    return ask


def _step(page: PagesAdmin, request: HttpRequest, walk: Walk) -> HttpResponseBase:
    verb, links = VERBS[walk.verb], page.links()
    back = links.queue(walk.queue, _ask_of(walk)) or "../change/"
    running = walk.after(step=walk.step + 1)
    before, during = _text(walk, verb, "begun"), _text(running, verb, "running")
    if walk.over or not _swap(walk.entry, before, during):
        messages.warning(request, _("This step was taken already, here or in another tab."))
        return SeeOther(back)
    ask = _ask_of(walk)
    sees = may(request, "view_payload_job", walk.queue)
    contents = render.Contents(request, walk.queue, allowed=sees)
    value_bytes = conf().admin.preview_max_bytes if sees else 0
    try:
        step = bulk.advance(
            running,
            ask,
            lambda entry: contents.shows(entry, ask),
            _Look(walk.entry, during),
            value_bytes=value_bytes,
        )
    except EmqError as exc:
        step = bulk.Step(running, words.problem(exc))
    walk = step.walk
    stopped = not _swap(walk.entry, during, _text(walk, verb, "done" if walk.over else "begun"))
    if step.problem:
        messages.error(request, f"{step.problem.headline} {step.problem.detail}")
    if stopped:
        walk = walk.after(over=True)
        _close(walk, _text(walk, verb, "stopped"))
    if walk.over:
        audit.tell(request, verb, walk.queue, [], walk.done, walk.skipped, walk.failed)
        text, level = actions.in_words(verb, walk.done, walk.skipped, walk.failed)
        messages.add_message(request, level, text)
        return SeeOther(back)
    return SeeOther(links.walk(walk.queue, walk.signed()) or back)


def _stop(page: PagesAdmin, request: HttpRequest, walk: Walk, verb: Verb) -> HttpResponseBase:
    """End a walk between two steps, or tell the step that is running to end."""
    entry = LogEntry.objects.filter(pk=walk.entry).first()
    back = page.links().queue(walk.queue, _ask_of(walk)) or "../change/"
    if entry is None or not _is_open(entry.change_message):
        messages.warning(request, _("This action is over already."))
        return SeeOther(back)
    _close(walk, _text(walk, verb, "stopped"))
    audit.tell(request, verb, walk.queue, [], walk.done, walk.skipped, walk.failed)
    text, _level = actions.in_words(verb, walk.done, walk.skipped, walk.failed)
    messages.warning(request, _("Stopped. %s") % text)
    return SeeOther(back)


class _Look:
    """Tells whether the entry still says that this step is running; asks twice a second."""

    def __init__(self, entry: int, during: str) -> None:
        self._entry, self._during = entry, during
        self._asked = time.monotonic()

    def __call__(self) -> bool:
        if time.monotonic() - self._asked < _LOOK_EVERY_S:
            return True
        self._asked = time.monotonic()
        return LogEntry.objects.filter(pk=self._entry, change_message=self._during).exists()


def _swap(entry: int, before: str, after: str) -> bool:
    """Change the entry's text if it is what it should be. False: somebody else was faster."""
    changed = LogEntry.objects.filter(pk=entry, change_message=before).update(change_message=after)
    return changed == 1


def _close(walk: Walk, text: str) -> None:
    LogEntry.objects.filter(pk=walk.entry).update(change_message=text)


def _is_open(text: str) -> bool:
    return text.endswith(("[begun]", "[running]"))


def _text(walk: Walk, verb: Verb, mark: str) -> str:
    """Return what the log says of a walk: verb, filter, bounds, counts and how long it took."""
    ask = _ask_of(walk)
    with override(settings.LANGUAGE_CODE), timezone.override(timezone.get_default_timezone()):
        parts = [str(verb.past)]
        if said := filters.described(ask):
            parts.append(f"({audit.safe('; '.join(said))})")
        if walk.low or walk.high:
            parts.append(f"{walk.low or '…'} to {walk.high or '…'}")
        if walk.low_score is not None or walk.high_score is not None:
            parts.append(f"{walk.low_score or '…'} to {walk.high_score or '…'}")
        numbers = _("%(done)d done, %(skipped)d skipped, %(failed)d failed of %(matched)d") % {
            "done": walk.done,
            "skipped": walk.skipped,
            "failed": walk.failed,
            "matched": walk.matched,
        }
    took = f" {(_now_ms() - walk.began_ms) / 1000:.1f} s" if mark in {"done", "stopped"} else ""
    tail = "" if mark == "done" else f" [{mark}]"
    return f"{' '.join(parts)}: {numbers}{f' #{walk.step}' if mark != 'done' else ''}{took}{tail}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
