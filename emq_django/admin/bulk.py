"""Actions on all jobs that match: a walk by cursor in bounded scripts, resumable between requests.

The cursor only moves on, so each id is taken at most once, also where jobs die again meanwhile. The
state of a walk travels signed in the URL of its progress page. Its entry of the admin log is the
lock: a step begins by changing the entry from what the step before wrote, so that the same step
can't run twice, from a second tab for one (``walking``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from django.core import signing

from emq_django.admin import bands, paging, words
from emq_django.admin.asking import Ask
from emq_django.admin.searching import SCAN_STEP
from emq_django.admin.words import Problem
from emq_django.conf import keys
from emq_django.connections import admin_wire_for
from emq_django.protocol import browse, lanes, operate, read
from emq_django.protocol.calls import Call
from emq_django.protocol.ids import is_branded
from emq_django.protocol.keyspace import Queue, id_bytes
from emq_django.protocol.operate import Drained, Removed, Reprocessed
from emq_django.protocol.records import Entry, JobSet
from emq_django.reading import ask_each, ask_where

STEP_S: Final = 5.0  # of one request
_IDS: Final = 1_000  # ids read at once
PER_SCRIPT: Final = 50  # of them settled in one script, which holds the server meanwhile
_SALT: Final = "emq_django.admin.walk"
_OLDEST_S: Final = 24 * 3600
_MOST_LANES: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """How far a bulk action is. Field names are short: all of it stands in a URL."""

    verb: str
    queue: str
    at: str  # the queue on the wire that it is at: of one with priorities, a band
    query: str  # of the list that it was started from
    user: str
    low: str | None = None
    high: str | None = None
    low_score: float | None = None
    high_score: float | None = None
    cursor: str = ""  # token of the last id, or the lane that a drain is at
    score: float | None = None
    matched: int = 0  # members within the bounds when it began
    looked: int = 0
    done: int = 0
    skipped: int = 0
    failed: int = 0
    room: int = -1  # what a drain may still remove from the set it is at; -1: not begun
    entry: int = 0  # of the admin log
    step: int = 0
    began_ms: int = 0
    over: bool = False

    @property
    def bounds(self) -> paging.Bounds:
        """Which members the walk is about."""
        return paging.Bounds(
            low=self.low, high=self.high, low_score=self.low_score, high_score=self.high_score
        )

    def signed(self) -> str:
        """Return the state as a URL carries it."""
        kept = {name: value for name, value in asdict(self).items() if value != _DEFAULTS.get(name)}
        return signing.dumps(kept, salt=_SALT, compress=True)

    def after(self, **changes: Any) -> Walk:
        """Return the walk with some of its facts changed."""
        return Walk(**{**asdict(self), **changes})


_DEFAULTS: Final = {entry.name: entry.default for entry in fields(Walk)}


def read_state(text: str, user: str) -> Walk | None:
    """Return a walk of this user; None for a state that is forged, another's or a day old."""
    try:
        walk = Walk(**signing.loads(text, salt=_SALT, max_age=_OLDEST_S))
    except (signing.BadSignature, TypeError):
        return None
    return walk if walk.user == user else None


@dataclass(slots=True)
class Step:
    """What one request's work came to."""

    walk: Walk
    problem: Problem | None = None


Still = Callable[[], bool]
Shows = Callable[[Entry], bool]


def now_ms(name: str) -> int | Exception:
    """Return the time of the server's clock."""
    (counts,) = ask_where([(keys(name), read.counts(keys(name)))])
    return counts if isinstance(counts, Exception) else int(counts.now_ms)


def matched(names: Sequence[str], ask: Ask, now_ms: int) -> int | Exception:
    """Count the members within an ask's bounds; conditions on rows are not looked at."""
    bounds = paging.bounds_of(ask, now_ms)
    low, high = (bounds.low_score, bounds.high_score) if ask.by_score else (bounds.low, bounds.high)
    asked = [(keys(one), browse.tally(keys(one), ask.job_set, low, high)) for one in names]
    return _sum(ask_where(asked))


def waiting(names: Sequence[str], lane: str) -> int | Exception:
    """Count what a drain would remove: a lane's jobs, or the queues' and those of all lanes."""
    if lane:
        return _sum(ask_where([(keys(one), browse.tally(keys(one), lane)) for one in names]))
    found = ask_where([(keys(one), read.counts(keys(one))) for one in names])
    return _sum([one if isinstance(one, Exception) else one.waiting for one in found])


def _sum(answers: Sequence[Any]) -> int | Exception:
    failed = next((one for one in answers if isinstance(one, Exception)), None)
    return sum(answers) if failed is None else failed


def advance(walk: Walk, ask: Ask, shows: Shows, still: Still, *, value_bytes: int) -> Step:
    """Work for ``STEP_S``, or until nothing is left, the server fails, or ``still`` says no."""
    step = Step(walk)
    until = time.monotonic() + STEP_S
    while not step.walk.over:
        queue = keys(step.walk.at)
        if walk.verb == "drain":
            _drain_some(queue, step, ask)
        else:
            _settle_some(queue, step, ask, shows, value_bytes)
        step.walk = _passed_on(step.walk, ask)
        if step.problem or time.monotonic() > until or not still():
            break
    return step


