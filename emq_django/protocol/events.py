"""Events that a queue publishes: the channel, and what a message says. At most once: no store.

Which script publishes what stands in its header: ``completed``, ``failed`` (with ``error`` and the
``state`` that follows), ``delayed``, ``stalled`` (how often, and that ``state``) and ``progress``.
Other speakers may publish more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from emq_django.protocol.keyspace import Queue

RECONNECTED: Final = "reconnected"  # ours: what was published meanwhile was not heard
UNKNOWN: Final = "unknown"  # a message that is no event; ``data["raw"]`` holds its text


@dataclass(frozen=True, slots=True)
class Event:
    """One event. ``data`` has what the message says beside name and job, as text."""

    name: str
    job_id: str | None = None
    data: Mapping[str, str] = field(default_factory=dict)


def channel(queue: Queue) -> bytes:
    """Return the pub/sub channel of a queue's events."""
    return queue.base + b"events"


def publish_flag(queue: Queue, events: bool | None = None) -> int:
    """Return the argument that has a script publish or not: the queue's own unless given."""
    return int(queue.events if events is None else events)


def parse(raw: bytes) -> Event:
    """Return the event in a message; never raises, whatever another speaker published."""
    text = raw.decode("utf-8", "replace")
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict) or not isinstance(message.get("event"), str):
        return Event(UNKNOWN, data={"raw": text})
    name, job = message.pop("event"), message.pop("job", None)
    data = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in message.items()
    }
    return Event(name, job if isinstance(job, str) else None, data)
