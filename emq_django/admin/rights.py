"""Who may open and do what: Django's permissions, and the project's say about single queues."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.utils.module_loading import import_string

from emq_django.conf import conf
from emq_django.errors import ConfigError
from emq_django.models import Queue

logger = logging.getLogger("emq_django.admin")

# (user, codename, queue) -> whether; asked after the permission itself was found.
Can = Callable[[Any, str, str], bool]


def may(request: HttpRequest, codename: str, queue: str | None = None) -> bool:
    """Tell whether the user holds a codename of ``models``, and may use it on ``queue``.

    The project is asked about queues as its settings name them: about none of their bands.
    """
    app_label = Queue._meta.app_label  # noqa: SLF001 - documented by Django
    if not request.user.has_perm(f"{app_label}.{codename}"):
        return False
    return queue is None or _is_allowed(request, codename, queue)


def _is_allowed(request: HttpRequest, codename: str, queue: str) -> bool:
    try:
        path, queue = conf().admin.can, conf().base_of(queue)
    except ConfigError:
        return True  # nothing can be read or done; the page says why
    if not path:
        return True
    try:
        can: Can = import_string(path)
        return can(request.user, codename, queue) is True
    except Exception:  # the boundary to code of the project: a fault must close, not open
        logger.exception("EMQ['ADMIN']['CAN'] failed", extra={"queue": queue, "codename": codename})
        return False
