"""What an operator does to a queue and its jobs: bounded steps that refuse rather than guess."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from emq_django.errors import InvalidInput
from emq_django.protocol import scripts
from emq_django.protocol.calls import Argument, Call
from emq_django.protocol.ids import valid_lane
from emq_django.protocol.keyspace import Queue, id_bytes
from emq_django.protocol.numbers import LARGEST_MS, valid_count, valid_ms
from emq_django.protocol.records import JobSet

_PAUSE = scripts.load("pause")
_RESUME = scripts.load("resume")
_LIMIT = scripts.load("limit_queue")
_REPROCESS = scripts.load("reprocess")
_REMOVE = scripts.load("remove")
_CANCEL = scripts.load("cancel")
_UPDATE_PAYLOAD = scripts.load("update_payload")
_DRAIN = scripts.load("drain")
_OBLITERATE = scripts.load("obliterate")
_HASTEN = scripts.load("hasten")
_LAPSE = scripts.load("lapse")
_ONCE = scripts.load("once")
_DROP_GHOSTS = scripts.load("drop_ghosts")


class Reprocessed(Enum):
    """What became of a dead job that was to live again."""

    PENDING = 1
    NOT_DEAD = 0
    GONE = -1
    NOT_UNIQUE = -2  # another live job holds its unique key


class Removed(Enum):
    """What became of a job that was to go."""

    REMOVED = 1
    ACTIVE = 0  # a worker holds it: left alone
    GONE = -1  # no row; a ghost id was dropped from the sets
    LOCKED = -2  # another speaker's lock


class Cancelled(Enum):
    """What became of a job that was not to run."""

    REMOVED = 1  # it waited
    ASKED = 2  # a worker runs it, and is told; nobody else will run it
    DEAD = 0  # it runs no more: left alone
    GONE = -1  # no row; a ghost id was dropped from the sets
    LOCKED = -2  # another speaker's lock


class Updated(Enum):
    """What became of a payload that was to change."""

    UPDATED = 1
    ACTIVE = 0  # a worker holds the job: left alone
    GONE = -1
    CHANGED = -2  # it was not the payload that was meant


class Obliterated(Enum):
    """What a step of obliterate found."""

    DONE = 0
    MORE = 1  # call again
    NOT_PAUSED = "not_paused"
    ACTIVE = "active"


class Drained(NamedTuple):
    """What one bounded step removed, and how many jobs are left."""

    removed: int
    left: int


def pause(queue: Queue) -> Call[bool]:
    """Hand out no more jobs; what runs goes on. True when it was running."""
    return Call(_PAUSE, (queue.meta,), (), bool)


def resume(queue: Queue) -> Call[bool]:
    """Hand out jobs again. True when it was paused."""
    return Call(_RESUME, (queue.meta,), (), bool)


def limit_queue(
    queue: Queue, concurrency: int | None = None, rate: int | None = None, window_ms: int = 1_000
) -> Call[int]:
    """Set a queue's ceilings: jobs in flight, and jobs started per window. None removes one.

    Workers of this package keep them, inside the script that hands jobs out; a plain ``claim`` and
    other speakers don't.
    """
    args = (_ceiling(concurrency, "concurrency"), _ceiling(rate, "rate"))
    return Call(_LIMIT, (queue.meta,), (*args, valid_ms(window_ms, "window_ms", least=1)), int)


def _ceiling(value: int | None, what: str) -> int | str:
    return "" if value is None else valid_count(value, what, least=0, most=LARGEST_MS)


def reprocess(
    queue: Queue, job_ids: Sequence[str], tokens: Sequence[str] = ()
) -> Call[list[Reprocessed]]:
    """Give dead jobs another life, in their lane; tries start at zero. 1 to 1,000 ids.

    ``tokens`` holds one per id: the claim that the job died under. One that died under another is
    left alone; an empty token, or none, stands for any.
    """
    keys = (queue.dead, queue.pending, queue.base)
    return Call(_REPROCESS, keys, _pairs(job_ids, tokens), _reprocessed)


def _reprocessed(reply: list[int]) -> list[Reprocessed]:
    return [Reprocessed(one) for one in reply]


def remove(
    queue: Queue, job_ids: Sequence[str], *, also_active: bool = False, dedup_id: str = ""
) -> Call[list[Removed]]:
    """Take jobs off the queue with their rows, logs and counters. 1 to 1,000 ids.

    ``dedup_id`` names a caller's key ``de:<dedup_id>`` that goes when it names the first id.
    """
    args: tuple[Argument, ...] = (int(also_active), id_bytes(dedup_id), *_ids(job_ids))
    return Call(_REMOVE, (queue.base,), args, _removed)


def _removed(reply: list[int]) -> list[Removed]:
    return [Removed(one) for one in reply]


def cancel(queue: Queue, job_ids: Sequence[str]) -> Call[list[Cancelled]]:
    """Remove jobs that wait, and ask the workers of those that run to end them. 1 to 1,000 ids.

    A worker that is asked tells the job's code within about a second; the job ends as dead when its
    code gives in, as usual when it does not, and dead too when its worker is lost.
    """
    return Call(_CANCEL, (queue.base,), _ids(job_ids), _cancelled)


def _cancelled(reply: list[int]) -> list[Cancelled]:
    return [Cancelled(one) for one in reply]


def hasten(queue: Queue, job_ids: Sequence[str], tokens: Sequence[str] = ()) -> Call[list[bool]]:
    """Let scheduled jobs fall due now; a promote then moves them on. 1 to 1,000 ids.

    False for one that is not scheduled, or ran since the claim of its token; ``tokens`` holds one
    per id, and an empty one, or none, stands for any.
    """
    return Call(_HASTEN, (queue.schedule, queue.base), _pairs(job_ids, tokens), _yes_or_no)


def lapse(queue: Queue, job_ids: Sequence[str], tokens: Sequence[str] = ()) -> Call[list[bool]]:
    """Let leases end now; a reap then brings the jobs back. 1 to 1,000 ids.

    False for a job that is not active, or under another claim than the token's; ``tokens`` holds
    one per id, and an empty one, or none, stands for any.
    """
    return Call(_LAPSE, (queue.active, queue.base), _pairs(job_ids, tokens), _yes_or_no)


def once(queue: Queue, send: str, ms: int) -> Call[bool]:
    """Mark for ``ms`` that a form was sent. False: it was sent before."""
    key = queue.base + b"dj:once:" + id_bytes(send)
    return Call(_ONCE, (key,), (valid_ms(ms, "ms", least=1),), bool)


def drop_ghosts(queue: Queue, job_ids: Sequence[str], lane: str = "") -> Call[list[bool]]:
    """Take ids without a row out of all sets and one lane. 1 to 1,000 ids.

    False for one that has a row, or stands in none of them.
    """
    args: tuple[Argument, ...] = (valid_lane(lane) if lane else "", *_ids(job_ids))
    return Call(_DROP_GHOSTS, (queue.base,), args, _yes_or_no)


def _yes_or_no(reply: list[int]) -> list[bool]:
    return [answer == 1 for answer in reply]


def update_payload(queue: Queue, job_id: str, payload: bytes, digest: str = "") -> Call[Updated]:
    """Give a job that no worker holds other bytes; with the SHA-1 ``digest`` only in their place.

    The digest is that of the bytes to be replaced, in lower-case hexadecimal digits.
    """
    return Call(_UPDATE_PAYLOAD, (queue.row(job_id),), (payload, digest), Updated)


def drain(queue: Queue, job_set: JobSet | str, batch: int = 100) -> Call[Drained]:
    """Remove up to ``batch`` waiting jobs of a set or a lane. Repeat while some are left."""
    if job_set is JobSet.ACTIVE:
        raise InvalidInput("active jobs are held by workers: release or remove them one by one")
    lane = "" if isinstance(job_set, JobSet) else valid_lane(job_set)
    key = queue.lane(lane) if lane else queue.base + job_set.encode()
    return Call(_DRAIN, (key, queue.base), (valid_count(batch, "batch"), lane), _drained)


def _drained(reply: list[int]) -> Drained:
    return Drained(*reply)


def obliterate(queue: Queue, *, force: bool = False, batch: int = 1_000) -> Call[Obliterated]:
    """Remove one batch of a paused queue and, when nothing is left, its last keys.

    ``force`` also removes jobs that workers hold.
    """
    args = (int(force), valid_count(batch, "batch"))
    return Call(_OBLITERATE, (queue.meta, queue.base), args, Obliterated, _not_now)


def _not_now(text: str) -> Obliterated | None:
    if text.startswith("EMQSTATE not_paused"):
        return Obliterated.NOT_PAUSED
    return Obliterated.ACTIVE if text.startswith("EMQSTATE active") else None


def _ids(job_ids: Sequence[str]) -> tuple[bytes, ...]:
    valid_count(len(job_ids), "ids")
    return tuple(id_bytes(job_id) for job_id in job_ids)


def _pairs(job_ids: Sequence[str], tokens: Sequence[str]) -> tuple[bytes, ...]:
    claims = zip(_ids(job_ids), tokens or [""] * len(job_ids), strict=True)
    return tuple(part for raw, token in claims for part in (raw, id_bytes(token)))
