"""Listening to what a queue's jobs do: two iterators, sync and async, that survive reconnects.

Events are opt-in per queue (``EMQ["QUEUES"][name]["EVENTS"]``), published by the script that
decides, and heard at most once: nothing is stored. For what must not be missed read the queue, for
example after a ``RECONNECTED`` event.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from emq_django.conf import keys
from emq_django.connections import async_wire_for, wire_for
from emq_django.protocol.events import RECONNECTED, UNKNOWN, Event, channel, parse
from emq_django.wire import listen as sync_listen
from emq_django.wire import listen_aio
from emq_django.wire.replies import error_for

__all__ = ["RECONNECTED", "UNKNOWN", "Event", "alisten", "listen"]


def listen(queue: str, *, idle_s: float | None = None) -> Iterator[Event]:
    """Yield the events of a queue as they happen.

    Ends after ``idle_s`` seconds without one; without it when the caller stops asking. After a lost
    connection listening goes on and a ``RECONNECTED`` event says that some may have been missed.
    Raises WireError when the server is away at the start.
    """
    named = keys(queue)
    try:
        connect = wire_for(named).client.connector(named.base)
    except Exception as exc:
        raise error_for(exc) from exc
    for message in sync_listen.messages(connect, channel(named), idle_s):
        yield Event(RECONNECTED) if message is None else parse(message)


async def alisten(queue: str, *, idle_s: float | None = None) -> AsyncIterator[Event]:
    """Yield the events of a queue as they happen; the async twin of ``listen``."""
    named = keys(queue)
    try:
        connect = await async_wire_for(named).client.connector(named.base)
    except Exception as exc:
        raise error_for(exc) from exc
    async for message in listen_aio.messages(connect, channel(named), idle_s):
        yield Event(RECONNECTED) if message is None else parse(message)
