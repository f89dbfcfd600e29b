"""The page of one job: all that is known of it, and the actions that fit its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _

from emq_django.admin import actions, asking, render, rows, words
from emq_django.admin.actions import Press
from emq_django.admin.asking import Ask, Tab
from emq_django.admin.base import keys_or_404, named, read_at
from emq_django.admin.links import BACK, Links, job_key
from emq_django.admin.registry import VERBS
from emq_django.admin.rights import may
from emq_django.admin.words import Problem
from emq_django.conf import conf
from emq_django.connections import admin_wire_for
from emq_django.errors import EmqError
from emq_django.models import Job
from emq_django.protocol import browse, notes, read
from emq_django.protocol.calls import Call
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.records import Row
from emq_django.reading import ask_each

if TYPE_CHECKING:
    from emq_django.admin.base import PagesAdmin


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRead:
    """All that is known of a job: its row, or the result that it left, and its log."""

    row: Row | None = None
    result: Row | None = None
    log: notes.Log | None = None
    problem: Problem | None = None

    @property
    def known(self) -> Row | None:
        """The row or, where there is none, the result; what says most of the job."""
        if self.row and (self.row.field_count or self.row.held_by):
            return self.row
        return self.result or self.row

    @property
    def is_ghost(self) -> bool:
        """Tell whether an id stands in a list without a row."""
        return self.row is not None and bool(self.row.held_by) and not self.row.field_count

    @property
    def attempts(self) -> str | None:
        """The token of the claim that holds the job, as its row says it."""
        blob = self.row.fields.get("attempts") if self.row else None
        return blob.value.decode("ascii", "replace") if blob and blob.value else None

    @property
    def tab(self) -> Tab | None:
        """The list that holds the job; None for one that is in none."""
        if self.row and self.row.held_by:
            return Tab.PENDING if self.row.held_by == "lane" else Tab(self.row.held_by)
        return Tab.FINISHED if self.result else None


def look(queue: Queue, job_id: str, value_bytes: int) -> JobRead:
    """Return all of a job. Neither row nor result nor problem: nothing knows the id."""
    calls: list[Call[Any]] = [
        read.row(queue, job_id, value_bytes),
        browse.result_row(queue, job_id, value_bytes),
        notes.logs(queue, job_id),
    ]
    row, result, log = ask_each(admin_wire_for(queue), calls)
    if isinstance(row, Exception):
        return JobRead(problem=words.problem(row))
    return JobRead(
        row=row,
        result=None if isinstance(result, Exception) else result,
        log=None if isinstance(log, Exception) else log,
    )


def show(page: PagesAdmin, request: HttpRequest, name: str, job_id: str) -> HttpResponseBase:
    """Show all that is known of a job; take its actions."""
    queue = keys_or_404(name)
    links = page.links()
    if request.method == "POST":
        return _press(page, request, name, job_id)
    sees_payload = may(request, "view_payload_job", name)
    found = JobRead()
    facts: list[rows.Fact] = []
    contents: list[rows.Content] = []
    log: list[str] = []
    try:
        most = conf().admin.payload_max_bytes if sees_payload else 256
        found = look(queue, job_id, most)
        shown = render.Contents(request, name, allowed=sees_payload)
        if row := found.known:
            facts = rows.facts(name, row, links, shown)
            contents = rows.contents_of(row, shown)
        log = rows.log_lines(job_id, found.log, shown)
    except EmqError as exc:
        found = JobRead(problem=words.problem(exc))
    tab = found.tab
    back = _back(request)
    shown_queue, shown_id = render.one_line(conf().base_of(name), 128), render.name(job_id)
    queue_url = links.queue(name) if may(request, "view_queue", name) else None
    list_url = queue_url + back if queue_url else None
    return page.page(
        request,
        "job",
        [
            (_("Queues"), links.queues if queue_url else None),
            (shown_queue, list_url),
            (shown_id, None),
        ],
        title=_("Job %(id)s") % {"id": shown_id},
        object_id=job_key(name, job_id),
        shown_id=shown_id,
        shown_queue=shown_queue,
        queue_url=list_url,
        history_url=links.history(Job, job_key(name, job_id)),
        row=found.known,
        problem=found.problem,
        facts=facts,
        contents=contents,
        log=log,
        log_total=found.log.total if found.log else 0,
        verbs=actions.job_buttons(request, name, tab, ghost=found.is_ghost) if tab else [],
        token=rows.token_of(job_id, found.attempts, tab),
        download_url=_download_url(request, links, name, job_id, found),
        edit_url=_edit_url(request, links, name, job_id, found),
        sees_payload=sees_payload,
        read_at=read_at(found.known.now_ms if found.known else None),
        dropped=named(set(request.GET)),
    )


def _press(page: PagesAdmin, request: HttpRequest, name: str, job_id: str) -> HttpResponseBase:
    """Take an action on this job; a deleted one leads back to its list."""
    links, back = page.links(), _back(request)
    after = links.job(name, job_id, back) or request.path
    verb = VERBS.get(request.POST.get("action", ""))
    if verb and verb.deletes and may(request, "view_queue", name):
        after = (links.queue(name) or "") + back
    return actions.handle(
        Press(page=page, request=request, queue=name, ask=Ask(), back=after, job_id=job_id)
    )


def _edit_url(
    request: HttpRequest, links: Links, name: str, job_id: str, found: JobRead
) -> str | None:
    verb = VERBS["edit"]
    has_payload = found.row is not None and "payload" in found.row.fields
    if has_payload and found.tab in verb.tabs and actions.allowed(request, verb, name):
        return links.edit(name, job_id)
    return None


def _download_url(
    request: HttpRequest, links: Links, name: str, job_id: str, found: JobRead
) -> str | None:
    has_payload = found.known is not None and "payload" in found.known.fields
    if has_payload and may(request, "download_payload_job", name):
        return links.download(name, job_id)
    return None


def _back(request: HttpRequest) -> str:
    """Return the query string of the list that somebody came from, rebuilt from what it says."""
    raw = request.GET.get(BACK, "")
    if not raw or len(raw) > 2_000:
        return ""
    ask, _dropped = asking.parse(dict(parse_qsl(raw)))
    return ask.url()
