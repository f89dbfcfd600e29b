"""What the wire's answers are made of: states, verdicts and frozen records. No behaviour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

MAX_STALLED: Final = 3  # a job whose lease was lost this often is buried
MOST_DEAD: Final = 2**31  # that a queue may be told to keep


class JobState(StrEnum):
    """The row's ``state`` field."""

    PENDING = "pending"
    ACTIVE = "active"
    SCHEDULED = "scheduled"
    DEAD = "dead"
    AWAITING_CHILDREN = "awaiting_children"


class JobSet(StrEnum):
    """The sets that hold ids; a lane's waiting set is named by the lane instead."""

    PENDING = "pending"
    ACTIVE = "active"
    SCHEDULE = "schedule"
    DEAD = "dead"


class Verdict(StrEnum):
    """The expected outcomes of a verb."""

    ENQUEUED = "enqueued"  # admitted and claimable
    SCHEDULED = "scheduled"  # parked until its due time
    DUPLICATE = "duplicate"  # a row with this id exists; nothing was written
    DEFERRED = "deferred"  # leaves when the database transaction commits
    COMPLETED = "completed"  # the row is gone
    DEAD = "dead"  # no try is left
    RELEASED = "released"  # handed back; the run counts for nothing
    EXTENDED = "extended"  # the lease now ends later
    STALE = "stale"  # another claim holds the job, or the lease was lost; nothing was written
    GONE = "gone"  # there is no such row


@dataclass(frozen=True, slots=True)
class Receipt:
    """The answer to an enqueue."""

    id: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A job under lease. ``attempts`` is the fencing token that every settlement must show.

    ``failures`` counts runs that failed and ``stalled`` leases that were lost; both are known for
    jobs a worker took and 0 for a plain claim.
    """

    id: str
    payload: bytes
    attempts: int
    queue: str
    lane: str | None = None
    failures: int = 0
    stalled: int = 0

    @property
    def tries(self) -> int:
        """How many runs ended badly so far."""
        return self.failures + self.stalled


@dataclass(frozen=True, slots=True)
class Taken:
    """What a worker was handed. ``wait_ms`` > 0: the queue's rate is used up for that long."""

    jobs: list[ClaimedJob]
    wait_ms: int


@dataclass(frozen=True, slots=True)
class Swept:
    """What one bounded sweep did. ``seen`` under the asked-for batch means that nothing is left."""

    moved: int  # back to pending, its lane, or on to the next state
    dead: int
    dropped: int  # ids without a row
    seen: int


@dataclass(frozen=True, slots=True)
class Outlook:
    """Whether a take is worth its trip, and when one will be."""

    now_ms: int
    claimable: bool
    next_due_ms: int | None  # when the first scheduled job falls due
    wait_ms: int  # > 0: jobs wait, and the rate is used up for that long
    held_back: bool  # jobs wait for those in flight, of which the queue allows no more
    trees: int  # worker trees that listen for changes of this queue


_ADDED: Final = (
    "pending", "active", "scheduled", "dead", "lanes", "lane_pending", "lanes_counted", "completed",
    "failed", "expired",
)  # fmt: skip
_FIRST: Final = ("oldest_expired_ms", "next_due_ms", "oldest_pending_id")


@dataclass(frozen=True, slots=True)
class Counts:
    """A queue's figures at one moment of the server's clock."""

    now_ms: int
    paused: bool
    pending: int
    active: int
    scheduled: int
    dead: int
    lanes: int  # lanes that have work waiting, in flight, paused, limited or weighted
    lane_pending: int  # jobs that wait in lanes (they are not in ``pending``)
    lanes_counted: int  # lanes behind ``lane_pending``: less than ``lanes`` where the cap was hit
    completed: int
    failed: int
    expired: int  # leases that ended and were not yet reaped
    oldest_expired_ms: int | None  # when the oldest of them ended
    next_due_ms: int | None  # when the first scheduled job falls due
    oldest_pending_id: str | None  # the head of the flat set

    @property
    def waiting(self) -> int:
        """Jobs that a worker could take, in lanes or not."""
        return self.pending + self.lane_pending

    @classmethod
    def sum_of(cls, parts: Sequence[Counts]) -> Counts:
        """Return the figures of queues that stand for one: paused as soon as one of them is."""
        added = {name: sum(getattr(one, name) for one in parts) for name in _ADDED}
        first: dict[str, Any] = {
            name: min((at for one in parts if (at := getattr(one, name)) is not None), default=None)
            for name in _FIRST
        }
        return cls(
            now_ms=max(one.now_ms for one in parts),
            paused=any(one.paused for one in parts),
            **added,
            **first,
        )


@dataclass(frozen=True, slots=True)
class Blob:
    """A field's size in bytes, and its value unless that is over the asked-for limit."""

    size: int
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One member of a set with the facts of its row. ``exists`` is False for a ghost id."""

    id: str
    score: float
    exists: bool
    state: str | None
    attempts: str | None
    lane: str | None
    failures: str | None
    stalled: str | None
    worker: str | None
    payload: Blob
    last_error: Blob
    taken: str | None = None  # when its worker took it (Unix ms)
    task: str | None = None  # on results alone: a row's task is in its payload
    died_ms: int | None = None  # of a dead job, where this package buried it


@dataclass(frozen=True, slots=True)
class Page:
    """A slice of a set in its order, at one moment of the server's clock."""

    now_ms: int
    total: int
    entries: list[Entry]
    more: bool  # the set goes on in the direction that was read


@dataclass(frozen=True, slots=True)
class Row:
    """All of one job: which set holds it and every field of its row (64 at most)."""

    now_ms: int
    id: str
    held_by: str | None  # "pending", "active", "schedule", "dead", "lane" or None
    score: float | None
    ttl_ms: int | None
    finished: bool  # a mark says that the job completed not long ago
    fields: dict[str, Blob]
    field_count: int
