"""Time for queues, which passes when the test says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.conf import settings

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import operate, read, upkeep
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.records import JobSet
from emq_django.testing.isolation import known_queues

_MOST: Final = 1_000  # jobs in one look at a set, times of one periodic task


class Clock:
    """Lets time pass for queues, without waiting: ``clock.advance(hours=1)``, then run_pending().

    Delayed jobs fall due and are promoted as an operator and a worker would do it; the server's
    clock stays as it is. Periodic tasks are enqueued for each of their times, by name where
    ``periodic`` names some, all of them by default, none for an empty list.
    """

    def __init__(self, periodic: Iterable[str] | None = None) -> None:
        self._periodic = None if periodic is None else set(periodic)
        self._ahead = timedelta()
        self._seen: dict[str, timedelta] = {}  # a scheduled job: how far we were ahead by then

    def now(self) -> datetime:
        """Return the time that it is for the queues, by the server's clock and what has passed."""
        queue = keys("default")
        now_ms = wire_for(queue).run(read.counts(queue)).now_ms
        return datetime.fromtimestamp(now_ms / 1_000, UTC) + self._ahead

    def advance(self, delta: timedelta | None = None, **units: float) -> None:
        """Let a timedelta pass, or ``seconds=``, ``minutes=``, ``hours=``, ``days=``."""
        step = delta if delta is not None else timedelta(**units)
        if step < timedelta():
            raise ValueError(f"{step} is in the past: time only passes")
        before = self.now()
        self._note_scheduled()
        self._ahead += step
        self._enqueue_periodic(before, before + step)
        self._promote()

    def advance_to(self, moment: datetime) -> None:
        """Let the time pass until a moment, an aware datetime."""
        if moment.utcoffset() is None:
            raise ValueError(f"{moment!r} is naive: give an aware datetime")
        self.advance(moment - self.now())

    def _note_scheduled(self) -> None:
        for _, entry in _scheduled():
            self._seen.setdefault(entry.id, self._ahead)

    def _promote(self) -> None:
        now_ms = self.now().timestamp() * 1_000
        for queue, entry in _scheduled():
            ahead = self._seen.get(entry.id, self._ahead)
            if entry.score + ahead.total_seconds() * 1_000 <= now_ms:
                wire_for(queue).run(operate.hasten(queue, [entry.id]))
        for name in known_queues():
            queue = keys(name)
            while wire_for(queue).run(upkeep.promote(queue)).moved:
                pass

    def _enqueue_periodic(self, before: datetime, after: datetime) -> None:
        if not getattr(settings, "TASKS", None):
            return
        from emq_django.timetable import slots
        from emq_django.timetable.entries import entries

        policy = slots.Policy(catch_up="all", at_most=_MOST)
        span = round(before.timestamp() * 1_000), round(after.timestamp() * 1_000)
        due = [
            (slot_ms, name, entry)
            for name, entry in entries().items()
            if self._periodic is None or name in self._periodic
            for slot_ms in slots.due(entry.schedule, policy, *span).fire
        ]
        for _, _, entry in sorted(due, key=lambda one: one[:2]):
            entry.task.enqueue(*entry.args, **entry.kwargs)


def _scheduled() -> Iterator[tuple[Queue, Any]]:
    for name in known_queues():
        queue = keys(name)
        for entry in wire_for(queue).run(read.page(queue, JobSet.SCHEDULE, _MOST)).entries:
            yield queue, entry
