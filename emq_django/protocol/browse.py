"""What an operator's pages read beyond ``read``: filtered slices, counts within bounds, results.

Every call is bounded: a slice looks at 1,000 members at most and goes on behind its cursor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from emq_django.protocol import scripts
from emq_django.protocol.calls import Argument, Call
from emq_django.protocol.ids import valid_lane
from emq_django.protocol.keyspace import Queue, id_bytes, id_text
from emq_django.protocol.numbers import LARGEST_MS, valid_count, valid_ms
from emq_django.protocol.read import entry_of, looked_up, paged
from emq_django.protocol.records import Blob, Entry, JobSet, Page, Row

FINISHED: Final = "dj:finished"  # the set of ids that ended well, by the time they did

_PAGE = scripts.load("page")
_SIFT = scripts.load("sift")
_TALLY = scripts.load("tally")
_PAYLOAD = scripts.load("payload")
_ROW = scripts.load("row")

_LARGEST_VALUE: Final = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a slice starts: behind an id, at a score, and in which direction it goes."""

    cursor: str | None = None
    score: float | None = None
    reverse: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sieve:
    """What a job must have to come through. Empty fields ask for nothing."""

    attempts: int = 0  # at least
    lane: str = ""
    task: bytes = b""  # bytes that the payload must hold
    texts: tuple[bytes, ...] = ()  # of which the payload or the error must hold one
    died_within_ms: int = 0  # before the server's now; a death that was not noted is none
    died_from_ms: int = 0  # Unix ms
    died_until_ms: int = 0

    def __bool__(self) -> bool:
        return bool(self.attempts or self.lane or self.task or self.texts or any(self.deaths))

    @property
    def deaths(self) -> tuple[int, int, int]:
        """When it must have died: ms before now, and bounds."""
        return self.died_within_ms, self.died_from_ms, self.died_until_ms


class Member(NamedTuple):
    """An id and its score."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class Sifted:
    """One step through a set. ``last`` is where the next one goes on while there is ``more``."""

    now_ms: int
    looked: int
    last: Member | None
    more: bool
    too_large: int  # jobs with a value too large to search
    entries: list[Entry]
    members: list[Member]


def finished(
    queue: Queue, limit: int = 100, place: Place | None = None, *, value_bytes: int = 4_096
) -> Call[Page]:
    """Return jobs that ended well, in the order of their end. A ghost's result is gone."""
    place = place or Place()
    args = (
        "score",
        valid_count(limit, "limit"),
        id_bytes(place.cursor) if place.cursor else b"",
        "" if place.score is None else repr(place.score),
        int(place.reverse),
        valid_count(value_bytes, "value_bytes", least=0, most=_LARGEST_VALUE),
        b":result",
    )
    return Call(_PAGE, (_key(queue, FINISHED), queue.base), args, partial(paged, limit))


def sift(
    queue: Queue,
    job_set: JobSet | str,
    limit: int,
    place: Place,
    sieve: Sieve,
    *,
    value_bytes: int = 4_096,
    facts: bool = True,
) -> Call[Sifted]:
    """Look at up to ``limit`` members of a set, a lane or FINISHED; return those that come through.

    Without ``facts`` the answer has ids and scores alone. Values above ``value_bytes`` are neither
    searched nor returned.
    """
    args: tuple[Argument, ...] = (
        "score" if is_by_score(job_set) else "lex",
        valid_count(limit, "limit"),
        id_bytes(place.cursor) if place.cursor else b"",
        "" if place.score is None else repr(place.score),
        int(place.reverse),
        valid_count(value_bytes, "value_bytes", least=0, most=_LARGEST_VALUE),
        b":result" if job_set == FINISHED else b"",
        int(facts),
        valid_count(sieve.attempts, "attempts", least=0, most=LARGEST_MS),
        valid_lane(sieve.lane) if sieve.lane else "",
        *(valid_ms(one, "died") for one in sieve.deaths),
        sieve.task,
        *sieve.texts,
    )
    return Call(_SIFT, (_key(queue, job_set), queue.base), args, partial(_sifted, facts))


def _sifted(facts: bool, reply: list[Any]) -> Sifted:
    now_ms, looked, last_id, last_score, more, too_large, rows = reply
    return Sifted(
        now_ms=int(now_ms),
        looked=int(looked),
        last=Member(id_text(last_id), float(last_score)) if looked else None,
        more=bool(more),
        too_large=too_large,
        entries=[entry_of(row) for row in rows] if facts else [],
        members=[Member(id_text(row[0]), float(row[1])) for row in rows],
    )


def tally(
    queue: Queue,
    job_set: JobSet | str,
    low: str | float | None = None,
    high: str | float | None = None,
) -> Call[int]:
    """Count the members within bounds: ids, both exclusive, or scores, both inclusive."""
    by_score = is_by_score(job_set)
    bounds = [b"" if one is None else _bound(one) for one in (low, high)]
    return Call(_TALLY, (_key(queue, job_set),), ("score" if by_score else "lex", *bounds), int)


def _bound(value: str | float) -> bytes:
    return id_bytes(value) if isinstance(value, str) else repr(value).encode()


def payload(queue: Queue, job_id: str, most_bytes: int) -> Call[Blob | None]:
    """Return the payload of a job or of the result it left; None where there is none."""
    row = queue.row(job_id)
    args = (valid_count(most_bytes, "most_bytes", least=0, most=_LARGEST_VALUE),)
    return Call(_PAYLOAD, (row, row + b":result"), args, _blob)


def _blob(reply: list[Any]) -> Blob | None:
    size, value = reply
    return None if size < 0 else Blob(size, value)


def result_row(queue: Queue, job_id: str, value_bytes: int = 65_536) -> Call[Row | None]:
    """Return the result that a job left, every field of it, or None."""
    args = (
        id_bytes(job_id),
        valid_count(value_bytes, "value_bytes", least=0, most=_LARGEST_VALUE),
    )
    keys = (queue.row(job_id) + b":result", queue.base)
    return Call(_ROW, keys, args, partial(looked_up, job_id))


def is_by_score(job_set: JobSet | str) -> bool:
    """Tell whether a set is in order of time instead of ids."""
    return job_set in {JobSet.ACTIVE, JobSet.SCHEDULE, FINISHED}


def _key(queue: Queue, job_set: JobSet | str) -> bytes:
    if isinstance(job_set, JobSet) or job_set == FINISHED:
        return queue.base + job_set.encode()
    return queue.lane(valid_lane(job_set))


def chunks(ids: Sequence[str], size: int) -> list[Sequence[str]]:
    """Return ids in parts that one script takes."""
    return [ids[start : start + size] for start in range(0, len(ids), size)]
