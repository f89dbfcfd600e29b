"""Fires what is due. Every worker has a keeper for its own queues; the server lets one win a slot.

Time is the server's: its answers carry it, and between them the monotonic clock counts. A host
whose wall clock is wrong, or jumps, fires nothing early, late or twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from emq_django.errors import EmqError, WireError
from emq_django.protocol import ids, periodic
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.periodic import Fired, Firing
from emq_django.protocol.records import Receipt, Verdict
from emq_django.task_backend import sending
from emq_django.task_backend.compat import task_backends, task_enqueued
from emq_django.timetable import slots
from emq_django.timetable.entries import Entry
from emq_django.timetable.slots import COUNTED, Plan
from emq_django.worker.link import Runner
from emq_django.worker.log import Quiet

logger = logging.getLogger("emq_django.periodic")

_LOOK_S: Final = 60.0  # between two looks at the server's clock
_TICK_S: Final = 1.0
_TIMEOUT_S: Final = 2.0


@dataclass(slots=True)
class _Line:
    """One entry and where it stands."""

    entry: Entry
    last_ms: int | None = None
    next_ms: int | None = 0


class Keeper:
    """Fires the entries of some queues. One thread calls ``tick`` again and again."""

    def __init__(
        self,
        entries: Iterable[Entry],
        wire_for: Callable[[Queue], Runner],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        by_queue: dict[str, list[Entry]] = {}
        for entry in entries:
            by_queue.setdefault(entry.queue.wire_name, []).append(entry)
        self._desks = [_Desk(group, wire_for(group[0].queue), clock) for group in by_queue.values()]

    def tick(self) -> float:
        """Fire what is due; returns how many seconds to wait until the next call."""
        return min((desk.tick() for desk in self._desks), default=_LOOK_S)


class _Desk:
    """The entries of one queue."""

    def __init__(self, group: Sequence[Entry], wire: Runner, clock: Callable[[], float]) -> None:
        self._queue = group[0].queue
        self._lines = [_Line(entry) for entry in group]
        self._wire = wire
        self._clock = clock
        self._quiet = Quiet(clock)
        self._looked_s: float | None = None
        self._ahead_ms = 0.0  # the server's Unix time less this process's monotonic clock

    def tick(self) -> float:
        """Fire what is due; returns how many seconds to wait."""
        try:
            if self._looked_s is None or not 0 <= self._clock() - self._looked_s < _LOOK_S:
                self._look()
            for line in self._lines:
                if line.next_ms is not None and line.next_ms <= self._now_ms():
                    self._serve(line)
        except WireError as exc:
            # What went through before the connection was lost is seen by the next look.
            self._looked_s = None
            if self._quiet.may_log(type(exc)):
                logger.warning(
                    "periodic tasks of queue %s wait for the server: %s", self._queue.name, exc
                )
            return _TICK_S
        coming = [line.next_ms for line in self._lines if line.next_ms is not None]
        wait_ms = min(coming, default=_LOOK_S * 1_000 + self._now_ms()) - self._now_ms()
        return min(max(wait_ms / 1_000, 0.0), _TICK_S)

    def _look(self) -> None:
        """Learn the server's clock and what other workers fired."""
        names = [line.entry.name for line in self._lines]
        now_ms, states = self._ask(periodic.look(self._queue, names))
        self._set_clock(now_ms)
        for line, state in zip(self._lines, states, strict=True):
            line.last_ms = state.last_ms
            line.next_ms = 0  # look at its slots again
        self._looked_s = self._clock()

    def _serve(self, line: _Line) -> None:
        """Fire what one entry owes. What goes wrong with it is its own trouble."""
        entry, now_ms = line.entry, self._now_ms()
        try:
            if line.last_ms is None:
                # New to the server: it owes nothing for the time before.
                self._note(line, self._ask(periodic.pass_over(self._queue, entry.name, now_ms)))
            else:
                self._fire(line, slots.due(entry.schedule, entry.policy, line.last_ms, now_ms))
        except WireError:
            raise
        except Exception:  # an entry that can't be fired must not keep the others from it
            logger.exception("the periodic task %s could not be enqueued", entry.name)
        line.next_ms = entry.schedule.after(self._now_ms())

    def _fire(self, line: _Line, plan: Plan) -> None:
        if plan.through_ms is None:
            return
        if not plan.fire:
            call = periodic.pass_over(self._queue, line.entry.name, plan.through_ms)
            if self._note(line, self._ask(call)).fired is Fired.FIRED:
                _tell_skipped(line.entry, plan.skipped)
        for slot_ms in plan.fire:
            skipped = plan.skipped if slot_ms == plan.fire[0] else 0
            self._fire_one(line, slot_ms, skipped)

    def _fire_one(self, line: _Line, slot_ms: int, skipped: int) -> None:
        entry = line.entry
        order = order_of(entry)
        job = order.job
        firing = Firing(Fired.TAKEN, 0, None, "")
        while firing.fired is Fired.TAKEN:
            job_id = ids.mint.one()
            call = periodic.fire(
                job.queue, entry.name, slot_ms, job_id, job.payload, job.lane, order.unique, skipped
            )
            firing = self._note(line, self._ask(call))
            if firing.fired is Fired.TAKEN:
                ids.mint.move()
        if firing.fired is Fired.FIRED:
            logger.info(
                "periodic %s: enqueued queue=%s id=%s slot=%d",
                entry.name, job.queue.name, job_id, slot_ms,
            )  # fmt: skip
            _tell_skipped(entry, skipped)
            _tell_enqueued(order, job_id)
        elif firing.fired is Fired.STILL_LIVE:
            logger.info(
                "periodic %s: left out, the job %s of an earlier time still lives",
                entry.name, firing.job_id,
            )  # fmt: skip

    def _note(self, line: _Line, firing: Firing) -> Firing:
        self._set_clock(firing.now_ms)
        line.last_ms = firing.last_ms if firing.last_ms is not None else line.last_ms
        return firing

    def _ask(self, call: Any) -> Any:
        return self._wire.run(call, _TIMEOUT_S)

    def _set_clock(self, now_ms: int) -> None:
        self._ahead_ms = now_ms - self._clock() * 1_000

    def _now_ms(self) -> int:
        return round(self._ahead_ms + self._clock() * 1_000)


