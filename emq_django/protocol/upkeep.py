"""Sweeps in bounded batches: jobs that are due, leases that ended, dead jobs beyond bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from emq_django.protocol import ids, scripts
from emq_django.protocol.calls import Call
from emq_django.protocol.events import publish_flag
from emq_django.protocol.keyspace import Queue, id_text
from emq_django.protocol.numbers import LARGEST_MS, valid_count, valid_ms
from emq_django.protocol.records import MAX_STALLED, MOST_DEAD, Swept

_PROMOTE = scripts.load("promote")
_REAP = scripts.load("reap")
_TRIM_DEAD = scripts.load("trim_dead")


@dataclass(frozen=True, slots=True)
class Trimmed:
    """One step through a dead set. ``first`` and ``last`` are the ids that went, or empty."""

    removed: int
    seen: int
    more: bool
    first: str
    last: str


def promote(queue: Queue, batch: int = 100, *, events: bool | None = None) -> Call[Swept]:
    """Move scheduled jobs that are due to pending or their lane. Repeat while seen == batch."""
    keys = (queue.schedule, queue.pending, queue.base)
    args = (valid_count(batch, "batch"), publish_flag(queue, events))
    return Call(_PROMOTE, keys, args, _swept)


def reap(
    queue: Queue,
    batch: int = 100,
    max_stalled: int = MAX_STALLED,
    *,
    pause_ms: int = 0,
    events: bool | None = None,
) -> Call[Swept]:
    """Return jobs whose lease ended, or bury those that lost it ``max_stalled`` times.

    ``max_stalled`` 0 never buries. From its second loss a job returns ``pause_ms`` to twice that
    later. Repeat while seen == batch.
    """
    keys = (queue.active, queue.pending, queue.base)
    args = (
        valid_count(batch, "batch"),
        valid_count(max_stalled, "max_stalled", least=0),
        publish_flag(queue, events),
        valid_ms(pause_ms, "pause_ms"),
    )
    return Call(_REAP, keys, args, _swept)


def trim_dead(
    queue: Queue, kept: int, before_ms: int, offset: int = 0, batch: int = 100
) -> Call[Trimmed]:
    """Remove dead jobs with their rows: the oldest beyond ``kept``, and those that died too early.

    ``before_ms`` is Unix ms by the server's clock. While there is ``more``, repeat with an
    ``offset`` of all that was seen and not removed.
    """
    keys = (queue.dead, queue.base)
    args = (
        valid_count(kept, "kept", most=MOST_DEAD),
        valid_ms(before_ms, "before_ms"),
        ids.first_id_at(before_ms),
        valid_count(offset, "offset", least=0, most=LARGEST_MS),
        valid_count(batch, "batch"),
    )
    return Call(_TRIM_DEAD, keys, args, _trimmed)


def _trimmed(reply: list[Any]) -> Trimmed:
    removed, seen, more, first, last = reply
    return Trimmed(removed, seen, more == 1, id_text(first), id_text(last))


def _swept(reply: list[int]) -> Swept:
    return Swept(*reply)
