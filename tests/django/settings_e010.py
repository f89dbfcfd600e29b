"""A periodic task whose schedule can not work."""

from __future__ import annotations

from tests.settings import *  # noqa: F403
from tests.settings import EMQ as _EMQ

EMQ = {
    **_EMQ,
    "TASK_MODULES": [],
    "PERIODIC": {"nightly": {"TASK": "tests.timetable.zoo.tick", "CRON": "0 3 * *"}},
}
TASKS = {"default": {"BACKEND": "emq_django.task_backend.EmqBackend"}}