def _passed_on(walk: Walk, ask: Ask) -> Walk:
    """Return the walk at the next band once it is through with one."""
    if not walk.over:
        return walk
    names = bands.queues_of(walk.queue, ask.band)
    behind = names[names.index(walk.at) + 1 :] if walk.at in names else ()
    if not behind:
        return walk
    return walk.after(at=behind[0], cursor="", score=None, room=-1, over=False)


def _settle_some(queue: Queue, step: Step, ask: Ask, shows: Shows, value_bytes: int) -> None:
    walk, wire, sieve = step.walk, admin_wire_for(queue), ask.sieve
    call = browse.sift(
        queue,
        ask.job_set,
        SCAN_STEP if sieve else _IDS,
        _place(walk, ask),
        sieve,
        value_bytes=value_bytes,
        facts=bool(sieve),
    )
    (found,) = ask_each(wire, [call])
    if isinstance(found, Exception):
        step.problem = words.problem(found)
        return
    bounds = walk.bounds
    if sieve:
        hits = [one for one in found.entries if shows(one)]
        members: Sequence[Any] = hits
    else:
        members = found.members
    ids = [one.id for one in members if bounds.hold(id_bytes(one.id), one.score)]
    build, is_done = _SETTLE[walk.verb]
    parts = browse.chunks(ids, PER_SCRIPT)
    answers = ask_each(wire, [build(queue, part) for part in parts])
    done = skipped = failed = 0
    for part, answer in zip(parts, answers, strict=True):
        if isinstance(answer, Exception):
            failed += len(part)
            step.problem = words.problem(answer)
        else:
            good = sum(map(is_done, answer))
            done, skipped = done + good, skipped + len(part) - good
    last = found.last
    inside = last is not None and bounds.hold(id_bytes(last.id), last.score)
    step.walk = walk.after(
        cursor=last.id.encode("utf-8", "surrogateescape").hex() if last else walk.cursor,
        score=last.score if last and ask.by_score else walk.score,
        looked=walk.looked + found.looked,
        done=walk.done + done,
        skipped=walk.skipped + skipped,
        failed=walk.failed + failed,
        over=not found.more or not inside,
    )


def _place(walk: Walk, ask: Ask) -> browse.Place:
    if walk.cursor:
        raw = bytes.fromhex(walk.cursor)
        return browse.Place(cursor=raw.decode("utf-8", "surrogateescape"), score=walk.score)
    if ask.by_score:
        return browse.Place(score=walk.low_score)
    return browse.Place(cursor=walk.low)


_Settle = tuple[Callable[[Queue, Sequence[str]], Call[Any]], Callable[[Any], bool]]
_SETTLE: Final[dict[str, _Settle]] = {
    "retry_all": (operate.reprocess, lambda one: one is Reprocessed.PENDING),
    "delete_all": (operate.remove, lambda one: one is Removed.REMOVED),
}


def _drain_some(queue: Queue, step: Step, ask: Ask) -> None:
    """Remove up to 1,000 waiting jobs of the set the walk is at, the oldest first.

    No more than stood there when its turn came: what is enqueued meanwhile comes last and stays.
    """
    walk, wire = step.walk, admin_wire_for(queue)
    if walk.room < 0:
        _begin_set(queue, step, walk.cursor or ask.lane)
        return
    target: JobSet | str = walk.cursor or JobSet.PENDING
    sizes = [PER_SCRIPT] * (min(walk.room, _IDS) // PER_SCRIPT)
    if rest := min(walk.room, _IDS) % PER_SCRIPT:
        sizes.append(rest)
    answers = ask_each(wire, [operate.drain(queue, target, size) for size in sizes])
    removed, failed, left = 0, 0, 1
    for size, answer in zip(sizes, answers, strict=True):
        if isinstance(answer, Drained):
            removed, left = removed + answer.removed, answer.left
        else:
            failed += size
            step.problem = words.problem(answer)
    room = max(walk.room - removed - failed, 0) if left else 0
    step.walk = walk.after(
        done=walk.done + removed,
        failed=walk.failed + failed,
        looked=walk.looked + removed,
        room=room,
    )
    if room == 0:
        _next_set(queue, step, ask)


def _begin_set(queue: Queue, step: Step, lane: str) -> None:
    (count,) = ask_each(admin_wire_for(queue), [browse.tally(queue, lane or JobSet.PENDING)])
    if isinstance(count, Exception):
        step.problem = words.problem(count)
    else:
        step.walk = step.walk.after(cursor=lane, room=count)


def _next_set(queue: Queue, step: Step, ask: Ask) -> None:
    """Go on to the next lane with waiting jobs, in the order of their names."""
    if ask.lane:
        step.walk = step.walk.after(over=True)
        return
    (found,) = ask_each(admin_wire_for(queue), [lanes.lane_depths(queue, None, _MOST_LANES)])
    if isinstance(found, Exception):
        step.problem = words.problem(found)
        return
    further = [
        lane
        for lane in found
        if lane.waiting and lane.name > step.walk.cursor and is_branded(lane.name)
    ]
    lane = min(further, key=lambda one: one.name, default=None)
    if lane is None:
        step.walk = step.walk.after(over=True, room=0)
    else:
        step.walk = step.walk.after(cursor=lane.name, room=lane.waiting)
