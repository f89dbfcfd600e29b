"""Tasks of a second release, which workers with `tests.task_backend.zoo` alone don't know."""

from __future__ import annotations

import json
import os
from pathlib import Path

from emq_django import task
from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import claim, settle
from emq_django.protocol.records import ClaimedJob
from emq_django.task_backend.context import EmqTaskContext


@task
def renamed(name: str) -> str:
    with Path(os.environ["EMQ_TEST_LEDGER"]).open("a") as ledger:
        ledger.write(json.dumps({"event": "ran", "name": name}) + "\n")
    return name


@task(result_ttl_s=5)
def keeps_for_5_s() -> int:
    return 1


@task(result_ttl_s=0)
def keeps_nothing() -> int:
    return 1


@task(takes_context=True)
def loses_its_lease(context: EmqTaskContext) -> None:
    """Another worker holds the job when this run ends."""
    queue = keys(context.emq.queue)
    job = ClaimedJob(context.emq.job_id, b"", context.emq.token, queue.name)
    wire_for(queue).run(settle.release(queue, job))
    assert wire_for(queue).run(claim.take(queue, "another", 60_000)).jobs
