"""What a view calls: enqueue, claim and the settlements, each with its async twin.

Arguments are checked in ``arguments``, keys and scripts built in ``protocol``. ``sending`` takes an
enqueue to its server; what happens when a reply is lost is decided in ``delivery``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from emq_django.arguments import (
    Item,
    admission,
    admissions,
    delay_in_ms,
    due_in_ms,
    error_text,
    job_under_lease,
    unique_key,
)
from emq_django.conf import keys
from emq_django.connections import async_wire_for, wire_for
from emq_django.delivery import Admission
from emq_django.protocol import claim as claiming
from emq_django.protocol import ids, settle
from emq_django.protocol.calls import Call
from emq_django.protocol.records import ClaimedJob, Receipt, Verdict
from emq_django.sending import asend, asend_bulk, send, send_bulk

logger = logging.getLogger("emq_django.enqueue")

# --- enqueue -------------------------------------------------------------------------------------


def enqueue(
    queue: str,
    payload: bytes,
    *,
    job_id: str | None = None,
    lane: str | None = None,
    unique: str | None = None,
    on_commit: bool = False,
    using: str | None = None,
    via: Any = None,
) -> Receipt:
    """Admit one job. ENQUEUED, DUPLICATE (it, or one with its key, is there), or DEFERRED.

    Args:
        queue: name of the queue.
        payload: bytes, carried as they are; at most ``EMQ["MAX_PAYLOAD_BYTES"]``.
        job_id: a branded id; without one it is minted. Admission is idempotent while its row lives.
        lane: a branded id, such as ``lane_for(user)`` gives; jobs of different lanes take turns.
        unique: a key of which one live job may exist in the queue: while a job that was enqueued
            with the same key lives, the verdict is DUPLICATE and the receipt has that job's id.
        on_commit: send when the transaction of ``using`` commits, never if it rolls back. The
            verdict is then DEFERRED; outside a transaction the job is sent at once.
        using: database alias for ``on_commit``.
        via: any object with ``run(call)``: it runs the Call in place of the configured connection.

    Raises:
        InvalidInput: an argument is refused; nothing was sent.
        KindRefused: the id is not JOB-namespaced.
        WireError: the job was not admitted by the deadline. ``ReplyLost``: it may have been.
    """
    job = admission(queue, payload, job_id, lane)
    if on_commit or unique is not None:
        return _now_or_on_commit(job, unique, on_commit, using, via)
    return send(job, via)


def enqueue_in(
    queue: str,
    payload: bytes,
    delay: int | timedelta,
    *,
    job_id: str | None = None,
    lane: str | None = None,
    unique: str | None = None,
    on_commit: bool = False,
    using: str | None = None,
    via: Any = None,
) -> Receipt:
    """Park a job for a delay (ms or a timedelta) on the server's clock. SCHEDULED or DUPLICATE."""
    job = admission(queue, payload, job_id, lane, "in", delay_in_ms(delay))
    return _now_or_on_commit(job, unique, on_commit, using, via)


def enqueue_at(
    queue: str,
    payload: bytes,
    when: int | datetime,
    *,
    job_id: str | None = None,
    lane: str | None = None,
    unique: str | None = None,
    on_commit: bool = False,
    using: str | None = None,
    via: Any = None,
) -> Receipt:
    """Park a job until a time: an aware datetime, or Unix ms. SCHEDULED or DUPLICATE."""
    job = admission(queue, payload, job_id, lane, "at", due_in_ms(when))
    return _now_or_on_commit(job, unique, on_commit, using, via)


def enqueue_many(
    queue: str, items: Iterable[Item], *, lane: str | None = None, via: Any = None
) -> list[Receipt]:
    """Admit many jobs in few trips; returns a receipt for each, in input order.

    ``items`` are payloads, or (job id, payload) pairs. Everything is checked before anything is
    sent. Not atomic as a whole: ``PartlyEnqueued`` says in ``outcomes`` what was admitted.
    """
    jobs = admissions(queue, items, lane)
    if not jobs:
        return []
    return send_bulk(jobs, via)


async def aenqueue(
    queue: str,
    payload: bytes,
    *,
    job_id: str | None = None,
    lane: str | None = None,
    unique: str | None = None,
    via: Any = None,
) -> Receipt:
    """Admit one job; the async twin of ``enqueue`` (Django's transactions are sync)."""
    return await asend(admission(queue, payload, job_id, lane), via, unique_key(unique))


async def aenqueue_in(
    queue: str,
    payload: bytes,
    delay: int | timedelta,
    *,
    job_id: str | None = None,
    lane: str | None = None,
    unique: str | None = None,
    via: Any = None,
) -> Receipt:
    """Park a job for a delay; the async twin of ``enqueue_in``."""
    job = admission(queue, payload, job_id, lane, "in", delay_in_ms(delay))
    return await asend(job, via, unique_key(unique))


