"""Tasks on a Django that has none, without the backport."""

from __future__ import annotations

import sys

import django

from tests.settings import *  # noqa: F403

if django.VERSION < (6, 0):
    sys.modules["django_tasks"] = None  # type: ignore[assignment] # importing it fails

TASKS = {"default": {"BACKEND": "emq_django.task_backend.EmqBackend"}}
