"""Async tasks of the chaos run; they write the ledger that its handlers write."""

from __future__ import annotations

import asyncio

from emq_django import task
from emq_django.task_backend.context import EmqTaskContext
from emq_django.worker.job import Job
from tests.worker.zoo import note


@task(takes_context=True)
async def work(context: EmqTaskContext, sleep_s: float) -> None:
    """Note a start, sleep, note an end."""
    run = Job(id=context.emq.job_id, payload=b"", attempts=context.emq.token)
    note("start", run)
    await asyncio.sleep(sleep_s)
    note("end", run)
