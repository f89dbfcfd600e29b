"""Queues and jobs inside Django's admin: registered on the project's default site.

``register(site)`` puts the pages on a further site as well. How it is built::

    views     the two admins: which URL is which page
    overview, queues, jobs, workers, schedules, metrics
              a page each: reads the server and gives its template what to show
    lists     one of a queue's lists, as one bounded read; ``asking`` and ``paging`` say which,
              ``searching`` looks at rows for a filter; ``bands`` are queues that stand for one
    rows      records as rows and facts; ``words`` has times, sizes and failures
    render    data as text that is safe to look at, behind ``redact``
    actions   what a POST does; ``registry`` has them all, ``walking`` those on all that match

Commands show data with ``render`` too, in projects without Django's admin as well: those get no
pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import apps

if TYPE_CHECKING:
    from emq_django.admin.views import register

__all__ = ["register"]


def __getattr__(name: str) -> Any:
    # Loaded late: Django's admin can be imported only where it is installed.
    if name == "register":
        from emq_django.admin.views import register

        return register
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if apps.is_installed("django.contrib.admin"):
    from django.contrib import admin

    from emq_django.admin import views

    views.register(admin.site)
