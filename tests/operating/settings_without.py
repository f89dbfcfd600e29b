"""A project without Django's admin or a database; on Django 5.2, one without tasks either."""

from __future__ import annotations

import sys
from typing import Any

import django

from tests.settings import CACHES, SECRET_KEY, USE_TZ
from tests.settings import EMQ as _EMQ

if django.VERSION < (6, 0):
    sys.modules["django_tasks"] = None  # type: ignore[assignment] # importing it fails

__all__ = ["CACHES", "EMQ", "INSTALLED_APPS", "SECRET_KEY", "USE_TZ"]

INSTALLED_APPS = ["emq_django"]
EMQ: dict[str, Any] = {**_EMQ, "QUEUES": {"bare": {"HANDLER": "builtins.repr"}}}
