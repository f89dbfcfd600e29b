"""The worker's main thread: report and take, start, wait. What it has in hand is in ``crew.py``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from emq_django.protocol.keyspace import Queue
from emq_django.worker import aio, log
from emq_django.worker.crew import Crew
from emq_django.worker.ending import Ended, burst_is_over, wind_down
from emq_django.worker.hooks import Hooks, NoHooks
from emq_django.worker.intake import Intake
from emq_django.worker.link import Runner
from emq_django.worker.metrics import Reporter
from emq_django.worker.options import WorkerOptions
from emq_django.worker.seat import Seat
from emq_django.worker.shutdown import Forced, StopRequest
from emq_django.worker.sources import sources_of
from emq_django.worker.strays import Strays
from emq_django.worker.wait import Bell


class Worker:
    """Serves queues until it is asked to stop; a burst until nothing is left to do."""

    def __init__(
        self,
        options: WorkerOptions,
        wire_for: Callable[[Queue], Runner],
        hooks: Hooks | None = None,
        seat: Seat | None = None,
    ) -> None:
        seat = seat or Seat()
        region = seat.region(options)
        self.incarnation = seat.incarnation
        self._options = options
        self._bell = Bell()
        self.stop = StopRequest(self._bell)
        self._sources = sources_of(options, wire_for, told=not seat.is_alone)
        self._strays = Strays(seat.incarnation, seat.kill)
        self._crew = Crew(
            options, hooks or NoHooks(), seat.incarnation, self._sources, region, self._bell
        )
        self._reporter = Reporter(self._sources.all, depths=seat.is_alone)
        self._idle = seat.idle(options, self._bell, self.stop, self._sources, region)
        self._intake = Intake(
            seat.incarnation, self._sources, self._crew, self._idle, self._strays, self.stop
        )

    def run(self) -> Ended:
        """Work until a stop request (or the end of a burst), then wind down."""
        with self.stop.on_signals():
            log.serves(self.incarnation, self._options)
            self._crew.keeper.start()
            self._reporter.start()
            given_up = False
            try:
                with contextlib.suppress(Forced):
                    given_up = self._serve()
                return self._wind_down(given_up=given_up)
            finally:
                self._crew.close()
                self._reporter.stop()
                self._idle.close()
                aio.close()

    def _serve(self) -> bool:
        """Run the main loop. True says that a burst gave up."""
        crew, idle = self._crew, self._idle
        while not self.stop.requested():
            was_idle, free = crew.slots.is_idle(), crew.free()
            taken = self._intake.take(free, crew.ahead_s())
            with self.stop.cut_short():
                crew.look_after()
                idle.tick()
                self._strays.tick(self._sources.all, crew.keeper.tokens)
            if crew.has_had_enough():
                self.stop.ask()
            elif taken or self.stop.requested():
                continue
            elif free == 0:
                patience_s = crew.patience_s()  # before: a line that is empty stays so
                if crew.free() == 0:  # else no bell rings for the slot that is free since
                    idle.wait_for_slot(patience_s)
            elif was_idle and burst_is_over(self._options, crew, self._sources, idle):
                return not self._sources.all_well()
            else:
                self._intake.wait()
        return False

    def _wind_down(self, *, given_up: bool) -> Ended:
        running = wind_down(self._crew, self._sources, self._strays, self.stop, self._options)
        log.ended(self.incarnation, running)
        forced_by, enough = self.stop.forced_by(), self._crew.has_had_enough()
        return Ended(running=running, forced_by=forced_by, unreachable=given_up, had_enough=enough)
