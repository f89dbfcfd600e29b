"""Read-only looks at a queue. Every call is bounded by a limit; big values stay on the server."""

from __future__ import annotations

from functools import partial
from typing import Any

from emq_django.protocol import scripts
from emq_django.protocol.calls import Call
from emq_django.protocol.ids import valid_lane
from emq_django.protocol.keyspace import Queue, id_bytes, id_text
from emq_django.protocol.numbers import ms_of, valid_count
from emq_django.protocol.records import Blob, Counts, Entry, JobSet, Outlook, Page, Row

DEFAULT_VALUE_BYTES = 4_096  # larger values are reported by their size only

_COUNTS = scripts.load("counts")
_LOOK = scripts.load("look")
_PAGE = scripts.load("page")
_ROW = scripts.load("row")
_STATE = scripts.load("state")


def look(queue: Queue) -> Call[Outlook]:
    """Return whether a take would find something, and when one will."""
    return Call(_LOOK, (queue.base,), (), _looked)


def _looked(reply: list[Any]) -> Outlook:
    now_ms, claimable, due_ms, wait_ms, held_back, trees = reply
    due = ms_of(due_ms)
    return Outlook(int(now_ms), bool(claimable), due, wait_ms, bool(held_back), trees)


def counts(queue: Queue) -> Call[Counts]:
    """Return a queue's figures at one moment. Up to 1,000 lanes are added up."""
    return Call(_COUNTS, (queue.base,), (), _counted)


def _counted(reply: list[Any]) -> Counts:
    numbers = [int(part) for part in reply[:12]]
    expired_ms, due_ms, head = reply[12:]
    return Counts(
        now_ms=numbers[0],
        paused=bool(numbers[1]),
        pending=numbers[2],
        active=numbers[3],
        scheduled=numbers[4],
        dead=numbers[5],
        lanes=numbers[6],
        lane_pending=numbers[7],
        lanes_counted=numbers[8],
        completed=numbers[9],
        failed=numbers[10],
        expired=numbers[11],
        oldest_expired_ms=ms_of(expired_ms),
        next_due_ms=ms_of(due_ms),
        oldest_pending_id=id_text(head) if head else None,
    )


def page(
    queue: Queue,
    job_set: JobSet | str,
    limit: int = 100,
    *,
    cursor: str | None = None,
    cursor_score: float | None = None,
    reverse: bool = False,
    value_bytes: int = DEFAULT_VALUE_BYTES,
) -> Call[Page]:
    """Return up to ``limit`` members of a set, with the facts of their rows.

    ``job_set`` is a JobSet or a lane. Pending, dead and lanes are in id order (mint order), active
    and schedule in score order (lease end, due time). ``cursor`` is the last id seen: the page
    starts behind it in the direction of reading. In a score-ordered set ``cursor_score`` says where
    it stood, also when it has left; without a cursor the page starts at that score. ``reverse``
    reads from the other end.
    """
    by_score = job_set in {JobSet.ACTIVE, JobSet.SCHEDULE}
    if isinstance(job_set, JobSet):
        key = queue.base + job_set.value.encode()
    else:
        key = queue.lane(valid_lane(job_set))
    args = (
        "score" if by_score else "lex",
        valid_count(limit, "limit"),
        id_bytes(cursor) if cursor else b"",
        "" if cursor_score is None else repr(cursor_score),
        int(reverse),
        valid_count(value_bytes, "value_bytes", least=0, most=2**30),
        b"",
    )
    return Call(_PAGE, (key, queue.base), args, partial(paged, limit))


def paged(limit: int, reply: list[Any]) -> Page:
    """Read the reply of the script page."""
    now_ms, total, rows = reply
    return Page(
        now_ms=int(now_ms),
        total=total,
        entries=[entry_of(row) for row in rows[:limit]],
        more=len(rows) > limit,
    )


def entry_of(row: list[Any]) -> Entry:
    """Read one row of a list."""
    raw_id, score, exists, state, attempts, lane, failures, stalled, worker = row[:9]
    payload_size, payload, error_size, error, taken, task, died = row[9:]
    return Entry(
        id=id_text(raw_id),
        score=float(score),
        exists=bool(exists),
        state=_text(state),
        attempts=_text(attempts),
        lane=_text(lane),
        failures=_text(failures),
        stalled=_text(stalled),
        worker=_text(worker),
        payload=Blob(payload_size, payload),
        last_error=Blob(error_size, error),
        taken=_text(taken),
        task=_text(task),
        died_ms=death_ms(_text(died), _text(attempts)),
    )


def death_ms(died: str | None, attempts: str | None) -> int | None:
    """Return when a dead job died; None where its mark is about another claim than its last one.

    >>> death_ms("1700000000000:3", "3")
    1700000000000
    """
    at, _colon, claim = (died or "").partition(":")
    known = at.isascii() and at.isdecimal() and len(at) < 16 and claim == (attempts or "0")
    return int(at) if known else None


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else id_text(raw)


def row(queue: Queue, job_id: str, value_bytes: int = 65_536) -> Call[Row | None]:
    """Return all of one job, or None when neither a row nor a set nor a mark knows the id."""
    args = (
        id_bytes(job_id),
        valid_count(value_bytes, "value_bytes", least=0, most=2**30),
    )
    return Call(_ROW, (queue.row(job_id), queue.base), args, partial(looked_up, job_id))


def looked_up(job_id: str, reply: list[Any]) -> Row | None:
    """Read the reply of the script row."""
    now_ms, held_by, score, ttl_ms, finished, field_count, fields = reply
    if not field_count and not held_by and not finished:
        return None
    return Row(
        now_ms=int(now_ms),
        id=job_id,
        held_by=_text(held_by) or None,
        score=float(score) if score else None,
        ttl_ms=ttl_ms if ttl_ms >= 0 else None,
        finished=bool(finished),
        fields={id_text(name): Blob(size, value) for name, size, value in fields},
        field_count=field_count,
    )


def state(queue: Queue, job_id: str) -> Call[str]:
    """Return where a job is: a JobState, "unknown" (a row in no set) or "absent"."""
    return Call(_STATE, (queue.row(job_id), queue.base), (id_bytes(job_id),), id_text)
