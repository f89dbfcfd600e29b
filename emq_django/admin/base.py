"""What both models' admins share: own URLs, a permission per page, and the frame of a page.

Our own views instead of the change list: a list of a million jobs can't be a queryset. The pages
themselves are in ``views``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, ClassVar

import django
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseNotAllowed, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext as _

from emq_django.admin import render, words
from emq_django.admin.links import Links
from emq_django.admin.registry import Route
from emq_django.admin.rights import may
from emq_django.conf import keys
from emq_django.errors import InvalidQueueName

if TYPE_CHECKING:
    from django.db.models import Model

    from emq_django.protocol import keyspace

    _Admin = admin.ModelAdmin[Any]
else:
    _Admin = admin.ModelAdmin

_FRAGMENT_HEADER = "X-Emq-Fragment"
_CRUMBS_ARE_A_LIST = django.VERSION >= (6, 1)


class SeeOther(HttpResponseRedirect):
    """Go on with a GET."""

    status_code = 303


class PagesAdmin(_Admin):
    """Own URLs, one permission per page, no form of any kind."""

    routes: ClassVar[tuple[Route, ...]]

    def get_urls(self) -> list[URLPattern]:
        """Return our pages in place of the stock ones, which would ask a table."""
        stem = f"{self.opts.app_label}_{self.opts.model_name}"
        return [
            path(route.pattern, self._view(route), name=f"{stem}_{route.name}")
            for route in self.routes
        ]

    def _view(self, route: Route) -> Any:
        method = getattr(self, route.method)

        def view(request: HttpRequest, **kwargs: str) -> HttpResponseBase:
            # admin_view only asks who may enter the site; each page asks for its own codename.
            queue = self.queue_of(kwargs["object_id"]) if "object_id" in kwargs else None
            if not may(request, route.codename, queue):
                raise PermissionDenied
            if request.method not in route.methods:
                return HttpResponseNotAllowed(route.methods)
            response: HttpResponseBase = method(request, **kwargs)
            return response

        return self.admin_site.admin_view(update_wrapper(view, method))

    def queue_of(self, object_id: str) -> str:
        """Return the name of the queue that an address is about."""
        raise NotImplementedError

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Say no: jobs come from code."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Say no: there is no form."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Say no: there is no delete page."""
        return False

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Ask for the view codename alone; another right to a job does not open its page."""
        return may(request, f"view_{self.opts.model_name}")

    def links(self) -> Links:
        """Return the links of this site."""
        return Links(self.admin_site.name)

    def page(
        self, request: HttpRequest, name: str, crumbs: list[tuple[str, str | None]], **context: Any
    ) -> TemplateResponse:
        """Return a page, or only the part that changes when the script asks for that."""
        request.current_app = self.admin_site.name
        whole = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "crumbs": crumbs,
            "crumbs_are_a_list": _CRUMBS_ARE_A_LIST,
            "unit": name,
            **context,
        }
        fragment = "_fragment" in request.GET
        template = (
            f"admin/emq_django/{name}_live.html" if fragment else f"admin/emq_django/{name}.html"
        )
        response = TemplateResponse(request, template, whole)
        if fragment:
            response[_FRAGMENT_HEADER] = "1"
        return response


def keys_or_404(name: str) -> keyspace.Queue:
    """Return the keys of a queue; a name that can't be one is not found."""
    try:
        return keys(name)
    except InvalidQueueName as exc:
        raise Http404(_("This is not the name of a queue.")) from exc


def read_at(now_ms: int | None) -> words.Moment | None:
    """Return the moment of the server's clock at which a page was read."""
    return None if now_ms is None else words.stamp(now_ms)


def named(dropped: Iterable[str]) -> str:
    """Return the parameters that a page ignored, as its note names them."""
    names = sorted(name for name in dropped if not name.startswith("_"))
    return ", ".join(render.name(name) for name in names[:10])
