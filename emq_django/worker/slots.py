"""Concurrency: a fixed number of slots, each a thread, and one line before all of them.

Whoever is free runs the next in line, so nothing waits behind something long while another slot is
free. What follows up on a piece of work is done by the slot that did the work, before anything in
line, so it keeps nobody but that slot. Knows no queue and no job.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Generic, TypeVar

from emq_django.worker.log import logger

T = TypeVar("T")

_JOIN_S: Final = 1.0
_LONG_S: Final = 0.01


class _Place:
    """One thread's own; the lock of all is held wherever it is looked at.

    Attributes:
        follow_ups: what this thread does before anything else.
        changed: notified when there is something to do.
        began_s: when it began with what it does.
        is_busy: whether it works, or has something to follow up.
        owes_ring: whether it has done work since its last ring.
    """

    __slots__ = ("began_s", "changed", "follow_ups", "is_busy", "owes_ring")

    def __init__(self, lock: threading.Lock) -> None:
        self.follow_ups: deque[Callable[[], None]] = deque()
        self.changed = threading.Condition(lock)
        self.began_s = 0.0
        self.is_busy = False
        self.owes_ring = False


class _Lent:
    """Work of another thread, which waits for it."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._raised: BaseException | None = None
        self._through = threading.Lock()  # held until then: an Event does the same in ten calls
        self._through.acquire()

    def __call__(self) -> None:
        try:
            self._work()
        except BaseException as exc:  # noqa: BLE001 - it is raised where it was lent
            self._raised = exc
        finally:
            self._through.release()

    def wait(self) -> None:
        """Return when it is through, or raise what it raised."""
        with self._through:
            if self._raised is not None:
                raise self._raised


