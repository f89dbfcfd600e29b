"""Schedules of a queue: the last slot that each fired, and firing the next one once.

A slot is a moment for which a schedule owes a job. Which moments those are is the application's
business (``emq_django.timetable``); the server remembers the last one, so that any worker may fire.

| field of ``dj:periodic`` | what it holds |
| --- | --- |
| ``slot:<name>`` | the last slot that is dealt with, Unix ms |
| ``id:<name>``, ``at:<name>`` | the last job, and when it was fired (Unix ms) |
| ``skipped:<name>`` | slots that were left out before that one |
| ``paused:<name>`` | since when the schedule is paused (Unix ms) |
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

from emq_django.errors import InvalidInput
from emq_django.protocol import scripts
from emq_django.protocol.calls import Call
from emq_django.protocol.enqueue import unique_bytes
from emq_django.protocol.keyspace import Queue, id_bytes, id_text, valid_new_queue
from emq_django.protocol.numbers import LARGEST_BATCH, ms_of, valid_count, valid_ms

LARGEST_NAME_BYTES = 255

_FIRE = scripts.load("periodic_fire")
_LOOK = scripts.load("periodic_look")
_PAUSE = scripts.load("periodic_pause")


class Fired(Enum):
    """What became of a slot."""

    FIRED = 1  # its job is enqueued; or, without an id, it is passed over
    NOT_NEW = 0  # another worker dealt with it, or with a later one
    PAUSED = 2  # the schedule is paused: passed over
    STILL_LIVE = 3  # a job with the unique key lives: passed over
    TAKEN = -1  # the id belongs to another job: mint again
    TOO_EARLY = -2  # on the server's clock the slot is still to come


class Firing(NamedTuple):
    """The answer to one try. ``last_ms`` is the last slot that is dealt with now."""

    fired: Fired
    now_ms: int
    last_ms: int | None
    job_id: str


class ScheduleState(NamedTuple):
    """What the server remembers of one schedule; times are Unix ms."""

    last_ms: int | None = None
    job_id: str = ""
    fired_ms: int | None = None
    skipped: int = 0
    paused_ms: int | None = None


class Schedules(NamedTuple):
    """What the server remembers, in the order of the names, and its clock."""

    now_ms: int
    states: list[ScheduleState]


def fire(
    queue: Queue,
    name: str,
    slot_ms: int,
    job_id: str,
    payload: bytes,
    lane: str | None = None,
    unique: str = "",
    skipped: int = 0,
) -> Call[Firing]:
    """Enqueue the job of a slot, unless this or a later slot is dealt with."""
    keys = (_key(valid_new_queue(queue)), queue.base)
    args = (
        name_bytes(name),
        valid_ms(slot_ms, "slot_ms"),
        job_id,
        payload,
        lane or "",
        unique_bytes(unique),
        valid_count(skipped, "skipped", least=0, most=2**52),
    )
    return Call(_FIRE, keys, args, _firing)


def pass_over(queue: Queue, name: str, slot_ms: int) -> Call[Firing]:
    """Note that slots up to this one are dealt with, without a job."""
    keys = (_key(valid_new_queue(queue)), queue.base)
    args = (name_bytes(name), valid_ms(slot_ms, "slot_ms"), "", b"", "", b"", 0)
    return Call(_FIRE, keys, args, _firing)


def look(queue: Queue, names: Sequence[str]) -> Call[Schedules]:
    """Return what is known of schedules."""
    if len(names) > LARGEST_BATCH:
        raise InvalidInput(f"{len(names)} names: ask for {LARGEST_BATCH} at most")
    return Call(_LOOK, (_key(queue),), tuple(map(name_bytes, names)), _schedules)


def pause(queue: Queue, name: str) -> Call[bool]:
    """Let a schedule fire nothing until it is resumed. False: it was paused already."""
    return Call(_PAUSE, (_key(valid_new_queue(queue)),), (name_bytes(name), 1), bool)


def resume(queue: Queue, name: str) -> Call[bool]:
    """Let a schedule fire again, from its next slot on. False: it was not paused."""
    return Call(_PAUSE, (_key(valid_new_queue(queue)),), (name_bytes(name), 0), bool)


def name_bytes(name: str) -> bytes:
    """Return a schedule's name as it is sent. Raises InvalidInput."""
    if not name or not isinstance(name, str):
        raise InvalidInput(f"name={name!r}: a schedule needs a name, give text")
    try:
        raw = id_bytes(name)
    except UnicodeEncodeError as exc:
        raise InvalidInput(f"name={name!r}: the name is not valid Unicode") from exc
    if len(raw) > LARGEST_NAME_BYTES:
        raise InvalidInput(f"name={name[:40]!r}…: at most {LARGEST_NAME_BYTES} bytes")
    return raw


def _key(queue: Queue) -> bytes:
    return queue.base + b"dj:periodic"


def _firing(reply: list[Any]) -> Firing:
    verdict, now_ms, last_ms, job_id = reply
    return Firing(Fired(verdict), now_ms, None if last_ms < 0 else last_ms, id_text(job_id))


def _schedules(reply: list[Any]) -> Schedules:
    now_ms, found = reply
    return Schedules(now_ms, [_state(*kept) for kept in found])


def _state(slot: bytes, job_id: bytes, at: bytes, skipped: bytes, paused: bytes) -> ScheduleState:
    return ScheduleState(
        _number(slot), id_text(job_id), _number(at), _number(skipped) or 0, _number(paused)
    )


def _number(blob: bytes) -> int | None:
    try:
        return ms_of(blob)
    except ValueError:  # another hand wrote it
        return None
