"""Where jobs come in: takes them and lets them begin, and waits for them when there are none.

In a tree a slot that is idle waits, not the main thread. It takes what its parent wakes it for, and
the first of these runs on the thread that took it: to wake another one costs a fifth of a
millisecond on a machine at rest.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from emq_django.worker import drain
from emq_django.worker.leases import Lease

if TYPE_CHECKING:
    from emq_django.worker.crew import Crew
    from emq_django.worker.shutdown import StopRequest
    from emq_django.worker.sources import Sources
    from emq_django.worker.strays import Strays
    from emq_django.worker.wait import Idle


class Intake:
    """The way in for one worker. For one thread at a time: ``wait`` may lend it to a slot's."""

    def __init__(
        self,
        incarnation: str,
        sources: Sources,
        crew: Crew,
        idle: Idle,
        strays: Strays,
        stop: StopRequest,
    ) -> None:
        self._incarnation = incarnation
        self._sources = sources
        self._crew = crew
        self._idle = idle
        self._strays = strays
        self._stop = stop

    def take(self, free: int, ahead_s: float = 0.0) -> int:
        """Report what has ended and take what may begin; returns how many jobs came.

        Leases count from before the request.
        """
        now_s = time.monotonic()
        with self._stop.cut_short():
            ends = self._crew.ends
            ended = ends.batch if ends.waiting() else None
            haul = self._sources.take(self._incarnation, free, ahead_s, ended)
        leases = [Lease(source, job, now_s) for source, job in haul.jobs]
        if self._stop.requested():
            drain.hand_back(leases)
            self._idle.gave_back()
            return len(leases)
        if haul.asked:
            self._crew.start(leases, full=haul.is_full)
        self._idle.took(len(leases), haul.asked, now_s)
        return len(leases)

    def wait(self) -> None:
        """Return when a take is worth its trip, or there is something else to do.

        Where a slot can do it, it has taken by then what came.
        """
        if self._idle.on_a_slot and self._crew.is_idle():
            self._crew.slots.lend(self._look_out)
            return
        with self._stop.cut_short():
            self._idle.wait(self._longest_s())

    def _look_out(self) -> None:
        """Wait and take, until something came, or was lost on the way; on a slot."""
        while not self._stop.requested() and (longest_s := self._longest_s()) > 0:
            self._idle.wait(longest_s)
            if self._stop.requested() or self.take(self._crew.free()) or self._sources.doubtful():
                return

    def _longest_s(self) -> float:
        return min(self._strays.next_in_s(), self._crew.patience_s())
