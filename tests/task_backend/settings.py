"""Settings of the workers that tests of tasks start; EMQ_TEST_QUEUES holds EMQ["QUEUES"]."""

from __future__ import annotations

import json
import os

from tests.settings import *  # noqa: F403
from tests.settings import EMQ as _EMQ

_QUEUES = json.loads(os.environ.get("EMQ_TEST_QUEUES", "{}"))

EMQ = {
    **_EMQ,
    "QUEUES": _QUEUES,
    "TASK_MODULES": ["tests.task_backend.zoo"],
    **json.loads(os.environ.get("EMQ_TEST_EMQ", "{}")),
}
TASKS = {
    "default": {
        "BACKEND": "emq_django.task_backend.EmqBackend",
        # The tasks are declared for "default"; the tests give each call its own queue.
        "QUEUES": ["default", *(name for name, its in _QUEUES.items() if "HANDLER" not in its)],
    }
}
