"""The task that our driver enqueues with BENCH_EMQ=task."""

from __future__ import annotations

import common  # type: ignore[import-not-found]  # of the harness

from emq_django import task


@task(queue_name="bench")
def mark(number: int, payload: str) -> None:
    """Mark a task as run."""
    del payload
    common.mark(number)
