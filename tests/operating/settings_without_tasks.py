"""A project with Django's admin that, on Django 5.2, has no tasks."""

from __future__ import annotations

import sys

import django

from tests.settings import *  # noqa: F403
from tests.settings import EMQ as _EMQ

if django.VERSION < (6, 0):
    sys.modules["django_tasks"] = None  # type: ignore[assignment] # importing it fails

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "emq_django",
]
EMQ = {**_EMQ, "QUEUES": {"bare": {"HANDLER": "builtins.repr"}}}
