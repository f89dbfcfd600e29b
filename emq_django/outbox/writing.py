"""Writes jobs into the outbox, in whatever transaction is open.

Everything that an enqueue would refuse is refused here, before the row is written. What happens to
the row is the relay's business.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.db import router, transaction

from emq_django.arguments import admission, delay_in_ms, due_in_ms, unique_key
from emq_django.delivery import Admission
from emq_django.errors import ConfigError
from emq_django.protocol import ids
from emq_django.protocol.records import Receipt, Verdict

if TYPE_CHECKING:
    from emq_django.task_backend.compat import Task


def enqueue(
    queue: str,
    payload: bytes,
    *,
    job_id: str | None = None,
    lane: str | None = None,
    unique: str | None = None,
    using: str | None = None,
) -> Receipt:
    """Write a job that is enqueued once the transaction of ``using`` has committed.

    The receipt has the job's id; its verdict is DEFERRED. Raises InvalidInput as
    ``emq_django.enqueue`` does, and whatever the database raises.
    """
    return _write(admission(queue, payload, job_id, lane), unique_key(unique), using)


def enqueue_in(
    queue: str,
    payload: bytes,
    delay: int | timedelta,
    *,
    job_id: str | None = None,
    lane: str | None = None,
    unique: str | None = None,
    using: str | None = None,
) -> Receipt:
    """Write a job that is due after a delay (ms or a timedelta), counted from now."""
    due_ms = time.time_ns() // 1_000_000 + delay_in_ms(delay)
    job = admission(queue, payload, job_id, lane, "at", due_ms)
    return _write(job, unique_key(unique), using)


def enqueue_at(
    queue: str,
    payload: bytes,
    when: int | datetime,
    *,
    job_id: str | None = None,
    lane: str | None = None,
    unique: str | None = None,
    using: str | None = None,
) -> Receipt:
    """Write a job that is due at a time (an aware datetime, or Unix ms)."""
    job = admission(queue, payload, job_id, lane, "at", due_in_ms(when))
    return _write(job, unique_key(unique), using)


def enqueue_task(
    task: Task[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    using: str | None = None,
) -> Any:
    """Write one call of a task; returns its result, which can be read once the job was sent.

    ``task_enqueued`` is not sent: who sends the job later does not have the caller's objects.
    """
    from emq_django.task_backend import sending
    from emq_django.task_backend.compat import task_backends

    backend = task_backends[task.backend]
    sending.validate(task, backend)
    now_ms = time.time_ns() // 1_000_000
    order = sending.order(task, backend.alias, args, kwargs or {}, now_ms)
    return order.result(_write(order.job, order.unique, using))


def _write(job: Admission, unique: str, using: str | None) -> Receipt:
    if not apps.is_installed("emq_django.outbox"):
        raise ConfigError(
            'the outbox has no table: add "emq_django.outbox" to INSTALLED_APPS and run migrate.'
        )
    from emq_django.outbox.models import OutboxJob
    from emq_django.outbox.relaying import relay_at_once

    alias = using or router.db_for_write(OutboxJob)
    job_id = job.job_id or ids.mint.one()
    lane = job.lane or ""
    OutboxJob.objects.using(alias).create(
        queue=job.queue.name,
        lane=lane,
        stream=f"{job.queue.name}/{lane}",
        job_id=job_id,
        payload=job.payload,
        due_ms=None if job.mode == "now" else job.number,
        unique_key=unique,
    )
    transaction.on_commit(partial(relay_at_once, alias), using=alias, robust=True)
    return Receipt(job_id, Verdict.DEFERRED)
