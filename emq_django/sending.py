"""Takes checked admissions to their server: which wire, and how much patience its server is owed.

What is checked before is in ``arguments``, what a lost reply means in ``delivery``. ``api`` and the
task backend stand on this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emq_django import delivery
from emq_django.addresses import resolve
from emq_django.conf import conf
from emq_django.connections import async_wire_for, wire_for
from emq_django.delivery import Admission, Distinct, Patience, adrive, drive
from emq_django.delivery.drivers import AsyncCarried, Carried, aadmit, admit
from emq_django.noting import anote_queue, note_queue
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.records import Receipt
from emq_django.wire.sync import Wire


def send(job: Admission, via: Any = None, unique: str = "") -> Receipt:
    """Admit one job, or find the live one that holds its unique key."""
    if unique:
        return send_distinct([Distinct(job, unique)], via)[0]
    if via is not None:
        return drive(Carried(via), delivery.admission(job, Patience(0)))
    wire = wire_for(job.queue)
    receipt = admit(wire, job, _patience(job.queue, wire))
    note_queue(job.queue)
    return receipt


async def asend(job: Admission, via: Any = None, unique: str = "") -> Receipt:
    """Admit one job; the async twin of ``send``."""
    if unique:
        return (await asend_distinct([Distinct(job, unique)], via))[0]
    if via is not None:
        return await adrive(AsyncCarried(via), delivery.admission(job, Patience(0)))
    patience = _patience(job.queue, wire_for(job.queue))
    receipt = await aadmit(async_wire_for(job.queue), job, patience)
    await anote_queue(job.queue)
    return receipt


def send_bulk(jobs: Sequence[Admission], via: Any = None) -> list[Receipt]:
    """Admit jobs of one queue and lane, claimable at once; a receipt for each, in order."""
    if via is not None:
        return drive(Carried(via), delivery.bulk(jobs, Patience(0)))
    queue = jobs[0].queue
    wire = wire_for(queue)
    receipts = drive(wire, delivery.bulk(jobs, _patience(queue, wire)))
    note_queue(queue)
    return receipts


async def asend_bulk(jobs: Sequence[Admission], via: Any = None) -> list[Receipt]:
    """Admit jobs of one queue and lane; the async twin of ``send_bulk``."""
    if via is not None:
        return await adrive(AsyncCarried(via), delivery.bulk(jobs, Patience(0)))
    queue = jobs[0].queue
    patience = _patience(queue, wire_for(queue))
    receipts = await adrive(async_wire_for(queue), delivery.bulk(jobs, patience))
    await anote_queue(queue)
    return receipts


def send_distinct(jobs: Sequence[Distinct], via: Any = None) -> list[Receipt]:
    """Admit jobs of one queue, each with its own lane, due time and unique key."""
    if via is not None:
        return drive(Carried(via), delivery.distinct(jobs, Patience(0)))
    queue = jobs[0].job.queue
    wire = wire_for(queue)
    receipts = drive(wire, delivery.distinct(jobs, _patience(queue, wire)))
    note_queue(queue)
    return receipts


async def asend_distinct(jobs: Sequence[Distinct], via: Any = None) -> list[Receipt]:
    """Admit jobs of one queue; the async twin of ``send_distinct``."""
    if via is not None:
        return await adrive(AsyncCarried(via), delivery.distinct(jobs, Patience(0)))
    queue = jobs[0].job.queue
    patience = _patience(queue, wire_for(queue))
    receipts = await adrive(async_wire_for(queue), delivery.distinct(jobs, patience))
    await anote_queue(queue)
    return receipts


def _patience(queue: Queue, wire: Wire) -> Patience:
    """Return what is known of the server behind a process's wire, and how long it may take.

    Kept on that wire also for asyncio: an event loop has wires of its own and may not live longer
    than one request, which would forget that the server is down.
    """
    patience: Patience | None = wire.patience
    if patience is None:
        route = resolve(conf().connection)
        read_s = route.targets[route.index(queue)].options["socket_timeout"]
        patience = wire.patience = Patience(conf().enqueue_deadline_s, read_s)
    return patience
