"""The key grammar: the only place where a key is spelled. No command is sent from here.

Every key of a queue starts with its root ``emq:{<queue>}:``; the braces are the cluster hash tag,
so all keys of a queue share a slot. A prefix (``EMQ["QUEUE_PREFIX"]``) stands inside the braces.
"""

from __future__ import annotations

import binascii
from functools import lru_cache
from typing import Final

from emq_django.errors import InvalidQueueName

VERSION_KEY: Final = b"{emq}:version"
QUEUES_KEY: Final = b"{emq}:dj:queues"  # set of wire names that an application registered

_FORBIDDEN = ("{", "}", "\0")
_MAX_NEW_NAME_BYTES = 128


class Queue:
    """One queue's keys, built once. Get it from ``queue()``.

    ``name`` is what the application says, ``wire_name`` what stands between the braces. ``events``
    says whether settlements of this queue's jobs are published (see ``protocol.events``).
    """

    __slots__ = (
        "active", "base", "dead", "events", "meta", "name", "new_name_error", "pending", "ring",
        "row_base", "schedule", "wire_name",
    )  # fmt: skip

    def __init__(self, name: str, prefix: str, *, events: bool = False) -> None:
        self.name = name
        self.events = events
        self.wire_name = prefix + name
        self.base = b"emq:{" + self.wire_name.encode() + b"}:"
        self.row_base = self.base + b"job:"
        self.pending = self.base + b"pending"
        self.active = self.base + b"active"
        self.schedule = self.base + b"schedule"
        self.dead = self.base + b"dead"
        self.ring = self.base + b"ring"
        self.meta = self.base + b"meta"
        self.new_name_error = _new_name_error(name, self.wire_name)

    def row(self, job_id: str) -> bytes:
        """Return the row key of an id. Admission checks ids first; a claimed id is as it came."""
        return self.row_base + id_bytes(job_id)

    def lane(self, lane: str) -> bytes:
        """Return the key of a lane's waiting jobs."""
        return self.base + b"g:" + id_bytes(lane) + b":pending"

    @property
    def claimable_keys(self) -> tuple[bytes, ...]:
        """Return the keys of which one changes when a job becomes claimable, or will be."""
        return self.pending, self.ring, self.meta, self.schedule

    @property
    def waiting_keys(self) -> tuple[bytes, ...]:
        """Return the keys of which one changes when a job can be claimed from this moment on."""
        return self.pending, self.ring

    @property
    def trees(self) -> bytes:
        """Return the pub/sub channel on which the worker trees of this queue are counted."""
        return self.base + b"dj:trees"

    def __repr__(self) -> str:
        return f"<Queue {self.wire_name!r}>"


@lru_cache(maxsize=4096)
def queue(name: str, prefix: str = "", *, events: bool = False) -> Queue:
    """Return the keys of a queue. Raises InvalidQueueName before any key is built."""
    if not isinstance(name, str):
        raise InvalidQueueName(f"{name!r} is not a queue name: give text")
    for text in (name, prefix):
        if any(char in text for char in _FORBIDDEN):
            raise InvalidQueueName(
                f"{text!r} is not a queue name: it may not hold '{{', '}}' or NUL, since the name"
                " stands between braces in every key"
            )
    if not name:
        raise InvalidQueueName("'' is not a queue name: an empty name has no cluster slot")
    try:
        return Queue(name, prefix, events=events)
    except UnicodeEncodeError as exc:
        raise InvalidQueueName(f"{name!r} is not a queue name: it is not valid Unicode") from exc


def valid_new_queue(keys: Queue) -> Queue:
    """Return ``keys`` for a verb that may create the queue. Raises InvalidQueueName.

    A queue that another speaker gave an odder name can still be read, emptied and removed.
    """
    if keys.new_name_error:
        raise InvalidQueueName(keys.new_name_error)
    return keys


def _new_name_error(name: str, wire_name: str) -> str:
    if not wire_name.isprintable() or any(text != text.strip() for text in (name, wire_name)):
        return (
            f"{wire_name!r} can't be a new queue: a name is made of characters that can be seen,"
            " with spaces only between them"
        )
    if wire_name == "emq":
        return "'emq' can't be a new queue: the name is the protocol's reserve; choose another"
    size = len(wire_name.encode())
    if size > _MAX_NEW_NAME_BYTES:
        return (
            f"{wire_name[:40]!r}… can't be a new queue: {size} bytes, with its prefix;"
            f" at most {_MAX_NEW_NAME_BYTES} are allowed"
        )
    return ""


def id_bytes(job_id: str) -> bytes:
    """Return an id as the server holds it, also one that a foreign speaker made up."""
    return job_id.encode("utf-8", "surrogateescape")


def id_text(raw: bytes) -> str:
    """Return an id read from the server as text; ``id_bytes`` gives the same bytes back."""
    return raw.decode("utf-8", "surrogateescape")


def slot(key: bytes) -> int:
    """Return the cluster slot of a key: CRC16-XMODEM of its hash tag, modulo 16384."""
    opening = key.find(b"{")
    if opening >= 0:
        closing = key.find(b"}", opening + 1)
        if closing > opening + 1:
            key = key[opening + 1 : closing]
    return binascii.crc_hqx(key, 0) % 16384
