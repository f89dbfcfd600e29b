"""Other bytes for the payload of a job that waits, is scheduled or is dead: form, question, change.

Whoever changes a payload must see all of it: where the redaction hook hides a part, or where it
holds what a form can't carry back as it was, there is no form. The change is made only if the
payload is still the one that the form showed, byte by byte, and no worker holds the job.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _

from emq_django.admin import audit, jobs, render, words
from emq_django.admin.acting import Outcome
from emq_django.admin.actions import allowed
from emq_django.admin.base import SeeOther, keys_or_404
from emq_django.admin.redact import indent
from emq_django.admin.registry import VERBS
from emq_django.admin.render import Contents
from emq_django.arguments import payload_bytes
from emq_django.conf import conf
from emq_django.connections import admin_wire_for
from emq_django.errors import EmqError
from emq_django.protocol import operate
from emq_django.protocol.operate import Updated
from emq_django.reading import ask_each

if TYPE_CHECKING:
    from emq_django.admin.base import PagesAdmin
    from emq_django.protocol.records import Blob

VERB: Final = VERBS["edit"]
_ENVELOPE: Final = '{"v":'  # what a payload of a task begins with
_DIFFERENCE_LINES: Final = 400
_COMPARED_LINES: Final = 2_000  # comparing takes the square of their number


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A payload as the form shows it, or why there is no form."""

    text: str = ""
    digest: str = ""  # of the bytes, so that the change is about no others
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the difference between two payloads."""

    mark: str
    text: str


def show(page: PagesAdmin, request: HttpRequest, name: str, job_id: str) -> HttpResponseBase:
    """Show the form; take what it sends: first a question with the difference, then the change."""
    may = allowed(request, VERB, name)
    if request.method == "POST" and not may:
        raise PermissionDenied
    if may:
        seen = _seen(request, name, job_id)
    else:
        seen = Seen(refusal=_("To change a payload you must be allowed to see it."))
    if request.method != "POST":
        return _form(page, request, name, job_id, seen, text=seen.text)
    text = request.POST.get("payload", "").replace("\r\n", "\n")
    wrong = seen.refusal or _wrong(seen, text, request.POST.get("digest", ""))
    if wrong:
        messages.error(request, wrong)
        return SeeOther(page.links().job(name, job_id) or "../change/")
    wrong = _wrong_text(seen.text, text)
    if wrong or "back" in request.POST:
        return _form(page, request, name, job_id, seen, text=text, wrong=wrong)
    if "confirmed" not in request.POST:
        return _form(
            page, request, name, job_id, seen, text=text, difference=_difference(seen.text, text)
        )
    return _change(page, request, name, job_id, seen, text)


def _seen(request: HttpRequest, name: str, job_id: str) -> Seen:
    most = conf().admin.payload_max_bytes
    try:
        found = jobs.look(keys_or_404(name), job_id, most)
    except EmqError as exc:
        return Seen(refusal=str(exc))
    if found.problem:
        return Seen(refusal=f"{found.problem.headline} {found.problem.detail}")
    blob = found.row.fields.get("payload") if found.row else None
    if blob is None or found.tab not in VERB.tabs:
        return Seen(refusal=_("Only a job that waits, is scheduled or is dead can be changed."))
    return _readable(Contents(request, name, allowed=True), job_id, blob)


def _readable(contents: Contents, job_id: str, blob: Blob) -> Seen:
    """Return the text of a payload if it is all of it, and a form can bring it back unchanged."""
    raw = blob.value
    if raw is None:
        return Seen(refusal=_("The payload is too large to be changed here."))
    shown = contents.line_of(job_id, "payload", blob)
    if shown.encode("utf-8", "replace") != raw:
        return Seen(refusal=_("Parts of this payload are hidden, so it can't be changed here."))
    if render.visible(shown) != shown:
        return Seen(refusal=_("This payload holds characters that a form can't carry."))
    if shown.startswith(_ENVELOPE) and not shown.endswith("}"):
        return Seen(refusal=_("This payload is signed: a change would make its signature wrong."))
    return Seen(text=shown, digest=hashlib.sha1(raw, usedforsecurity=False).hexdigest())


def _wrong(seen: Seen, text: str, digest: str) -> str:
    if digest != seen.digest:
        return _("The payload is no longer the one that you saw: look again.")
    if text == seen.text:
        return _("Nothing was changed.")
    return ""


def _wrong_text(old: str, new: str) -> str:
    """Return why a text can't be the payload; nothing where it can."""
    try:
        payload_bytes(new.encode())
    except EmqError as exc:
        return str(exc)
    except UnicodeEncodeError:
        return _("This is no valid text.")
    if not old.startswith(_ENVELOPE):
        return _("This would turn the job into a task.") if new.startswith(_ENVELOPE) else ""
    try:
        before, after = json.loads(old), json.loads(new)
    except (ValueError, RecursionError):
        return _("The payload of a task must be JSON.")
    same = ("v", "task")
    if not isinstance(after, dict) or any(after.get(key) != before.get(key) for key in same):
        return _("A job stays with its task: leave v and task as they are.")
    kinds = {"args": list, "kwargs": dict}
    if not new.startswith(_ENVELOPE) or any(
        not isinstance(after.get(key), kind) for key, kind in kinds.items()
    ):
        return _("Leave the fields of the task where they are: v first, args a list, kwargs a map.")
    return ""


