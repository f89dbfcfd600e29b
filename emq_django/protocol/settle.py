"""active -> done, scheduled, dead or back: always fenced by the token (``attempts``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from emq_django.protocol import scripts
from emq_django.protocol.calls import Argument, Call
from emq_django.protocol.events import publish_flag
from emq_django.protocol.keyspace import Queue, id_bytes, id_text
from emq_django.protocol.numbers import LARGEST_MS, valid_count, valid_ms
from emq_django.protocol.records import ClaimedJob, Verdict
from emq_django.protocol.results import Kept

LARGEST_ERROR_BYTES: Final = 8_192

_COMPLETE = scripts.load("complete")
_COMPLETE_MANY = scripts.load("complete_many")
_RETRY = scripts.load("retry")
_RELEASE = scripts.load("release")
_DELAY = scripts.load("delay")
_PARK = scripts.load("park")
_EXTEND = scripts.load("extend")
_EXTEND_MANY = scripts.load("extend_many")
_CANCELLED = scripts.load("cancelled")


_NOTHING_KEPT: Final = (0, 0, 0, b"")


def complete(
    queue: Queue,
    job: ClaimedJob,
    done_ms: int = 0,
    *,
    events: bool | None = None,
    kept: Kept | None = None,
) -> Call[Verdict]:
    """End a job: its row goes, whatever set holds the id. COMPLETED, STALE or GONE.

    ``done_ms`` > 0 leaves a mark for that long, which ``readmit`` finds. ``events`` publishes it;
    the queue says so unless given.
    With ``kept`` the row stays as the job's result, which is such a mark too.
    """
    keys = (queue.active, queue.row(job.id), queue.base)
    left = _NOTHING_KEPT if kept is None else kept.arguments()
    args = (
        id_bytes(job.id),
        job.attempts,
        valid_ms(done_ms, "done_ms"),
        publish_flag(queue, events),
        *left,
    )
    return Call(_COMPLETE, keys, args, (Verdict.GONE, Verdict.COMPLETED).__getitem__, _stale)


class Finished(NamedTuple):
    """One job for ``complete_many``; ``done_ms`` and ``kept`` as in ``complete``."""

    job: ClaimedJob
    done_ms: int = 0
    kept: Kept | None = None


def complete_many(
    queue: Queue, jobs: Sequence[Finished], *, events: bool | None = None
) -> Call[list[Verdict]]:
    """End up to 1,000 jobs in one step: COMPLETED, STALE or GONE for each, as in ``complete``."""
    valid_count(len(jobs), "jobs")
    flat: list[Argument] = [publish_flag(queue, events)]
    for job, done_ms, kept in jobs:
        left = () if kept is None else kept.arguments()
        flat += (id_bytes(job.id), job.attempts, valid_ms(done_ms, "done_ms"), len(left), *left)
    return Call(_COMPLETE_MANY, (queue.active, queue.base), tuple(flat), _completed)


_COMPLETED = {1: Verdict.COMPLETED, 0: Verdict.GONE, -1: Verdict.STALE}


def _completed(reply: list[int]) -> list[Verdict]:
    return [_COMPLETED[one] for one in reply]


def retry(
    queue: Queue,
    job: ClaimedJob,
    error: str,
    delay_ms: int,
    max_attempts: int,
    *,
    events: bool | None = None,
    record: bytes = b"",
) -> Call[Verdict]:
    """Count a failed run and park the job, or bury it. SCHEDULED, DEAD, STALE or GONE.

    The job dies when its tries (failed runs and lost leases) reach ``max_attempts``. ``record`` is
    one line that joins those of earlier runs on the row.
    """
    keys = (queue.active, queue.schedule, queue.dead, queue.row(job.id), queue.base)
    args = (
        id_bytes(job.id),
        job.attempts,
        valid_ms(delay_ms, "delay_ms"),
        valid_count(max_attempts, "max_attempts", least=0, most=LARGEST_MS),
        _error_bytes(error),
        publish_flag(queue, events),
        record,
    )
    return Call(_RETRY, keys, args, _retried, _stale)


def release(queue: Queue, job: ClaimedJob) -> Call[Verdict]:
    """Hand a job back unfinished; the run counts for nothing. RELEASED, STALE or GONE."""
    keys = (queue.active, queue.pending, queue.row(job.id), queue.base)
    parse = (Verdict.GONE, Verdict.RELEASED).__getitem__
    return Call(_RELEASE, keys, (id_bytes(job.id), job.attempts), parse, _stale)


def extend(queue: Queue, job: ClaimedJob, lease_ms: int) -> Call[Verdict]:
    """Let the lease end ``lease_ms`` from the server's now. EXTENDED, STALE or GONE."""
    keys = (queue.active, queue.row(job.id))
    args = (id_bytes(job.id), job.attempts, valid_ms(lease_ms, "lease_ms", least=1))
    return Call(_EXTEND, keys, args, _extended, _stale)