def order_of(entry: Entry) -> sending.Order:
    """Return a job of an entry, ready to be sent. Raises what an enqueue of its task would."""
    task = entry.task
    backend = task_backends[task.backend]
    sending.validate(task, backend)
    now_ms = time.time_ns() // 1_000_000
    return sending.order(task, backend.alias, entry.args, entry.kwargs, now_ms)


def keeper_for(queues: Iterable[str], wire_for: Callable[[Queue], Runner]) -> Keeper | None:
    """Return a keeper for the entries of these queues; None where there are none.

    An entry whose task can't be found is logged, and the others go on.
    """
    from emq_django.timetable.entries import entries

    served = set(queues)
    mine = []
    for entry in entries().values():
        try:
            if entry.is_ours and entry.queue.name in served:
                mine.append(entry)
        except EmqError:
            logger.exception("the periodic task %s can't be fired", entry.name)
    return Keeper(mine, wire_for) if mine else None


def _tell_enqueued(order: sending.Order, job_id: str) -> None:
    kind = type(task_backends[order.backend])
    result = order.result(Receipt(job_id, Verdict.ENQUEUED))
    for _, error in task_enqueued.send_robust(kind, task_result=result):
        if error is not None:
            logger.error("a receiver of task_enqueued failed", exc_info=error)


def _tell_skipped(entry: Entry, skipped: int) -> None:
    if skipped:
        more = " or more" if skipped >= COUNTED else ""
        logger.warning(
            "periodic %s: %d%s times were missed and are left out", entry.name, skipped, more
        )
