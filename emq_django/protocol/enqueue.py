"""(no row) -> pending or scheduled: every way into a queue.

Ids are checked by the caller (``ids.valid_job_id``) or minted; payloads are bytes. Admission is
idempotent while the row lives; ``readmit`` also knows jobs that completed not long ago.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Literal

from emq_django.errors import InvalidInput
from emq_django.protocol import scripts
from emq_django.protocol.calls import Call
from emq_django.protocol.ids import JOB
from emq_django.protocol.keyspace import Queue, id_text, valid_new_queue
from emq_django.protocol.numbers import valid_ms
from emq_django.protocol.records import Verdict

LARGEST_UNIQUE_BYTES = 255
BULK_IDS = 100  # ids in one bulk script: holds the server for about half a millisecond

_ENQUEUE = scripts.load("enqueue")
_ENQUEUE_LANE = scripts.load("enqueue_lane")
_ENQUEUE_MANY = scripts.load("enqueue_many")
_SCHEDULE = scripts.load("schedule")
_READMIT = scripts.load("readmit")

_ENQUEUED = (Verdict.DUPLICATE, Verdict.ENQUEUED)
_SCHEDULED = (Verdict.DUPLICATE, Verdict.SCHEDULED)


class Readmission(Enum):
    """What a second admission of the same id and bytes found."""

    SAME = 0  # a row with these bytes lives: an earlier send got through
    ADMITTED = 1
    DONE = 2  # the job was admitted before and completed since
    OTHER = 3  # a row with other bytes lives: the id belongs to another job


def enqueue(queue: Queue, job_id: str, payload: bytes) -> Call[Verdict]:
    """Admit one job to the flat pending set. Source: specification, enqueue."""
    if queue.new_name_error:
        valid_new_queue(queue)
    keys = (queue.row_base + job_id.encode(), queue.pending)
    return Call(_ENQUEUE, keys, (job_id, payload), _ENQUEUED.__getitem__)


def enqueue_lane(queue: Queue, job_id: str, payload: bytes, lane: str) -> Call[Verdict]:
    """Admit one job to a lane and put the lane on the ring when it can be served."""
    keys = (queue.row(job_id), valid_new_queue(queue).lane(lane), queue.base)
    return Call(_ENQUEUE_LANE, keys, (job_id, payload, lane), _ENQUEUED.__getitem__)


def enqueue_many(
    queue: Queue, items: Sequence[tuple[str, bytes]], lane: str | None = None
) -> Call[list[Verdict]]:
    """Admit up to ``BULK_IDS`` jobs in one step: all are checked before the first is written."""
    if not 1 <= len(items) <= BULK_IDS:
        raise InvalidInput(f"{len(items)} items: one bulk script takes 1 to {BULK_IDS}")
    valid_new_queue(queue)
    target = queue.pending if lane is None else queue.lane(lane)
    flat: list[bytes | str | int] = [lane or ""]
    for item in items:
        flat += item
    return Call(_ENQUEUE_MANY, (target, queue.base), tuple(flat), _many)


def _many(reply: list[int]) -> list[Verdict]:
    return [_ENQUEUED[one] for one in reply]


def enqueue_at(
    queue: Queue, job_id: str, payload: bytes, due_ms: int, lane: str | None = None
) -> Call[Verdict]:
    """Park a job until a Unix time in ms (the caller's clock names it, the server's compares)."""
    return _schedule(queue, job_id, payload, "at", valid_ms(due_ms, "due_ms"), lane)


def enqueue_in(
    queue: Queue, job_id: str, payload: bytes, delay_ms: int, lane: str | None = None
) -> Call[Verdict]:
    """Park a job for a number of ms from the server's now."""
    return _schedule(queue, job_id, payload, "in", valid_ms(delay_ms, "delay_ms"), lane)


def _schedule(
    queue: Queue, job_id: str, payload: bytes, mode: str, number: int, lane: str | None
) -> Call[Verdict]:
    keys = (queue.row(job_id), valid_new_queue(queue).schedule)
    args = (job_id, payload, mode, number, lane or "")
    return Call(_SCHEDULE, keys, args, _SCHEDULED.__getitem__)


def readmit(
    queue: Queue,
    job_id: str,
    payload: bytes,
    lane: str | None = None,
    mode: Literal["now", "at", "in"] = "now",
    number: int = 0,
    unique: str = "",
    mark_ms: int = 0,
) -> Call[Readmission | str]:
    """Admit a job whose first send may have got through: a resend, or a relay from an outbox.

    For ``mark_ms`` the server remembers that it came in, also when another speaker completes it.

    Also the way in for a job with a ``unique`` key: of such jobs one lives at a time in its queue,
    and while it does the answer is its id.
    """
    keys = (queue.row(job_id), valid_new_queue(queue).base)
    args = (
        job_id,
        payload,
        lane or "",
        mode,
        valid_ms(number, "number"),
        unique_bytes(unique),
        valid_ms(mark_ms, "mark_ms"),
    )
    return Call(_READMIT, keys, args, _readmission)


def _readmission(reply: int | bytes) -> Readmission | str:
    return id_text(reply) if isinstance(reply, bytes) else Readmission(reply)


def unique_bytes(key: str) -> bytes:
    """Return a unique key as it is sent. Raises InvalidInput for what is no text, or too long."""
    if not isinstance(key, str):
        raise InvalidInput(f"unique={key!r}: give text")
    raw = key.encode("utf-8", "surrogatepass")
    if len(raw) > LARGEST_UNIQUE_BYTES:
        raise InvalidInput(
            f"unique={key[:40]!r}… has {len(raw)} bytes: at most {LARGEST_UNIQUE_BYTES}; give a"
            " digest of it"
        )
    return raw


def is_job_id(job_id: str) -> bool:
    """Tell whether the server's kind gate lets an id in. The gate itself stays on the server."""
    return job_id.startswith(JOB)
