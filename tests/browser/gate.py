"""A handler that holds each job until a file appears, so that a test can look at running jobs."""

from __future__ import annotations

import time

from emq_django.worker.job import Job
from example_project.airports import handlers
from tests.browser.site_settings import GATE


def on_chunk(job: Job) -> None:
    while not GATE.exists():
        time.sleep(0.02)  # the test opens the gate from another process
    handlers.on_chunk(job)
