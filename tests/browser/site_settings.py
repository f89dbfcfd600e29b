"""The example's settings, with jobs that wait until the test lets them run."""

from __future__ import annotations

from example_project.settings import *  # noqa: F403
from example_project.settings import DATA_DIR
from example_project.settings import EMQ as _EMQ

GATE_NAME = "gate-is-open"
GATE = DATA_DIR / GATE_NAME

EMQ = {**_EMQ, "QUEUES": {"imports": {"HANDLER": "tests.browser.gate.on_chunk"}}}