def extend_many(queue: Queue, jobs: Sequence[ClaimedJob], lease_ms: int) -> Call[list[str]]:
    """Let several leases end at the same later time; returns the ids whose lease is lost."""
    flat: list[bytes | int] = []
    for job in jobs:
        flat += (id_bytes(job.id), job.attempts)
    valid_count(len(jobs), "jobs")
    args = (valid_ms(lease_ms, "lease_ms", least=1), *flat)
    return Call(_EXTEND_MANY, (queue.active, queue.base), args, _texts)


def cancelled(queue: Queue, jobs: Sequence[ClaimedJob]) -> Call[list[str]]:
    """Return the ids of those jobs that somebody asked to end. 1 to 1,000 jobs."""
    valid_count(len(jobs), "jobs")
    pairs = tuple(part for job in jobs for part in (id_bytes(job.id), job.attempts))
    return Call(_CANCELLED, (queue.base,), pairs, _texts)


def _texts(reply: list[bytes]) -> list[str]:
    return [id_text(raw) for raw in reply]


def delay(
    queue: Queue,
    job: ClaimedJob,
    mode: Literal["at", "in"],
    number: int,
    *,
    events: bool | None = None,
) -> Call[Verdict]:
    """Park a job for later; the run counts for nothing. SCHEDULED, STALE or GONE.

    ``number`` is a Unix time in ms (``at``) or ms from the server's now (``in``).
    """
    keys = (queue.active, queue.schedule, queue.row(job.id), queue.base)
    args = (
        id_bytes(job.id),
        job.attempts,
        mode,
        valid_ms(number, "number"),
        publish_flag(queue, events),
    )
    return Call(_DELAY, keys, args, _delayed, _stale)


def _delayed(_: int) -> Verdict:
    return Verdict.SCHEDULED


def park(
    queue: Queue,
    job: ClaimedJob,
    delay_ms: int,
    grace_ms: int,
    reason: str,
    *,
    events: bool | None = None,
) -> Call[Verdict]:
    """Put a job aside that this worker can't run. SCHEDULED, DEAD, STALE or GONE.

    The run counts for nothing; a job that has been put aside for ``grace_ms`` dies.
    """
    keys = (queue.active, queue.schedule, queue.dead, queue.row(job.id), queue.base)
    args = (
        id_bytes(job.id),
        job.attempts,
        valid_ms(delay_ms, "delay_ms"),
        valid_ms(grace_ms, "grace_ms"),
        _error_bytes(reason),
        publish_flag(queue, events),
    )
    return Call(_PARK, keys, args, _retried, _stale)


def _stale(text: str) -> Verdict | None:
    if not text.startswith("EMQSTALE"):
        return None
    return Verdict.GONE if text == "EMQSTALE job gone" else Verdict.STALE


def _retried(reply: bytes) -> Verdict:
    return Verdict(reply.decode())


def _extended(reply: int) -> Verdict:
    return Verdict.EXTENDED if reply == 1 else Verdict.GONE


def _error_bytes(error: str) -> bytes:
    """Cut an error text so that a row stays small; a character is never cut in half."""
    raw = error.encode("utf-8", "backslashreplace")
    if len(raw) <= LARGEST_ERROR_BYTES:
        return raw
    return raw[:LARGEST_ERROR_BYTES].decode("utf-8", "ignore").encode() + "…".encode()