def _difference(old: str, new: str) -> list[Line]:
    """Return what changes, of JSON as it is laid out; where only blanks do, of the text itself."""
    found = _lines(indent(old), indent(new)) or _lines(old, new)
    if len(found) > _DIFFERENCE_LINES:
        found = [*found[:_DIFFERENCE_LINES], Line(mark=" ", text="…")]
    return found


def _lines(old: str, new: str) -> list[Line]:
    """Return the lines that differ, and two around each; the last line break counts too."""
    before, after = _between(old.split("\n"), new.split("\n"))
    if max(len(before), len(after)) > _COMPARED_LINES:
        told = [*_first("-", before), *_first("+", after)]
    else:
        told = list(difflib.unified_diff(before, after, n=2, lineterm=""))
        told = told[2:]  # behind two lines that would name files
    return [
        Line(mark=line[:1], text=render.visible(line[1:]))
        for line in told
        if not line.startswith("@@")
    ]


def _first(mark: str, lines: list[str]) -> list[str]:
    some = _DIFFERENCE_LINES // 2 - 1
    return [f"{mark}{line}" for line in (*lines[:some], *["…"] * (len(lines) > some))]


def _between(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Return what lies between the lines that both begin and both end with, and two of those."""
    most = min(len(old), len(new))
    head = next((at for at in range(most) if old[at] != new[at]), most)
    tail = next((at for at in range(most - head) if old[-1 - at] != new[-1 - at]), most - head)
    start, end = max(head - 2, 0), max(tail - 2, 0)
    return old[start : len(old) - end], new[start : len(new) - end]


def _form(
    page: PagesAdmin, request: HttpRequest, name: str, job_id: str, seen: Seen, **context: Any
) -> HttpResponseBase:
    links = page.links()
    job_url, title = links.job(name, job_id), str(VERB.label)
    shown_queue = render.one_line(conf().base_of(name), 128)
    crumbs = [
        (_("Queues"), links.queues),
        (shown_queue, links.queue(name)),
        (render.name(job_id), job_url),
        (title, None),
    ]
    return page.page(
        request,
        "edit",
        crumbs,
        title=title,
        verb=VERB,
        seen=seen,
        shown_queue=shown_queue,
        shown_job=render.name(job_id),
        job_url=job_url,
        most_bytes=words.size(conf().max_payload_bytes),
        **context,
    )


def _change(
    page: PagesAdmin, request: HttpRequest, name: str, job_id: str, seen: Seen, text: str
) -> HttpResponseBase:
    queue, back = keys_or_404(name), SeeOther(page.links().job(name, job_id) or "../change/")
    call = operate.update_payload(queue, job_id, text.encode(), seen.digest)
    (answer,) = ask_each(admin_wire_for(queue), [call])
    outcome = Outcome()
    outcome.note(
        [job_id],
        answer if isinstance(answer, Exception) else [answer],
        lambda one: one is Updated.UPDATED,
    )
    sizes = f"{len(seen.text.encode())} → {len(text.encode())} B"
    audit.record(request, VERB, name, outcome, sizes)
    if outcome.problem:
        messages.error(request, f"{outcome.problem.headline} {outcome.problem.detail}")
    elif outcome.done:
        messages.success(request, str(VERB.past))
    else:
        text = _("A worker took the job, or its payload was changed, meanwhile: nothing was done.")
        messages.warning(request, text)
    return back
