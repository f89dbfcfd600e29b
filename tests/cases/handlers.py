"""Handlers of the cases, for workers in processes of their own."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from emq_django import Retry
from tests.worker.zoo import note, work

if TYPE_CHECKING:
    from emq_django.worker.job import Job

CLOCK_OFFSET_S = "EMQ_TEST_CLOCK_OFFSET_S"


def nothing(job: Job) -> None:
    """Do nothing."""


def full(job: Job) -> None:
    """Work, but only on a job that has its payload."""
    if not job.payload:
        note("empty", job)
    work(job)


def with_a_wrong_clock(job: Job) -> None:
    """Ask for another run in 3 s at the first one, if the payload says so."""
    if json.loads(job.payload).get("again") and not job.failures:
        note("first", job)
        raise Retry("again", in_ms=3_000)
    work(job)


def _put_the_clock_wrong(offset_s: float) -> None:
    right_ns = time.time_ns
    time.time_ns = lambda: right_ns() + round(offset_s * 1e9)
    time.time = lambda: time.time_ns() / 1e9


if CLOCK_OFFSET_S in os.environ:
    _put_the_clock_wrong(float(os.environ[CLOCK_OFFSET_S]))
