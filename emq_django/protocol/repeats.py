"""Repeats: the same payload enqueued every so many ms. A firing is one script: it happens once."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from emq_django.errors import InvalidInput
from emq_django.protocol import scripts
from emq_django.protocol.calls import Call
from emq_django.protocol.keyspace import Queue, id_bytes, id_text, valid_new_queue
from emq_django.protocol.numbers import ms_of, valid_count, valid_ms

_REGISTER = scripts.load("repeat_register")
_CANCEL = scripts.load("repeat_cancel")
_DUE = scripts.load("repeat_due")
_FIRE = scripts.load("repeat_fire")


class Due(NamedTuple):
    """A repeat whose time has come. ``score`` is handed back to ``fire`` as it was read."""

    name: str
    score: str


class DueRepeats(NamedTuple):
    """What is due now, and when the next one will be (Unix ms)."""

    now_ms: int
    due: list[Due]
    next_ms: int | None


class Firing(Enum):
    """What a firing found."""

    FIRED = 1
    NOT_DUE = 0  # another worker fired it, it was cancelled, or its time has moved
    TAKEN = -1  # the id belongs to another job: mint again


class Fired(NamedTuple):
    """What a firing did, and how many earlier runs were missed and left out."""

    firing: Firing
    missed: int


def register_repeat(
    queue: Queue, name: str, every_ms: int, template: bytes, first_ms: int | None = None
) -> Call[bool]:
    """Enqueue ``template`` every ``every_ms``, from a Unix time on or one period from now.

    False when the name is taken.
    """
    keys = (valid_new_queue(queue).base + b"repeat", queue.base)
    first = "" if first_ms is None else valid_ms(first_ms, "first_ms")
    args = (_name_bytes(name), valid_ms(every_ms, "every_ms", least=1), template, first)
    return Call(_REGISTER, keys, args, bool)


def cancel_repeat(queue: Queue, name: str) -> Call[bool]:
    """Stop a repeat. False when there is none of this name."""
    return Call(_CANCEL, (queue.base + b"repeat", queue.base), (_name_bytes(name),), bool)


def _name_bytes(name: str) -> bytes:
    if not name or not isinstance(name, str):
        raise InvalidInput(f"name={name!r}: a repeat needs a name, give text")
    try:
        return id_bytes(name)
    except UnicodeEncodeError as exc:
        raise InvalidInput(f"name={name!r}: the name is not valid Unicode") from exc


def due_repeats(queue: Queue, batch: int = 100) -> Call[DueRepeats]:
    """Return the repeats that are due on the server's clock."""
    return Call(_DUE, (queue.base + b"repeat",), (valid_count(batch, "batch"),), _due)


def _due(reply: list[Any]) -> DueRepeats:
    now_ms, flat, later = reply
    due = [
        Due(id_text(name), score.decode())
        for name, score in zip(flat[::2], flat[1::2], strict=True)
    ]
    return DueRepeats(int(now_ms), due, ms_of(later))


def fire(queue: Queue, due: Due, job_id: str) -> Call[Fired]:
    """Enqueue a due repeat's job under a minted id and set its next run, without missed ones."""
    keys = (queue.base + b"repeat", queue.pending, queue.base)
    return Call(_FIRE, keys, (id_bytes(due.name), due.score, job_id), _fired)


def _fired(reply: list[int]) -> Fired:
    return Fired(Firing(reply[0]), reply[1])