async def aenqueue_at(
    queue: str,
    payload: bytes,
    when: int | datetime,
    *,
    job_id: str | None = None,
    lane: str | None = None,
    unique: str | None = None,
    via: Any = None,
) -> Receipt:
    """Park a job until a time; the async twin of ``enqueue_at``."""
    job = admission(queue, payload, job_id, lane, "at", due_in_ms(when))
    return await asend(job, via, unique_key(unique))


async def aenqueue_many(
    queue: str, items: Iterable[Item], *, lane: str | None = None, via: Any = None
) -> list[Receipt]:
    """Admit many jobs in few trips; the async twin of ``enqueue_many``."""
    jobs = admissions(queue, items, lane)
    if not jobs:
        return []
    return await asend_bulk(jobs, via)


# --- claim and settle ----------------------------------------------------------------------------


def claim(queue: str, lease_ms: int = 30_000) -> ClaimedJob | None:
    """Claim the oldest job of the flat set for ``lease_ms``; None when there is none to hand over.

    Jobs with a lane are served by workers. A claim is never sent twice: when its reply is lost
    (``ReplyLost``) the job comes back after its lease.
    """
    named = keys(queue)
    return wire_for(named).run(claiming.claim(named, lease_ms))


async def aclaim(queue: str, lease_ms: int = 30_000) -> ClaimedJob | None:
    """Claim the oldest job of the flat set; the async twin of ``claim``."""
    named = keys(queue)
    return await async_wire_for(named).run(claiming.claim(named, lease_ms))


def complete(job: ClaimedJob) -> Verdict:
    """End a job. COMPLETED, STALE (another claim holds it) or GONE (no such row)."""
    return _settle(job, settle.complete)


async def acomplete(job: ClaimedJob) -> Verdict:
    """End a job; the async twin of ``complete``."""
    return await _asettle(job, settle.complete)


def retry(
    job: ClaimedJob, *, error: str, delay_ms: int | timedelta, max_attempts: int = 5
) -> Verdict:
    """Count a failed run and run the job again after a delay. SCHEDULED, DEAD, STALE or GONE.

    It dies when failed runs and lost leases reach ``max_attempts``; ``error`` stays on its row.
    """
    return _settle(job, settle.retry, error_text(error), delay_in_ms(delay_ms), max_attempts)


async def aretry(
    job: ClaimedJob, *, error: str, delay_ms: int | timedelta, max_attempts: int = 5
) -> Verdict:
    """Count a failed run; the async twin of ``retry``."""
    return await _asettle(job, settle.retry, error_text(error), delay_in_ms(delay_ms), max_attempts)


def release(job: ClaimedJob) -> Verdict:
    """Hand a job back unfinished; the run counts for nothing. RELEASED, STALE or GONE."""
    return _settle(job, settle.release)


async def arelease(job: ClaimedJob) -> Verdict:
    """Hand a job back unfinished; the async twin of ``release``."""
    return await _asettle(job, settle.release)


def extend(job: ClaimedJob, *, lease_ms: int) -> Verdict:
    """Let the lease end ``lease_ms`` from now. EXTENDED, STALE (it was lost) or GONE."""
    return _settle(job, settle.extend, lease_ms)


async def aextend(job: ClaimedJob, *, lease_ms: int) -> Verdict:
    """Let the lease end later; the async twin of ``extend``."""
    return await _asettle(job, settle.extend, lease_ms)


# --- how they do it ------------------------------------------------------------------------------


def _now_or_on_commit(
    job: Admission, unique: str | None, on_commit: bool, using: str | None, via: Any
) -> Receipt:
    key = "" if unique is None else unique_key(unique)
    if on_commit and _is_open(transaction.get_connection(using)):
        announced = job._replace(job_id=job.job_id or ids.mint.one())
        later = partial(_send_announced, announced, job.job_id is None, via, key)
        transaction.on_commit(later, using=using)
        return Receipt(str(announced.job_id), Verdict.DEFERRED)
    return send(job, via, key)


def _is_open(database: BaseDatabaseWrapper) -> bool:
    # Without autocommit there is always a transaction; Django's on_commit refuses it and says why.
    return database.in_atomic_block or not database.get_autocommit()


def _send_announced(job: Admission, minted: bool, via: Any, unique: str) -> None:
    receipt = send(job, via, unique)
    if receipt.verdict is not Verdict.DUPLICATE:
        return
    if receipt.id != job.job_id:
        logger.info(
            "the job %s that was announced for queue %s was not enqueued: %s holds its unique key",
            job.job_id, job.queue.name, receipt.id,
        )  # fmt: skip
    elif minted:
        second = send(job._replace(job_id=None), via, unique)
        logger.error(
            "the id %s that was announced for queue %s belongs to another job; sent as %s",
            job.job_id, job.queue.name, second.id,
        )  # fmt: skip


def _settle(job: ClaimedJob, build: Callable[..., Call[Verdict]], *args: object) -> Verdict:
    queue = keys(job_under_lease(job).queue)
    return wire_for(queue).run(build(queue, job, *args))


async def _asettle(job: ClaimedJob, build: Callable[..., Call[Verdict]], *args: object) -> Verdict:
    queue = keys(job_under_lease(job).queue)
    return await async_wire_for(queue).run(build(queue, job, *args))
