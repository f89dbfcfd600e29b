"""What a worker process counts, and its way to the server: one script per queue every few seconds.

Counting costs a lock and a few additions. A process that is killed takes what it counted since the
last flush with it, at most ``FLUSH_S``. An idle process only notes, once a minute, how many jobs
its queues hold.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal

from emq_django.errors import EmqError, ProtocolError, ReplyLost
from emq_django.protocol import metrics
from emq_django.protocol.metrics import Figures

if TYPE_CHECKING:
    from emq_django.worker.link import Link
    from emq_django.worker.sources import Source

FLUSH_S: Final = 5.0
DEPTH_EVERY_S: Final = 60.0
_MOST_UNSENT: Final = 24  # two minutes of an outage; what is older is added to the oldest
_TIMEOUT_S: Final = 0.5  # a tree's parent may not be kept longer

End = Literal["completed", "failed", "retried"]


class Tally:
    """What one process counted for one queue since it was last taken. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._figures: Figures | None = None

    def started(self, waited_ms: float | None) -> None:
        """Count a run that begins; ``waited_ms`` where it is the job's first one."""
        with self._lock:
            figures = self._now()
            figures.started += 1
            if waited_ms is not None:
                figures.wait.add(waited_ms)

    def ended(self, how: End, ran_ms: float | None = None) -> None:
        """Count a run that is over."""
        with self._lock:
            figures = self._now()
            setattr(figures, how, getattr(figures, how) + 1)
            if ran_ms is not None:
                figures.run.add(ran_ms)

    def lost(self, count: int = 1) -> None:
        """Count leases that ended before their jobs did."""
        if count:
            with self._lock:
                self._now().lost += count

    def take(self) -> Figures | None:
        """Return what was counted and begin anew; None for nothing."""
        with self._lock:
            figures, self._figures = self._figures, None
        return figures

    def _now(self) -> Figures:
        if self._figures is None:
            self._figures = Figures()
        return self._figures


class Reporter:
    """Flushes the tallies of a process: on a thread, or by ``tick`` where there may be none."""

    def __init__(
        self,
        sources: Sequence[Source],
        interval_s: float = FLUSH_S,
        clock: Callable[[], float] = time.monotonic,
        link_of: Callable[[Source], Link | None] | None = None,
        *,
        depths: bool = True,
    ) -> None:
        """Report these queues' figures; ``depths`` where nobody else in the tree notes those."""
        self._sources = tuple(sources)
        self._interval_s = interval_s
        self._clock = clock
        self._link_of = link_of or _own_link
        self._next_s = clock() + interval_s
        self._next_depth_s = clock() + interval_s if depths else math.inf
        self._unsent: dict[int, deque[tuple[float, Figures]]] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Flush at the interval on a thread until ``stop``."""
        self._thread = threading.Thread(target=self._run, name="emq-metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Flush for the last time."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2 * _TIMEOUT_S)
        self.flush()

    def tick(self) -> None:
        """Flush if it is time."""
        if (now_s := self._clock()) >= self._next_s:
            self._next_s = now_s + self._interval_s
            self.flush()

    def flush(self) -> None:
        """Send what was counted. What can't be sent now is sent with its time later."""
        for number, source in enumerate(self._sources):
            unsent = self._unsent.setdefault(number, deque())
            if (figures := source.tally.take()) is not None:
                unsent.append((self._clock(), figures))
            while len(unsent) > _MOST_UNSENT:
                _, oldest = unsent.popleft()
                unsent[0][1].merge(oldest)
            if unsent and not self._send(source, unsent):
                return  # the server is away: the others wait for the next time as well
        if (now_s := self._clock()) >= self._next_depth_s:
            self._next_depth_s = now_s + DEPTH_EVERY_S
            self._note_depths()

    def _note_depths(self) -> None:
        """Note how many jobs the queues hold; a note that fails is missing in a chart, no more."""
        with contextlib.suppress(EmqError):  # the server is away: no further wait for it
            for source in self._sources:
                if (link := self._link_of(source)) is not None:
                    link.run_aside(metrics.note_depth(source.options.keys), _TIMEOUT_S)

    def _send(self, source: Source, unsent: deque[tuple[float, Figures]]) -> bool:
        """Send what is left of one queue; False where the server can't be asked."""
        link = self._link_of(source)
        while unsent:
            if link is None:
                return False
            counted_at_s, figures = unsent[0]
            ago_ms = max(round((self._clock() - counted_at_s) * 1_000), 0)
            call = metrics.flush(source.options.keys, figures, ago_ms)
            try:
                link.run_aside(call, _TIMEOUT_S)
            except (ReplyLost, ProtocolError):
                pass  # counted perhaps, and not twice; or never to be taken: both are let go
            except EmqError:
                return False
            unsent.popleft()
        return True

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            self.flush()


def _own_link(source: Source) -> Link:
    return source.link
