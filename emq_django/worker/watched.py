"""Waiting for a process that looks after itself: its main thread watches the queues while idle."""

from __future__ import annotations

import math
import time

from emq_django.worker.sources import Sources
from emq_django.worker.wait import Bell
from emq_django.worker.watch import Watch


class Watched:
    """An ``Idle`` over a watch of its own. The upkeep of its queues is done here too."""

    on_a_slot = False

    def __init__(self, bell: Bell, watch: Watch, sources: Sources) -> None:
        self._bell = bell
        self._watch = watch
        self._sources = sources
        self._went = False  # a take was asked for, and has brought nothing yet

    def tick(self) -> None:
        """Do the upkeep if it is due."""
        if self._watch.next_in_s(idle=False) <= 0:
            self._watch.turn(idle=False)

    def took(self, jobs: int, limit: int, asked_s: float) -> None:
        """Learn from what a take brought."""
        if jobs:
            self._went = False
            self._watch.work_came()
        elif limit:
            if self._went:
                self._watch.rivals.lost(time.monotonic())
            self._went = False
            self._watch.rivals.empty(asked_s, time.monotonic())

    def gave_back(self) -> None:
        """Do nothing: who else serves the queue hears of what is there again."""

    def wait(self, longest_s: float = math.inf) -> None:
        """Return when a take is worth its trip, the bell rang, or ``longest_s`` are over."""
        wait_s = self._sources.again_in_s()
        again_at_s = time.monotonic() + min(wait_s, longest_s)
        while (left_s := again_at_s - time.monotonic()) > 0:
            self._watch.turn(idle=True)
            if self._watch.wants_take():
                self._watch.rivals.asked()
                self._went = True
                return
            timeout_s = min(self._watch.next_in_s(idle=True), left_s)
            if self._bell.wait(timeout_s, self._watch.filenos()):
                return

    def wait_for_slot(self, longest_s: float = math.inf) -> None:
        """Return when the bell rang, upkeep is due, or ``longest_s`` are over."""
        self._bell.wait(min(self._watch.next_in_s(idle=False), longest_s))

    def sweep(self) -> bool:
        """Promote and reap now; tells whether there is something to take."""
        return self._watch.sweep()

    def close(self) -> None:
        """Close the connections that hear; this worker is gone now."""
        self._watch.end()
