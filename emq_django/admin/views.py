"""The admins of queues and jobs: which address is which page, and which codename opens it.

Who may open a page is asked in ``base``; each page has a module of its own. Looking writes nothing;
what a POST does is in ``actions``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from emq_django.admin import (
    downloads,
    editing,
    jobs,
    metrics,
    overview,
    queues,
    schedules,
    walking,
    workers,
)
from emq_django.admin.base import PagesAdmin, keys_or_404
from emq_django.admin.links import key_of, split_key
from emq_django.admin.registry import Route
from emq_django.models import Job, Queue

if TYPE_CHECKING:
    from django.db.models import Model


_TAKES_ACTIONS = ("GET", "HEAD", "POST")


class QueueAdmin(PagesAdmin):
    """The overview of all queues, and the page of one."""

    routes = (
        Route(pattern="", name="changelist", method="overview", codename="view_queue"),
        Route(
            pattern="<path:object_id>/change/",
            name="change",
            method="queue",
            codename="view_queue",
            methods=_TAKES_ACTIONS,
        ),
        Route(
            pattern="<path:object_id>/walk/",
            name="walk",
            method="walk",
            codename="view_queue",
            methods=_TAKES_ACTIONS,
        ),
        Route(
            pattern="<path:object_id>/history/",
            name="history",
            method="history",
            codename="view_queue",
        ),
        Route(
            pattern="<path:object_id>/metrics/",
            name="metrics",
            method="metrics",
            codename="view_queue",
        ),
        Route(pattern="workers/", name="workers", method="workers", codename="view_queue"),
        Route(
            pattern="periodic/",
            name="periodic",
            method="periodic",
            codename="view_queue",
            methods=_TAKES_ACTIONS,
        ),
    )

    def queue_of(self, object_id: str) -> str:
        """Return the name of the queue that an address is about."""
        return key_of(object_id)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Model | None:
        """Return what the stock history page is about, without asking a table."""
        return Queue(name=key_of(object_id))

    def overview(self, request: HttpRequest) -> TemplateResponse:
        """Show one line per queue."""
        return overview.show(self, request)

    def queue(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Show a queue's figures and one of its lists; take its actions."""
        return queues.show(self, request, key_of(object_id))

    def walk(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Show how far an action on all that match is, and go on with it."""
        return walking.show(self, request, key_of(object_id))

    def metrics(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Show a queue's figures over time."""
        return metrics.show(self, request, key_of(object_id))

    def workers(self, request: HttpRequest) -> HttpResponseBase:
        """Show the workers that were seen."""
        return workers.show(self, request)

    def periodic(self, request: HttpRequest) -> HttpResponseBase:
        """Show the periodic tasks; take their actions."""
        return schedules.show(self, request)

    def history(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show what was done to a queue: the stock page."""
        keys_or_404(key_of(object_id))
        return self.history_view(request, object_id)


class JobAdmin(PagesAdmin):
    """The page of one job."""

    routes = (
        Route(pattern="", name="changelist", method="jobs", codename="view_job"),
        Route(
            pattern="<path:object_id>/change/",
            name="change",
            method="job",
            codename="view_job",
            methods=_TAKES_ACTIONS,
        ),
        Route(
            pattern="<path:object_id>/history/",
            name="history",
            method="history",
            codename="view_job",
        ),
        Route(
            pattern="<path:object_id>/edit/",
            name="edit",
            method="edit",
            codename="change_job",
            methods=_TAKES_ACTIONS,
        ),
        Route(
            pattern="<path:object_id>/download/",
            name="download",
            method="download",
            codename="download_payload_job",
            methods=("POST",),
        ),
    )

    def queue_of(self, object_id: str) -> str:
        """Return the name of the queue that an address is about."""
        key = split_key(key_of(object_id))
        if key is None:
            raise Http404(_("A job's address is its queue and its id."))
        return key[0]

    def get_model_perms(self, request: HttpRequest) -> dict[str, bool]:
        """Keep jobs off the index: they are reached through their queue."""
        return {}

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Model | None:
        """Return what the stock history page is about, without asking a table."""
        return Job(key=key_of(object_id))

    def jobs(self, request: HttpRequest) -> HttpResponseBase:
        """Lead on to the queues: there is no list of all jobs of all queues."""
        url = self.links().queues
        if url is None:
            raise Http404
        return HttpResponseRedirect(url)

    def job(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Show all that is known of a job; take its actions."""
        return jobs.show(self, request, *_queue_and_id(object_id))

    def edit(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Show the form for the payload of a job; take what it sends."""
        return editing.show(self, request, *_queue_and_id(object_id))

    def download(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Send the raw payload of a job."""
        name, job_id = _queue_and_id(object_id)
        return downloads.send(self, request, keys_or_404(name), job_id)

    def history(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show what was done to a job: the stock page."""
        return self.history_view(request, object_id)


def register(site: admin.AdminSite) -> None:
    """Put the pages on a site; both models belong together, since the pages link to each other."""
    site.register(Queue, QueueAdmin)
    site.register(Job, JobAdmin)


def _queue_and_id(object_id: str) -> tuple[str, str]:
    return split_key(key_of(object_id)) or ("", "")  # queue_of has refused what is no such key
