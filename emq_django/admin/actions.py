"""What happens when a button is pressed: permission, question, action, record and answer.

Every action is a POST that ends in a redirect back to the same list, and is safe to send twice. It
tells three numbers: done, no longer applicable, failed. Actions on all that match go on in
``walking``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from emq_django.admin import acting, audit, bands, filters, render, tokens, walking
from emq_django.admin.acting import Outcome, Target
from emq_django.admin.asking import Ask, Tab
from emq_django.admin.base import SeeOther
from emq_django.admin.registry import VERBS, Confirm, Scope, Verb
from emq_django.admin.rights import may
from emq_django.admin.tokens import cursor_from
from emq_django.conf import conf, keys
from emq_django.errors import EmqError
from emq_django.protocol.ids import is_branded

if TYPE_CHECKING:
    from emq_django.admin.base import PagesAdmin

MOST_SELECTED = 500
_SIGHT = {
    Scope.JOBS: ("view_job",),
    Scope.MATCHING: ("view_job",),
    Scope.PAYLOAD: ("view_job", "view_payload_job"),
}
_ELSEWHERE = {Scope.SCHEDULE, Scope.PAYLOAD}  # on pages of their own
_NUMBERS = {"limit": (0, 1_000_000), "weight": (1, 1_000)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Press:
    """A button that was pressed: on which page, for what."""

    page: PagesAdmin
    request: HttpRequest
    queue: str
    ask: Ask
    back: str  # where the answer leads
    job_id: str = ""  # on the page of a job: the only one that it may be about

    @property
    def confirmed(self) -> bool:
        """Tell whether the question was answered."""
        return bool(self.request.POST.get("confirmed"))

    def answer(self, level: int, text: str) -> SeeOther:
        """Lead back with a message."""
        messages.add_message(self.request, level, text)
        return SeeOther(self.back)


def allowed(request: HttpRequest, verb: Verb, queue: str) -> bool:
    """Tell whether the user may do this on a queue, and see what it is done to."""
    sight = _SIGHT.get(verb.scope, ())
    return all(may(request, codename, queue) for codename in (*sight, verb.codename))


def buttons(request: HttpRequest, queue: str, ask: Ask, *, ghosts: bool) -> dict[str, list[Verb]]:
    """Return the actions of a list that the user may press; the others are not there at all."""
    found: dict[str, list[Verb]] = {scope.value: [] for scope in Scope}
    for verb in VERBS.values():
        fits = verb.scope is Scope.QUEUE or ask.tab in verb.tabs
        fits = fits and (ghosts or verb.name != "drop_ghosts")
        if fits and allowed(request, verb, queue):
            found[verb.scope.value].append(verb)
    return found


def job_buttons(request: HttpRequest, queue: str, tab: Tab, *, ghost: bool) -> list[Verb]:
    """Return the actions of one job's page that fit its state and that the user may press."""
    return [
        verb
        for verb in VERBS.values()
        if verb.scope is Scope.JOBS
        and tab in verb.tabs
        and (verb.name == "drop_ghosts") == ghost
        and allowed(request, verb, queue)
    ]


def handle(press: Press) -> HttpResponseBase:
    """Do what a POST asks for, or ask back."""
    verb = VERBS.get(press.request.POST.get("action", ""))
    wrong_page = press.job_id and verb and verb.scope is not Scope.JOBS
    if verb is None or wrong_page or verb.scope in _ELSEWHERE:
        return press.answer(messages.ERROR, _("There is no such action."))
    if not allowed(press.request, verb, press.queue):
        raise PermissionDenied
    if not press.job_id and verb.tabs and press.ask.tab not in verb.tabs:
        return press.answer(messages.ERROR, _("This action does not fit this list."))
    if verb.scope is Scope.MATCHING or verb.name == "drain":
        return walking.begin(press, verb)
    if verb.scope is Scope.QUEUE:
        return _on_queue(press, verb)
    return _on_selected(press, verb)


def _on_selected(press: Press, verb: Verb) -> HttpResponseBase:
    targets = _targets(press, lanes=verb.scope is Scope.LANES)
    count = sum(map(len, targets.values()))
    if not count:
        return press.answer(messages.WARNING, _("Select at least one first."))
    if count > MOST_SELECTED:
        text = _("At most %d can be selected at once.") % MOST_SELECTED
        return press.answer(messages.ERROR, text)
    copies_alone = verb.name == "copy" and not all(
        target.copy_id for some in targets.values() for target in some
    )
    if verb.confirm is not Confirm.NO and (not press.confirmed or copies_alone):
        return ask_back(press, verb, count)
    if verb.scope is Scope.LANES:
        return _on_lanes(press, verb, targets)
    return _on_jobs(press, verb, targets)


