"""A misspelt setting in a project whose URLs import tasks."""

from __future__ import annotations

from tests.settings import *  # noqa: F403

ROOT_URLCONF = "tests.django.urls_with_tasks"
TASKS = {"default": {"BACKEND": "emq_django.task_backend.EmqBackend"}}
EMQ = {"CONNECTION": "queue", "QEUES": {}}
