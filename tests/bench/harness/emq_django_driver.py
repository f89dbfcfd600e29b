"""Our driver for the harness that compares job queues; see README.md in this folder.

`BENCH_EMQ=task` enqueues tasks, anything else raw jobs. Shipped defaults everywhere: leases,
retries, figures and the list of workers are on, or the numbers would not be ours to quote.
"""

from __future__ import annotations

import logging
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]  # the harness's own modules, and this folder

import common  # type: ignore[import-not-found]  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable

    from emq_django import Job

QUEUE = "bench"
TASKS = os.environ.get("BENCH_EMQ") == "task"
# Concurrency of the modes of the harness; `c8_procs` has as many processes of one job each.
MODES = {
    "c1": ["--concurrency", "1"],
    "c8": ["--concurrency", "8"],
    "c8_procs": ["--processes", "8", "--concurrency", "1"],
}


def setup() -> None:
    """Configure a project with one queue on the harness's server."""
    import django
    from django.conf import settings

    if settings.configured:
        return
    backend = {"BACKEND": "emq_django.task_backend.EmqBackend", "QUEUES": [QUEUE]}
    settings.configure(
        INSTALLED_APPS=["emq_django"],
        SECRET_KEY="bench",
        USE_TZ=True,
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        TASKS={"default": backend} if TASKS else {},
        EMQ={
            "CONNECTION": common.URL,
            "QUEUES": {QUEUE: {} if TASKS else {"HANDLER": "emq_django_driver.handle"}},
        },
    )
    django.setup()
    logging.disable(logging.INFO)
    if TASKS:
        import_module("emq_django_tasks")


def handle(job: Job) -> None:
    """Mark a raw job as run."""
    common.mark(int(job.payload.split(b" ", 1)[0]))


class Driver:
    """The harness's four verbs."""

    is_async = False
    can_bulk = True

    def open(self) -> None:
        """Get ready to enqueue."""
        setup()
        import emq_django

        self._emq: Any = emq_django
        if TASKS:
            self._task: Any = import_module("emq_django_tasks").mark

    def enqueue(self, number: int, payload: str) -> None:
        """Enqueue one job."""
        if TASKS:
            self._task.enqueue(number, payload)
        else:
            self._emq.enqueue(QUEUE, f"{number} {payload}".encode())

    def enqueue_many(self, numbers: Iterable[int], payload: str) -> None:
        """Enqueue many jobs in one call."""
        if TASKS:
            self._task.enqueue_many([(one, payload) for one in numbers])
        else:
            self._emq.enqueue_many(QUEUE, [f"{one} {payload}".encode() for one in numbers])

    def worker(self, mode: str) -> None:
        """Run the worker until SIGTERM."""
        setup()
        from django.core.management import call_command

        call_command("emq_worker", QUEUE, *MODES[mode])


if __name__ == "__main__":
    common.main(Driver)