def _targets(press: Press, *, lanes: bool) -> dict[str, list[Target]]:
    """Return what was selected, by the queue on the wire that holds it."""
    found: dict[tuple[str, str], Target] = {}
    copies = tokens.copies_from(press.request.POST.get("copies", ""))
    for value in press.request.POST.getlist("id"):
        band, rest = bands.target_of(value)
        token, _dot, attempts = rest.partition(".")
        target = token if lanes and is_branded(token) else None if lanes else cursor_from(token)
        if not target or (band and band not in bands.NAMES):
            continue
        if press.job_id and target != press.job_id:
            continue
        queue = bands.queues_of(press.queue, band)[0] if band else press.queue
        found[queue, target] = Target(id=target, token=attempts, copy_id=copies.get(value, ""))
    by_queue: dict[str, list[Target]] = {}
    for (queue, _target), one in found.items():
        by_queue.setdefault(queue, []).append(one)
    return by_queue


def ask_back(press: Press, verb: Verb, count: int | None, **more: Any) -> HttpResponseBase:
    """Show the question: verb, queue, filter and count, never the list."""
    request = press.request
    shown = render.one_line(conf().base_of(press.queue), 128)
    selected = request.POST.getlist("id")[: MOST_SELECTED + 1]
    kept = [("id", value) for value in selected]
    if verb.name == "copy":
        kept.append(("copies", tokens.copies_token(selected)))
    if verb.once:
        kept.append(("once", tokens.once_token()))
    context = {
        "verb": verb,
        "count": count,
        "shown_queue": shown,
        "list_name": "" if press.job_id else filters.TABS[press.ask.tab],
        "shown_job": render.name(press.job_id),
        "described": filters.described(press.ask),
        "kept": [("action", verb.name), *kept],
        "typed": verb.confirm is Confirm.TYPED,
        "back": press.back,
        "target": request.get_full_path(),
        **more,
    }
    links = press.page.links()
    crumbs = [
        (_("Queues"), links.queues),
        (shown, links.queue(press.queue)),
        (_("Are you sure?"), None),
    ]
    return press.page.page(request, "confirm", crumbs, title=_("Are you sure?"), **context)


def _on_jobs(press: Press, verb: Verb, targets: dict[str, list[Target]]) -> HttpResponseBase:
    lane = press.ask.lane if press.ask.tab is Tab.PENDING else ""
    total = Outcome()
    try:
        for queue, some in targets.items():
            if total.lost:
                outcome = Outcome(failed=len(some), lost=True)
            else:
                outcome = acting.JOB_VERBS[verb.name](keys(queue), some, lane)
            audit.record(press.request, verb, queue, outcome)
            total.add(outcome)
    except EmqError as exc:
        return press.answer(messages.ERROR, str(exc))
    _tell(press.request, verb, total)
    return SeeOther(press.back)


def _on_lanes(press: Press, verb: Verb, targets: dict[str, list[Target]]) -> HttpResponseBase:
    number = 0
    if verb.number:
        least, most = _NUMBERS[verb.number]
        text = press.request.POST.get(verb.number, "")
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 8 else -1
        if not least <= number <= most:
            question = _("Give a whole number from %(least)d to %(most)d.")
            return press.answer(messages.ERROR, question % {"least": least, "most": most})
    total = Outcome()
    try:
        for queue, some in targets.items():
            names = [target.id for target in some]
            if total.lost:
                outcome = Outcome(failed=len(some), lost=True)
            else:
                outcome = acting.change_lanes(keys(queue), verb.name, names, number)
            said = [
                f"{queue}:" if queue != press.queue else "",
                f"{number}:" if verb.number else "",
            ]
            extra = " ".join([*filter(None, said), ", ".join(outcome.done)])
            audit.record(press.request, verb, queue, outcome, extra)
            total.add(outcome)
    except EmqError as exc:
        return press.answer(messages.ERROR, str(exc))
    _tell(press.request, verb, total)
    return SeeOther(press.back)


def _on_queue(press: Press, verb: Verb) -> HttpResponseBase:
    if verb.confirm is not Confirm.NO and not press.confirmed:
        return ask_back(press, verb, None)
    try:
        outcome = acting.QUEUE_VERBS[verb.name](keys(press.queue))
    except EmqError as exc:
        return press.answer(messages.ERROR, str(exc))
    audit.record(press.request, verb, press.queue, outcome)
    _tell(press.request, verb, outcome)
    return SeeOther(press.back)


def sent_before() -> str:
    """Return what a form is told that was sent twice."""
    return _("This was sent before; it is not done a second time.")


def _tell(request: HttpRequest, verb: Verb, outcome: Outcome) -> None:
    text, level = in_words(verb, len(outcome.done), outcome.skipped, outcome.failed)
    if outcome.problem:
        text = f"{text} {outcome.problem.headline} {outcome.problem.detail}"
        level = max(level, messages.WARNING)
    messages.add_message(request, level, text)


def in_words(verb: Verb, done: int, skipped: int, failed: int) -> tuple[str, int]:
    """Return the three numbers as a sentence, and the level that they deserve."""
    parts = [ngettext("%d done", "%d done", done) % done]
    if skipped:
        parts.append(
            ngettext("%d no longer applicable", "%d no longer applicable", skipped) % skipped
        )
    if failed:
        parts.append(
            ngettext("%d failed, outcome unknown", "%d failed, outcome unknown", failed) % failed
        )
    level = messages.ERROR if failed and not done else messages.WARNING
    if not (skipped or failed):
        level = messages.SUCCESS
    return f"{verb.label}: {', '.join(parts)}.", level
