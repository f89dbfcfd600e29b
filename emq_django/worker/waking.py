"""Which child goes when there is something to take: what a parent knows of who waits, and how.

Mostly one idle child is woken, and its answer decides on the next. One child may hear of jobs for
itself (``lookout.py``). Pure bookkeeping over ``watch.py`` and the lines to the children.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from emq_django.worker import parked

if TYPE_CHECKING:
    from emq_django.worker.children import Child
    from emq_django.worker.watch import Watch

_ANSWER_S: Final = 0.25  # for a woken child to say what it found


class Waking:
    """The children of a tree that wait for work."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._idle: dict[Child, None] = {}  # in the order in which they became so
        self._woken: tuple[Child, float] | None = None
        self._latest: Child | None = None  # the one that took last, or was there first
        self._appointed: Child | None = None  # it may hear of jobs for itself
        self._is_over = False

    def idle(self) -> int:
        """Return how many children wait."""
        return len(self._idle)

    def next_in_s(self) -> float:
        """Return for how long there is nothing to do, unless something is heard before."""
        watch_s = self._watch.next_in_s(idle=self._may_wake())
        if self._woken is None:
            return watch_s
        return min(watch_s, self._woken[1] + _ANSWER_S - time.monotonic())

    def turn(self) -> None:
        """Hear what the servers announce, and have somebody go where that is worth it."""
        appointed = self._appointed
        self._watch.rivals.has_lookout = appointed is not None and appointed.region.is_hearing()
        self._watch.turn(idle=bool(self._idle))
        self.wake()
        self._appoint()

    def wake(self) -> None:
        """Wake one idle child when there is something to take."""
        if self._woken is not None and time.monotonic() - self._woken[1] > _ANSWER_S:
            self._leave_open()  # it is busy with something else
        if self._may_wake() and self._watch.wants_take():
            child, _ = self._idle.popitem()  # the one that was busy last: its caches are warm
            self._watch.rivals.asked()
            self._woken = child, time.monotonic()
            child.tell(parked.WAKE)

    def hear(self, child: Child, message: bytes) -> None:
        """Hear from a child."""
        now_s = time.monotonic()
        was_woken = self._woken is not None and self._woken[0] is child
        if was_woken:
            self._woken = None
        if message in {parked.TOOK, parked.FULL}:
            self._watch.work_came()
            self._watch.rivals.took(now_s)
            self._latest = child
            self._idle.pop(child, None)
        if message == parked.GONE:
            self._watch.rivals.lost(now_s)
        if message in {parked.FULL, parked.BUSY}:
            self._idle.pop(child, None)
            self._watch.rivals.told(now_s)
        if message == parked.IDLE:
            if was_woken:
                self._watch.rivals.lost(now_s)
            self._watch.rivals.empty(child.region.asked_s(), now_s)
            self._idle.pop(child, None)
            if not child.stopping:
                self._idle[child] = None

    def born(self, child: Child) -> None:
        """Count on a new child."""
        self._latest = self._latest or child

    def stops(self, child: Child) -> None:
        """Wake this child no more."""
        self._idle.pop(child, None)

    def ended(self, child: Child) -> None:
        """Forget a child that is gone."""
        self._idle.pop(child, None)
        if self._woken is not None and self._woken[0] is child:
            self._leave_open()
        if self._latest is child:
            self._latest = None
        self._appoint()

    def end(self) -> None:
        """Wake nobody any more."""
        self._is_over = True

    def _may_wake(self) -> bool:
        return bool(self._idle) and self._woken is None and not self._is_over

    def _leave_open(self) -> None:
        """Wait for no answer: what the child was woken for is there for another one."""
        self._woken = None
        self._watch.rivals.told(time.monotonic())

    def _appoint(self) -> None:
        """Let the child that took last hear of jobs for itself, where this tree goes first.

        What it misses is heard here as well.
        """
        goes_first = self._watch.rivals.is_quick() and self._watch.hears()
        chosen = self._latest if goes_first and not self._is_over else None
        if chosen is not self._appointed:
            for child in (self._appointed, chosen):
                if child is not None:
                    child.region.appoint(child is chosen)
            self._appointed = chosen
