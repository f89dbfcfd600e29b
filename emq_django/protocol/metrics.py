"""What worker processes count, per queue and minute, and rolled up per hour.

Only runs of workers of this package are counted. A process adds up what it saw and flushes it
every few seconds (``worker/metrics.py``), so a process that is killed takes at most one such
interval with it. Minutes are kept for 9 hours, hours for 14 days.

A record is one text of numbers in the order of ``_text``; durations are 16 buckets, each about
three times as wide as the one before it.

Beside it stands how many jobs a queue held: a note once a minute, by whichever worker comes first,
also where nothing ran. An hour keeps the largest of each number.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, islice
from typing import Any, Final, Literal

from emq_django.protocol import scripts
from emq_django.protocol.calls import Call
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.numbers import LARGEST_MS, valid_count, valid_ms

Grain = Literal["minute", "hour"]

GRAIN_MS: Final = {"minute": 60_000, "hour": 3_600_000}
# A bucket holds durations up to its bound; the last one all longer ones, from 2.8 hours.
BOUNDS_MS: Final = (
    1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000,
    10_000_000,
)  # fmt: skip
BUCKETS: Final = len(BOUNDS_MS) + 1
_DEPTHS: Final = ("pending", "in_lanes", "active", "scheduled", "dead")
COUNTS: Final = ("started", "completed", "failed", "retried", "lost")
_MOST: Final = {"minute": 540, "hour": 336}
_MINUTES_LIFE_MS: Final = 10 * 3_600_000  # an hour's key is written to until the hour ends
_HOURS_LIFE_MS: Final = 15 * 86_400_000

_FLUSH = scripts.load("metrics_flush")
_NOTE = scripts.load("depth_note")
_READ = scripts.load("metrics_read")


@dataclass(slots=True)
class Durations:
    """How long things took: a sum, and how many fell into each bucket."""

    sum_ms: float = 0
    buckets: list[int] = field(default_factory=lambda: [0] * BUCKETS)

    def add(self, ms: float) -> None:
        """Count one."""
        self.sum_ms += ms
        self.buckets[bisect_left(BOUNDS_MS, ms)] += 1

    def merge(self, other: Durations) -> None:
        """Add what another one counted."""
        self.sum_ms += other.sum_ms
        self.buckets = [a + b for a, b in zip(self.buckets, other.buckets, strict=True)]

    @property
    def count(self) -> int:
        """How many were counted."""
        return sum(self.buckets)

    @property
    def mean_ms(self) -> float | None:
        """The exact mean; None where nothing was counted."""
        return self.sum_ms / self.count if self.count else None

    def percentile_ms(self, share: float) -> float | None:
        """Return a duration that ``share`` of them (0 to 1) stayed within; None without any.

        Exact to its bucket, in which they are taken to be spread evenly. What fell into the last
        bucket is said as its lower bound.

        >>> half = Durations(buckets=[0, 0, 0, 10, *[0] * 12])
        >>> half.percentile_ms(0.5)
        20.0
        """
        wanted = share * self.count
        if not self.count:
            return None
        sums = list(accumulate(self.buckets))
        place = next(i for i, reached in enumerate(sums) if reached >= wanted and self.buckets[i])
        if place == len(BOUNDS_MS):
            return float(BOUNDS_MS[-1])
        low = BOUNDS_MS[place - 1] if place else 0
        inside = (wanted - (sums[place] - self.buckets[place])) / self.buckets[place]
        return low + (BOUNDS_MS[place] - low) * max(inside, 0.0)


@dataclass(slots=True)
class Figures:
    """What was counted in one stretch of time.

    Attributes:
        started: runs that began.
        completed: runs whose job is done.
        failed: jobs that went to dead.
        retried: runs that failed and left their job another one.
        lost: leases that ended before their job did, with a lost worker as a rule; counted by the
            worker that found out.
        run: how long runs took that ended.
        wait: from mint to start, of first runs; with its delay where a job was scheduled.
    """

    started: int = 0
    completed: int = 0
    failed: int = 0
    retried: int = 0
    lost: int = 0
    run: Durations = field(default_factory=Durations)
    wait: Durations = field(default_factory=Durations)

    def merge(self, other: Figures) -> None:
        """Add what another one counted."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.run.merge(other.run)
        self.wait.merge(other.wait)


@dataclass(frozen=True, slots=True)
class Stretch:
    """One minute or hour of the server's clock."""

    start_ms: int
    figures: Figures


