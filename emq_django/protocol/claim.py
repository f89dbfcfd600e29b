"""pending -> active: a job is popped, fenced and leased in one step."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from emq_django.protocol import scripts
from emq_django.protocol.calls import Call
from emq_django.protocol.events import publish_flag
from emq_django.protocol.keyspace import Queue, id_text
from emq_django.protocol.numbers import valid_count, valid_ms
from emq_django.protocol.records import MAX_STALLED, ClaimedJob, Taken

_CLAIM = scripts.load("claim")
_TAKE = scripts.load("take")


def claim(queue: Queue, lease_ms: int) -> Call[ClaimedJob | None]:
    """Claim the oldest job of the flat set. Source: specification, flat claim.

    None says that nothing was handed over: the queue is empty or paused, or the head was a ghost
    (an id without a row, which is consumed; ask again).
    """
    keys = (queue.pending, queue.active, queue.base)
    args = (valid_ms(lease_ms, "lease_ms", least=1),)
    return Call(_CLAIM, keys, args, partial(_one, queue), pause_key=queue.meta)


def _one(queue: Queue, reply: list[Any]) -> ClaimedJob | None:
    if not reply:
        return None
    raw_id, payload, attempts = reply
    return ClaimedJob(id_text(raw_id), payload, int(attempts), queue.name)


def take(
    queue: Queue,
    incarnation: str,
    lease_ms: int,
    limit: int = 1,
    *,
    ring_first: bool = False,
    sources: Literal["both", "flat", "ring"] = "both",
    max_stalled: int = MAX_STALLED,
    suspects_alone: bool = False,
    events: bool | None = None,
) -> Call[Taken]:
    """Claim up to ``limit`` jobs for a worker, from the flat set and the ring in turn.

    Each row is marked ``worker = <incarnation>:<token>`` (an empty incarnation leaves no mark).
    ``ring_first`` says whose turn it is, so that single takes alternate; ``sources`` leaves one of
    the two out. Lanes of a weight above 1 are served that often in one turn. The queue's ceilings
    hold. Ghosts are skipped; a job that lost ``max_stalled`` leases is buried (0 never buries).
    With ``suspects_alone`` a job that lost any is not handed over beside others. ``events``
    publishes losses and deaths that are found here; the queue's own setting unless given.
    """
    keys = (queue.pending, queue.active, queue.base)
    args = (
        valid_ms(lease_ms, "lease_ms", least=1),
        valid_count(limit, "limit"),
        incarnation,
        "ring" if ring_first else "flat",
        sources,
        valid_count(max_stalled, "max_stalled", least=0),
        int(suspects_alone),
        publish_flag(queue, events),
    )
    return Call(_TAKE, keys, args, partial(_taken, queue.name))


def _taken(name: str, reply: list[Any]) -> Taken:
    wait_ms, rows = reply
    return Taken([_job(name, row) for row in rows], wait_ms)


def _job(name: str, row: list[Any]) -> ClaimedJob:
    raw_id, payload, attempts, lane, failures, stalled = row
    return ClaimedJob(
        id_text(raw_id),
        payload,
        int(attempts),
        name,
        id_text(lane) if lane else None,
        int(failures),
        int(stalled),
    )
