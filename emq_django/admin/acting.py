"""What the actions do on the server: Calls of ``protocol`` over the admin's own wire.

No request and no words for people but a ``Problem``. Every script here refuses rather than guesses,
so an action that comes too late, or twice, finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from emq_django.admin import words
from emq_django.admin.tokens import ANSWER_S
from emq_django.admin.words import Problem
from emq_django.conf import conf, keys
from emq_django.connections import admin_wire_for
from emq_django.errors import EmqError, WireError
from emq_django.protocol import browse, enqueue, lanes, operate, read, upkeep
from emq_django.protocol.calls import Call
from emq_django.protocol.enqueue import Readmission
from emq_django.protocol.ids import is_branded
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.operate import Cancelled, Removed, Reprocessed
from emq_django.reading import ask_each, ask_where

PER_SCRIPT: Final = 100
_MOST_SWEEPS: Final = 10  # of 100 each; the workers sweep the rest
_MARK_MS: Final = 2 * ANSWER_S * 1_000  # outlives every form that could be sent again


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A selected job or lane.

    ``token`` is the claim under which an active job was shown, or the last one of a job that is
    dead or scheduled, ``copy_id`` the id of its copy.
    """

    id: str
    token: str = ""
    copy_id: str = ""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of an action: which targets it was done to, and how many it was not.

    ``skipped`` no longer were what the page showed; of ``failed`` it is not known.
    """

    done: list[str] = field(default_factory=list)
    skipped: int = 0
    failed: int = 0
    problem: Problem | None = None
    lost: bool = False  # the server did not answer: asking it for more would wait once more
    copies: dict[str, str] = field(default_factory=dict)  # original to copy

    def note(self, ids: Sequence[str], answer: Any, is_done: Callable[[Any], bool]) -> None:
        """Add the answer to one script: one verdict per id, or an error for all."""
        if isinstance(answer, Exception):
            self.failed += len(ids)
            self.problem = words.problem(answer)
            self.lost = self.lost or isinstance(answer, WireError)
            return
        for job_id, verdict in zip(ids, answer, strict=True):
            if is_done(verdict):
                self.done.append(job_id)
            else:
                self.skipped += 1

    def add(self, other: Outcome) -> None:
        """Add what came of the same action in another band."""
        self.done += other.done
        self.skipped += other.skipped
        self.failed += other.failed
        self.problem = other.problem or self.problem
        self.lost = self.lost or other.lost


Jobs = Sequence[Target]


def retry(queue: Queue, jobs: Jobs, lane: str = "") -> Outcome:
    """Give dead jobs another life."""
    build = _as_shown(operate.reprocess, jobs)
    return _in_parts(queue, jobs, build, lambda one: one is Reprocessed.PENDING)


def delete(queue: Queue, jobs: Jobs, lane: str = "") -> Outcome:
    """Remove jobs that no worker holds."""
    return _in_parts(queue, jobs, operate.remove, lambda one: one is Removed.REMOVED)


def run(queue: Queue, jobs: Jobs, lane: str = "") -> Outcome:
    """Let scheduled jobs fall due, then promote what is due."""
    outcome = _in_parts(queue, jobs, _as_shown(operate.hasten, jobs), bool)
    if outcome.done:
        _sweep(queue, upkeep.promote, outcome)
    return outcome


def cancel(queue: Queue, jobs: Jobs, lane: str = "") -> Outcome:
    """Ask the workers of running jobs to end them; remove what waits by now."""
    done = {Cancelled.ASKED, Cancelled.REMOVED}
    return _in_parts(queue, jobs, operate.cancel, lambda one: one in done)


def expire(queue: Queue, jobs: Jobs, lane: str = "") -> Outcome:
    """Let leases end, then reap what is over: fencing and lane counters stay right."""
    outcome = _in_parts(queue, jobs, _as_shown(operate.lapse, jobs), bool)
    if outcome.done:
        _sweep(queue, upkeep.reap, outcome)
    return outcome


def drop_ghosts(queue: Queue, jobs: Jobs, lane: str = "") -> Outcome:
    """Take ids without a row off the sets, and off the lane that was looked at."""

    def drop(queue: Queue, ids: Sequence[str]) -> Call[list[bool]]:
        return operate.drop_ghosts(queue, ids, lane)

    return _in_parts(queue, jobs, drop, bool)


def copy(queue: Queue, jobs: Jobs, lane: str = "") -> Outcome:
    """Enqueue jobs of the same payload and lane under new ids, once under each."""
    wire, outcome = admin_wire_for(queue), Outcome()
    for job in jobs:
        if outcome.lost:
            outcome.failed += 1
            continue
        calls: list[Call[Any]] = [
            browse.payload(queue, job.id, conf().max_payload_bytes),
            read.row(queue, job.id, 64),
            browse.result_row(queue, job.id, 64),
        ]
        payload, row, result = ask_each(wire, calls)
        if isinstance(payload, Exception):
            outcome.note([job.id], payload, bool)
        elif payload is None or payload.value is None:
            outcome.skipped += 1  # gone, or too large to be sent
        else:
            lane = _lane_of(row) or _lane_of(result)
            call = enqueue.readmit(
                queue, job.copy_id, payload.value, lane or None, mark_ms=_MARK_MS
            )
            (answer,) = ask_each(wire, [call])
            verdict = answer if isinstance(answer, Exception) else [answer]
            outcome.note([job.id], verdict, lambda one: one is Readmission.ADMITTED)
            if answer is Readmission.ADMITTED:
                outcome.copies[job.id] = job.copy_id
    return outcome


def _lane_of(row: Any) -> str:
    blob = getattr(row, "fields", {}).get("group")
    lane = (blob.value or b"").decode("ascii", "replace") if blob else ""
    return lane if is_branded(lane) else ""


def pause(queue: Queue) -> Outcome:
    """Hand out no more jobs of a queue, of none of its bands."""
    return _of_bands(queue, operate.pause)


def resume(queue: Queue) -> Outcome:
    """Hand out jobs of a queue and its bands again."""
    return _of_bands(queue, operate.resume)


def change_lanes(queue: Queue, verb: str, names: Sequence[str], number: int) -> Outcome:
    """Pause, resume, limit or weigh lanes."""
    changes: dict[str, Callable[[str], Call[Any]]] = {
        "pause_lane": lambda lane: lanes.pause_lane(queue, lane),
        "resume_lane": lambda lane: lanes.resume_lane(queue, lane),
        "limit_lane": lambda lane: lanes.limit_lane(queue, lane, number),
        "weigh_lane": lambda lane: lanes.weigh_lane(queue, lane, number),
    }
    counts_as_done = (lambda answer: True) if verb in {"limit_lane", "weigh_lane"} else bool
    outcome = Outcome()
    answers = ask_each(admin_wire_for(queue), [changes[verb](lane) for lane in names])
    for lane, answer in zip(names, answers, strict=True):
        outcome.note([lane], answer if isinstance(answer, Exception) else [answer], counts_as_done)
    return outcome


def is_first(queue: Queue, send: str) -> bool:
    """Tell whether a form is sent for the first time, and mark it as sent. Raises EmqError."""
    return bool(admin_wire_for(queue).run(operate.once(queue, send, _MARK_MS)))


JOB_VERBS: Final[dict[str, Callable[[Queue, Jobs, str], Outcome]]] = {
    "retry": retry,
    "run": run,
    "cancel": cancel,
    "expire": expire,
    "copy": copy,
    "delete": delete,
    "drop_ghosts": drop_ghosts,
}
QUEUE_VERBS: Final[dict[str, Callable[[Queue], Outcome]]] = {"pause": pause, "resume": resume}


def _in_parts(
    queue: Queue,
    jobs: Jobs,
    build: Callable[[Queue, Sequence[str]], Call[Any]],
    is_done: Callable[[Any], bool],
) -> Outcome:
    outcome = Outcome()
    parts = browse.chunks(list(dict.fromkeys(job.id for job in jobs)), PER_SCRIPT)
    answers = ask_each(admin_wire_for(queue), [build(queue, part) for part in parts])
    for part, answer in zip(parts, answers, strict=True):
        outcome.note(part, answer, is_done)
    return outcome


def _as_shown(
    build: Callable[[Queue, Sequence[str], Sequence[str]], Call[Any]], jobs: Jobs
) -> Callable[[Queue, Sequence[str]], Call[Any]]:
    """Return what builds the call for some of the jobs, each only as it was when it was shown."""
    tokens = {job.id: job.token for job in jobs}
    return lambda queue, ids: build(queue, ids, [tokens[one] for one in ids])


def _sweep(queue: Queue, build: Callable[..., Call[Any]], outcome: Outcome) -> None:
    wire = admin_wire_for(queue)
    try:
        for _ in range(_MOST_SWEEPS):
            if wire.run(build(queue, PER_SCRIPT)).seen < PER_SCRIPT:
                return
    except EmqError as exc:  # it is done all the same: a worker's sweep moves the jobs on
        outcome.problem = words.problem(exc)


def _of_bands(queue: Queue, build: Callable[[Queue], Call[bool]]) -> Outcome:
    """Do the same to each band of a queue: it is done as soon as one of them was changed."""
    outcome = Outcome()
    bands = [keys(band) for band in conf().bands(queue.name)]
    answers = ask_where([(one, build(one)) for one in bands])
    failed = next((answer for answer in answers if isinstance(answer, Exception)), None)
    outcome.note([queue.name], [any(answers)] if failed is None else failed, bool)
    return outcome