@dataclass(frozen=True, slots=True)
class Depth:
    """How many jobs a queue held at some moment of a minute, or at most in an hour's notes."""

    start_ms: int
    pending: int
    in_lanes: int
    active: int
    scheduled: int
    dead: int

    @property
    def waiting(self) -> int:
        """Jobs that a worker could take, in lanes or not."""
        return self.pending + self.in_lanes


def sum_of_depths(parts: Sequence[Sequence[Depth]]) -> list[Depth]:
    """Return what queues that stand for one held together.

    Of an hour this is what they held at most, each at a moment of its own.
    """
    found: dict[int, list[Depth]] = {}
    for one in (one for part in parts for one in part):
        found.setdefault(one.start_ms, []).append(one)
    return [
        Depth(start, *(sum(getattr(one, name) for one in found[start]) for name in _DEPTHS))
        for start in sorted(found)
    ]


@dataclass(frozen=True, slots=True)
class History:
    """The stretches in which something was counted, oldest first."""

    now_ms: int
    stretches: list[Stretch]

    def total(self) -> Figures:
        """Return all of them added up."""
        total = Figures()
        for stretch in self.stretches:
            total.merge(stretch.figures)
        return total

    @classmethod
    def sum_of(cls, parts: Sequence[History]) -> History:
        """Return what was counted in queues that stand for one."""
        found: dict[int, Figures] = {}
        for stretch in (stretch for one in parts for stretch in one.stretches):
            found.setdefault(stretch.start_ms, Figures()).merge(stretch.figures)
        stretches = [Stretch(start, found[start]) for start in sorted(found)]
        return cls(max(one.now_ms for one in parts), stretches)


def flush(queue: Queue, figures: Figures, ago_ms: int = 0) -> Call[int]:
    """Add figures to the minute and the hour of ``ago_ms`` ago; parses to the server's now.

    Not to be sent again when its reply was lost: it would count twice.
    """
    args = (valid_ms(ago_ms, "ago_ms"), _MINUTES_LIFE_MS, _HOURS_LIFE_MS, _text(figures))
    return Call(_FLUSH, (queue.base,), args, int)


def history(queue: Queue, grain: Grain = "minute", count: int = 60) -> Call[History]:
    """Return the last ``count`` minutes (540 at most) or hours (336), the current one included."""
    args = (grain, valid_count(count, "count", most=_MOST[grain]), "figures")
    return Call(_READ, (queue.base,), args, partial(_history, count))


def note_depth(queue: Queue) -> Call[bool]:
    """Note how many jobs a queue holds; False where this minute has its note already."""
    return Call(_NOTE, (queue.base,), (_MINUTES_LIFE_MS, _HOURS_LIFE_MS), bool)


def depths(queue: Queue, grain: Grain = "minute", count: int = 60) -> Call[list[Depth]]:
    """Return what was noted in the last ``count`` minutes (540 at most) or hours (336)."""
    args = (grain, valid_count(count, "count", most=_MOST[grain]), "depths")
    return Call(_READ, (queue.base,), args, partial(_depths, count))


def _history(count: int, reply: list[Any]) -> History:
    now_ms, found = reply
    stretches = [Stretch(int(start), _figures(text.split())) for start, text in found[:count]]
    return History(int(now_ms), stretches)


def _depths(count: int, reply: list[Any]) -> list[Depth]:
    _now_ms, found = reply
    return [_depth(int(start), text.split()) for start, text in found[:count]]


def _depth(start_ms: int, texts: Sequence[bytes]) -> Depth:
    most = len(_DEPTHS)
    numbers = [*_numbers(texts), *[0] * most][:most]
    return Depth(start_ms, **dict(zip(_DEPTHS, numbers, strict=True)))


def _text(figures: Figures) -> str:
    counts = [getattr(figures, name) for name in COUNTS]
    sums = [_whole_ms(figures.run.sum_ms), _whole_ms(figures.wait.sum_ms)]
    return " ".join(map(str, [*counts, *sums, *figures.run.buckets, *figures.wait.buckets]))


def _whole_ms(ms: float) -> int:
    return min(round(ms), LARGEST_MS)


def _numbers(texts: Sequence[bytes]) -> list[int]:
    return [int(text) if text.isdigit() and len(text) <= 16 else 0 for text in texts]


def _figures(texts: Sequence[bytes]) -> Figures:
    parts = iter([*_numbers(texts), *[0] * (7 + 2 * BUCKETS)])
    counts = {name: next(parts) for name in COUNTS}
    run_sum, wait_sum = next(parts), next(parts)
    return Figures(
        **counts,
        run=Durations(run_sum, list(islice(parts, BUCKETS))),
        wait=Durations(wait_sum, list(islice(parts, BUCKETS))),
    )
