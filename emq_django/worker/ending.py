"""How a worker ends: by a stop request, or as a burst that has nothing left to do."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emq_django.worker import drain, log

if TYPE_CHECKING:
    from emq_django.worker.crew import Crew
    from emq_django.worker.options import WorkerOptions
    from emq_django.worker.shutdown import StopRequest
    from emq_django.worker.sources import Sources
    from emq_django.worker.strays import Strays
    from emq_django.worker.wait import Idle


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a worker ended. ``running``: handlers that still run, their jobs handed back."""

    running: int = 0
    forced_by: int | None = None  # the signal that was the second stop request
    unreachable: bool = False  # a burst gave up on a server or a queue
    had_enough: bool = False  # of jobs, ``max_jobs``; more may be there

    @property
    def exit_code(self) -> int:
        """0; 1 where a burst gave up; 128 + the signal that forced the end."""
        return 128 + self.forced_by if self.forced_by else int(self.unreachable)


def burst_is_over(options: WorkerOptions, crew: Crew, sources: Sources, idle: Idle) -> bool:
    """Whether this is a burst that has nothing in its hands, and whose take found nothing."""
    if not options.burst or not crew.is_idle():
        return False
    if not sources.all_well():
        return sources.failing_for_s(time.monotonic()) > options.grace_s
    if idle.sweep():
        crew.bell.ring()  # what was due is claimable now: no wait before the next take
        return False
    return sources.all_well()


def wind_down(
    crew: Crew, sources: Sources, strays: Strays, stop: StopRequest, options: WorkerOptions
) -> int:
    """Hand back what has not begun; let what runs finish within the grace time; hand back the rest.

    Returns how many handlers still run.
    """
    if stop.forced():
        sources.doubt()  # a take may have been cut short
    crew.clear_line()
    crew.ends.close()
    if stop.requested():
        log.stops(crew.slots.busy(), options.grace_s)
    deadline_s = time.monotonic() + options.grace_s
    drain.wait_for_slots(crew.slots, stop, crew.bell, deadline_s)
    drain.hand_back(crew.keeper.held())
    if strays.next_in_s() < math.inf or sources.doubtful():
        drain.within_reason(lambda: strays.tick(sources.all, crew.keeper.tokens))
    drain.wait_for_reports(crew.keeper, crew.bell)
    drain.wait_for_slots(crew.slots, stop, crew.bell, deadline_s)  # the last ends are told
    return crew.slots.busy()