class Slots(Generic[T]):
    """Does ``work`` with what is submitted, up to ``count`` at a time.

    ``on_free`` is called when a slot has nothing to do, and when no more than ``low_mark`` are left
    in line. After what follows up on work it is called only if somebody was told that no slot is
    free, or not all are: else that would be a second ring for the same work. Threads are started
    when first needed. They are daemons: a stop that may not wait for a handler must not be held up
    by the interpreter joining its thread.
    """

    def __init__(
        self,
        count: int,
        work: Callable[[T], None],
        *,
        on_free: Callable[[], None],
        thread_ends: Callable[[], None],
    ) -> None:
        self.low_mark = -1
        self.begun = 0  # so many items came to their turn
        self._count = count
        self._work = work
        self._on_free = on_free
        self._thread_ends = thread_ends
        self._line: deque[T] = deque()
        self._lock = threading.Lock()
        self._places: dict[int, _Place] = {}  # by thread
        self._idle: dict[_Place, None] = {}  # the last one is woken first
        self._asleep: list[_Place] = []  # of those, who has something to follow up
        self._lent: deque[Callable[[], None]] = deque()
        self._borrower: _Place | None = None  # who does what was lent, and then looks at the line
        self._hands = count  # so many may be at work at once
        self._busy = 0
        self._owed_rings = 0
        self._was_missed = False  # somebody waits for a slot to be free, whatever it does now
        self._closed = False
        self._moved_s = 0.0
        self._threads: list[threading.Thread] = []

    def free(self) -> int:
        """Return how many slots have nothing to do, now or next."""
        with self._lock:
            busy = self._busy - self.is_lent
            free = max(self._count - busy - len(self._line), 0)
            self._was_missed |= not (free or self._line)
            return free

    def busy(self) -> int:
        """Return how many slots work."""
        with self._lock:
            self._was_missed |= self._busy > 0
            return self._busy

    def is_full(self) -> bool:
        """Whether every slot works."""
        with self._lock:
            return self._busy >= self._count

    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        with self._lock:
            self._was_missed |= self._busy > 0 and not (self._line or self._owed_rings)
            return not (self._busy or self._line)

    @property
    def is_lent(self) -> bool:
        """Whether an idle slot does what was lent, and comes back for what is submitted now."""
        return self._borrower is not None

    def line(self) -> list[T]:
        """Return what waits, in its order."""
        with self._lock:
            return list(self._line)

    def still_s(self) -> float:
        """Return for how long nobody in line has come to its turn; 0.0 where nobody waits."""
        with self._lock:
            return time.monotonic() - self._moved_s if self._line else 0.0

    def submit(self, items: Sequence[T], hands: int | None = None) -> None:
        """Put items in line. ``hands``: how many slots all in line is worth, if not all of them.

        Threads that work on trifles get in each other's way. Whether it was one is seen by
        ``spread``, which has to be called soon, for as long as something is in line.
        """
        now_s = time.monotonic()
        with self._lock:
            if not self._line:
                self._moved_s = now_s
            self._line.extend(items)
            self._hands = self._count
            if hands is not None:
                if self._borrower is not None:
                    self._borrower.began_s = now_s  # to wait was no work
                self._hands = max(hands, 1) + self._held_up(now_s)  # one at least goes on
            self._wake_asleep()
            others = len(self._line) - self.is_lent  # who comes without being summoned
            if others > 0:
                self._summon(min(others, self._hands - self._busy))

    def lend(self, work: Callable[[], None]) -> None:
        """Have an idle slot do ``work``; returns when that is through, and raises what it raises.

        The first of what it submits begins on the thread of that slot, which nobody has to wake.
        """
        lent = _Lent(work)
        with self._lock:
            self._lent.append(lent)
            self._summon(1)
        lent.wait()

    def spread(self, still_s: float) -> None:
        """Wake a slot for each in line, if none has come to its turn for longer than this.

        Any thread may ask for it.
        """
        if self.still_s() > still_s:
            with self._lock:
                self._hands = self._count
                self._summon(len(self._line))

    def follow_up(self, thread_id: int, work: Callable[[], None]) -> None:
        """Have the slot that is this thread do ``work`` next; one that has ended does not.

        An idle one wakes for it at the next ``submit`` or ``wake``: mostly one wake for both.
        """
        with self._lock:
            place = self._places.get(thread_id)
            if place is None:
                return
            place.follow_ups.append(work)
            if not place.is_busy:
                place.began_s = time.monotonic()  # to be woken is not to be held up
                self._count_busy(place, is_busy=True)
                self._asleep.append(place)

    def wake(self) -> None:
        """Have follow-ups done whose slots are idle."""
        if self._asleep:
            with self._lock:
                self._wake_asleep()

    def recall(self) -> list[T]:
        """Take everything out of line that has not begun."""
        with self._lock:
            recalled = list(self._line)
            self._line.clear()
        return recalled

    def close(self) -> None:
        """Let idle threads end, so that they close what they own. Busy ones are left alone."""
        with self._lock:
            self._closed = True
            for place in list(self._idle):
                self._wake(place)
        if not self.busy():
            deadline_s = time.monotonic() + _JOIN_S
            for thread in self._threads:
                thread.join(max(deadline_s - time.monotonic(), 0.0))

    def _summon(self, more: int) -> None:
        """Have up to so many threads look at the line; the lock is held."""
        more = max(more, 0)
        woken = min(more, len(self._idle))
        for _ in range(woken):
            self._wake(next(reversed(self._idle)))
        for _ in range(min(more - woken, self._count - len(self._threads))):
            name = f"emq-slot-{len(self._threads) + 1}"
            thread = threading.Thread(target=self._serve, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def _held_up(self, now_s: float) -> int:
        """Return how many have been at one piece of work for long: those are no hands."""
        return sum(
            place.is_busy and now_s - place.began_s > _LONG_S for place in self._places.values()
        )

    def _wake_asleep(self) -> None:
        for place in self._asleep:
            self._wake(place)
        self._asleep.clear()

    def _serve(self) -> None:
        place = _Place(self._lock)
        with self._lock:
            self._places[threading.get_ident()] = place
        try:
            while (work := self._next(place)) is not None:
                self._do(work)
        finally:
            with self._lock:
                del self._places[threading.get_ident()]
            self._thread_ends()

    def _next(self, place: _Place) -> Callable[[], None] | None:
        """Return what this slot does next, once there is something; None at the end."""
        with self._lock:
            line = len(self._line)
            work = self._pick(place)
            is_low = len(self._line) == self.low_mark < line
            is_last = work is None and (self._closed or not self._line)  # else others go on
            rings = is_last and (place.owes_ring or self._was_missed)
            if work is None:
                self._owe_ring(place, owes=False)
            if rings:
                self._was_missed = False
        if rings or is_low:
            self._on_free()
        return self._wait(place) if work is None else work

    def _wait(self, place: _Place) -> Callable[[], None] | None:
        with self._lock:
            while (work := self._pick(place)) is None and not self._closed:
                self._idle[place] = None
                place.changed.wait()
        return work

    def _pick(self, place: _Place) -> Callable[[], None] | None:
        """Take what this slot does next, and count it as busy or not; the lock is held."""
        work: Callable[[], None] | None = None
        if place is self._borrower:
            self._borrower = None
        if place.follow_ups:
            place.began_s = time.monotonic()
            work = place.follow_ups.popleft()
        elif self._lent:
            place.began_s = time.monotonic()
            work, self._borrower = self._lent.popleft(), place
        elif self._line and not self._closed and self._busy - place.is_busy < self._hands:
            self._moved_s = place.began_s = time.monotonic()
            self._owe_ring(place, owes=True)
            work = partial(self._work, self._line.popleft())
            self.begun += 1
        self._count_busy(place, is_busy=work is not None)
        return work

    def _count_busy(self, place: _Place, *, is_busy: bool) -> None:
        self._busy += is_busy - place.is_busy
        place.is_busy = is_busy

    def _owe_ring(self, place: _Place, *, owes: bool) -> None:
        self._owed_rings += owes - place.owes_ring
        place.owes_ring = owes

    def _wake(self, place: _Place) -> None:
        self._idle.pop(place, None)
        place.changed.notify()

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException:  # noqa: BLE001 - the slot's boundary
            # A run keeps what job code raises to itself, so this is a fault of ours; a thread
            # that died of it would take one slot away for good.
            logger.exception("a slot's work failed; its job comes back when its lease ends")
