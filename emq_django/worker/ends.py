"""Ends of short jobs that are reported together, so that several share one trip to the server.

An end waits here for companions, for a moment at most: it goes along with the next take, or when a
slot runs out of work, or when it has waited for ``LONGEST_S``. What a flush could not report is
reported job by job, as the ends of long jobs always are, and each answer is judged by itself.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from emq_django.errors import EmqError, ReplyLost
from emq_django.protocol import settle
from emq_django.protocol.settle import Finished
from emq_django.worker.outcomes import Completed, Failed
from emq_django.worker.pace import MOST_AT_ONCE
from emq_django.worker.settling import Delivered, deliver
from emq_django.worker.telling import tell

if TYPE_CHECKING:
    from emq_django.protocol.calls import Call
    from emq_django.protocol.records import Verdict
    from emq_django.worker.leases import Lease
    from emq_django.worker.sources import Source

LONGEST_S: Final = 0.002

Settled = Callable[["Lease", Completed | Failed | None], None]
"""Hears that a lease is through, and how its job has ended, if it has."""


class End(NamedTuple):
    """The end of one run that returned, after ``ms``."""

    lease: Lease
    finished: Finished
    ms: int

    def answered(self, answer: Delivered | EmqError) -> Completed | Failed | None:
        """Tell what the server said to it; return what became of the job where it ended."""
        return tell(self.lease, Completed(kept=self.finished.kept), answer, self.ms)


class Ends:
    """The ends that wait. ``settled`` hears of each lease that is through with it."""

    def __init__(self, settled: Settled, on_free: Callable[[], None]) -> None:
        self._settled = settled
        self._on_free = on_free
        self._lock = threading.Lock()
        self._waiting: dict[Source, list[End]] = {}
        self._count = 0
        self._since_s = 0.0
        self._in_trouble = 0
        self._closed = False

    def add(self, end: End) -> bool:
        """Let an end wait; False: its job is to be reported by itself."""
        with self._lock:
            if self._closed:
                return False
            if not self._count:
                self._since_s = time.monotonic()
            self._waiting.setdefault(end.lease.source, []).append(end)
            self._count += 1
        return True

    def waiting(self) -> int:
        """Return how many wait."""
        return self._count

    def in_trouble(self) -> int:
        """Return how many batches are being reported one by one."""
        return self._in_trouble

    def ripe(self) -> bool:
        """Whether they have waited for long enough, or are enough."""
        return self._count >= MOST_AT_ONCE or (
            self._count > 0 and time.monotonic() - self._since_s >= LONGEST_S
        )

    def batch(self, source: Source) -> Batch:
        """Take the ends of one queue out, to be reported now."""
        with self._lock:
            ends = self._waiting.pop(source, [])
            self._count -= len(ends)
        return Batch(source, ends, self._settled, self._one_by_one)

    def flush(self) -> None:
        """Report what waits now."""
        for source in list(self._waiting):
            self.batch(source).report()

    def close(self) -> None:
        """Let none wait any more; those that do are reported meanwhile."""
        with self._lock:
            self._closed = True
        for source in list(self._waiting):
            self.batch(source).one_by_one(resent=False)

    def _one_by_one(self, deliver_all: Callable[[], None]) -> None:
        """Report a batch on a thread of its own: nobody else is to wait for its server."""

        def work() -> None:
            try:
                deliver_all()
            finally:
                with self._lock:
                    self._in_trouble -= 1
                self._on_free()

        with self._lock:
            self._in_trouble += 1
        threading.Thread(target=work, name="emq-settle", daemon=True).start()


class Batch:
    """Ends of one queue on their way; none at all is a batch too."""

    def __init__(
        self,
        source: Source,
        ends: list[End],
        settled: Settled,
        aside: Callable[[Callable[[], None]], None],
    ) -> None:
        self._source = source
        self._ends = ends
        self._settled = settled
        self._aside = aside

    def calls(self) -> list[Call[list[Verdict]]]:
        """Return the calls that report them: one, or none where there is nothing to report."""
        if not self._ends:
            return []
        finished = [one.finished for one in self._ends]
        return [
            settle.complete_many(self._source.options.keys, finished[first : first + MOST_AT_ONCE])
            for first in range(0, len(finished), MOST_AT_ONCE)
        ]

    def report(self) -> None:
        """Send them by themselves."""
        if self._source.rests():
            self.one_by_one(resent=False)
            return
        with self.on_its_way():
            answers = self._source.link.run_many(self.calls())
        self.answered(answers)

    @contextlib.contextmanager
    def on_its_way(self) -> Iterator[None]:
        """Surround the flush: one that is cut short may have got through."""
        try:
            yield
        except BaseException:
            self.one_by_one(resent=True)
            raise

    def answered(self, answers: Sequence[list[Verdict] | EmqError]) -> None:
        """Judge the answers job by job; what has none is reported job by job."""
        ends, self._ends = self._ends, []
        for number, answer in enumerate(answers):
            part = ends[number * MOST_AT_ONCE : (number + 1) * MOST_AT_ONCE]
            if isinstance(answer, EmqError):
                self._ends = part
                self.one_by_one(resent=isinstance(answer, ReplyLost))
                continue
            for end, verdict in zip(part, answer, strict=True):
                self._settled(end.lease, end.answered(Delivered(verdict, resent=False)))

    def one_by_one(self, *, resent: bool) -> None:
        """Have each reported by itself. ``resent``: it may have got through before."""
        ends, self._ends = self._ends, []
        if ends:
            self._aside(lambda: self._deliver(ends, resent=resent))

    def _deliver(self, ends: list[End], *, resent: bool) -> None:
        keys = self._source.options.keys
        for end in ends:
            job, done_ms, kept = end.finished
            call = settle.complete(keys, job, done_ms, kept=kept)
            ended: Completed | Failed | None = None
            try:
                ended = end.answered(deliver(end.lease, call, resent=resent))
            finally:
                self._settled(end.lease, ended)
