"""Settings of the workers that tests start as processes: EMQ_TEST_QUEUES holds EMQ["QUEUES"]."""

from __future__ import annotations

import json
import os
from typing import Any

from tests.settings import *  # noqa: F403
from tests.settings import CACHES as _CACHES
from tests.settings import DATABASES as _DATABASES
from tests.settings import EMQ as _EMQ

# Connections that outlive a job, as in production: whoever owns the thread must close them.
_DEFAULT: dict[str, Any] = {**_DATABASES["default"], "CONN_MAX_AGE": 60}
DATABASES = {"default": _DEFAULT}
_MORE: dict[str, Any] = json.loads(os.environ.get("EMQ_TEST_CACHES", "{}"))
CACHES = {**_CACHES, **_MORE}
EMQ = {**_EMQ, "QUEUES": json.loads(os.environ.get("EMQ_TEST_QUEUES", "{}"))}
if "EMQ_TEST_WORKER_URL" in os.environ:
    EMQ["CONNECTION"] = os.environ["EMQ_TEST_WORKER_URL"]
