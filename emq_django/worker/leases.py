"""Keeps what is held: renews leases at a third of their time, and notices when one was lost.

The keeper's thread makes one flush per queue for all jobs that are due for it. It never settles
a job and never stops one: job code asks ``job.lease_lost``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from emq_django.errors import EmqError
from emq_django.protocol import settle
from emq_django.protocol.records import ClaimedJob, Verdict
from emq_django.worker import log
from emq_django.worker.outcomes import HardTimeLimit
from emq_django.worker.sources import Source
from emq_django.worker.table import Region

if TYPE_CHECKING:
    from emq_django.worker.job import Job, Tell
    from emq_django.worker.retry import Policy

_RENEW_AT: Final = 3  # a third of the lease: two renewals may fail before it runs out
_TICKS: Final = 8  # per renewal: how late one may be, beside what the machine adds
_LONGEST_TICK_S: Final = 1.0
_STOP_S: Final = 0.2
_SUSPICION_S: Final = 5.0  # for how long nothing runs beside a suspect


class Lease:
    """One job in our hands, from its take to its end.

    Attributes:
        until_s: our clock's idea of when the lease ends. Counted from before the request was
            sent, so never later than the server's.
        slot: its place in the table that this process shares with its parent, if it has one.
        limited: this process is killed when the run takes too long.
        lost: the server said that another claim holds the job, or that it is gone.
        settling: its end is being reported, so a renewal that finds it gone means nothing.
        handed_back: it was released while its handler still ran; its end is nobody's business.
        thread_id: of the thread that its handler is called on.
        tells: what is called once the job has ended, with what the handler got.
    """

    __slots__ = (
        "_asked", "_until_s", "handed_back", "job", "lease_ms", "limited", "lost", "region",
        "renew_at_s", "settling", "slot", "source", "tells", "thread_id",
    )  # fmt: skip

    def __init__(self, source: Source, job: ClaimedJob, taken_at_s: float) -> None:
        self.source = source
        self.job = job
        self.lease_ms = source.options.lease_ms
        self.limited = False
        self.lost = False
        self.settling = False
        self.handed_back = False
        self._asked = False
        self.thread_id = 0
        self.tells: list[tuple[Job, Tell]] = []
        self.region: Region | None = None
        self.slot = -1
        self.renewed(taken_at_s)

    def renewed(self, sent_at_s: float) -> None:
        """Count the lease anew from the moment at which the renewal was sent."""
        lease_s = self.lease_ms / 1_000
        self._until_s = sent_at_s + lease_s
        self.renew_at_s = sent_at_s + lease_s / _RENEW_AT
        if self.region is not None:
            self.region.renewed(self.slot, self._until_s)

    @property
    def until_s(self) -> float:
        """Return when the lease ends: the parent may have renewed it while we could not."""
        helped_s = 0.0 if self.region is None else self.region.helped_until_s(self.slot)
        return max(self._until_s, helped_s)

    def note_in(self, region: Region, queue: int) -> None:
        """Write the job into the table that this process shares with its parent."""
        job = self.job
        self.slot = region.hold(
            queue, job.id, job.attempts, job.tries, self.lease_ms, self._until_s
        )
        self.region = region

    @property
    def is_suspect(self) -> bool:
        """Whether the job was lost with its worker before, which it may have caused."""
        return self.job.stalled > 0

    def begins(self) -> None:
        """Note that the job's handler is called now, on this thread."""
        self.thread_id = threading.get_ident()
        if self.region is not None:
            limit_s = self.source.options.hard_limit_s
            self.limited = bool(limit_s)
            self.region.started(self.slot, time.monotonic() + limit_s if limit_s else 0.0)

    def ends(self) -> None:
        """Note that the handler is through, and what is left is to report it."""
        self.settling = True
        if self.region is not None:
            self.region.settling(self.slot)

    def limit_to(self, limit_s: float) -> bool:
        """Have this process killed when the run takes longer; False when nobody is there to."""
        if self.region is None or not self.region.guarded:
            return False
        self.region.limited(self.slot, time.monotonic() + limit_s)
        self.limited = True
        return True

    def judge_by(self, policy: Policy) -> None:
        """Note for the parent what becomes of the job if the hard limit ends its run."""
        region = self.region
        if self.limited and region is not None:
            most = policy.max_attempts if policy.allows_another(HardTimeLimit()) else 0
            region.judged_by(self.slot, most, policy.next_pause_ms(self.job.tries + 1))

    def when_ended(self, job: Job, tell: Tell) -> None:
        """Have ``tell`` called with how the job has ended, once it has."""
        self.tells.append((job, tell))

    def leave(self) -> None:
        """Take the job out of the table."""
        region, self.region = self.region, None  # first: nobody writes into the next one's place
        if region is not None:
            region.drop(self.slot)

    def renew_by(self, lease_ms: int) -> None:
        """Renew by another time from now on, and soon: the queue's own may be too short."""
        self.lease_ms = lease_ms
        self.renew_at_s = 0.0

    def over(self) -> bool:
        """Whether another worker may hold the job by now."""
        return self.lost or time.monotonic() > self.until_s

    def cancelled(self) -> bool:
        """Whether somebody wants the job to end."""
        region = self.region
        if not self._asked and region is not None:
            self._asked = region.is_asked_to_end(self.slot, self.job.id, self.job.attempts)
        return self._asked


class Keeper:
    """Holds the leases of a worker. Its thread runs between ``start`` and ``stop``."""

    def __init__(
        self,
        shortest_lease_ms: int,
        clock: Callable[[], float] = time.monotonic,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._beat = beat
        self._tick_s = min(shortest_lease_ms / 1_000 / _RENEW_AT / _TICKS, _LONGEST_TICK_S)
        self._held: dict[int, Lease] = {}
        self._suspects: dict[int, float] = {}  # until when nothing runs beside each
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, lease: Lease) -> None:
        """Renew this lease from now on."""
        with self._lock:
            self._held[id(lease)] = lease
            if lease.is_suspect:
                self._suspects[id(lease)] = self._clock() + _SUSPICION_S

    def drop(self, lease: Lease) -> None:
        """Stop renewing it."""
        with self._lock:
            dropped = self._held.pop(id(lease), None)
            self._suspects.pop(id(lease), None)
        if dropped is not None:
            dropped.leave()

    def suspects(self) -> bool:
        """Whether a suspect is held that began a moment ago.

        What kills its worker does so soon; a long job that was lost by accident must not keep all
        others that were lost with it from running.
        """
        if not self._suspects:
            return False
        with self._lock:
            return max(self._suspects.values(), default=0.0) > self._clock()

    def held(self) -> list[Lease]:
        """Return what is held at this moment."""
        with self._lock:
            return list(self._held.values())

    def tokens(self) -> set[tuple[str, int]]:
        """Return id and token of what is held."""
        return {(lease.job.id, lease.job.attempts) for lease in self.held()}

    def renew_due(self) -> None:
        """Renew every lease that is due, one flush per queue."""
        self._beat()
        now_s = self._clock()
        due = [
            lease
            for lease in self.held()
            if not lease.settling and not lease.handed_back and lease.renew_at_s <= now_s
        ]
        for source, leases in by_source(due):
            self._renew(source, leases)

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="emq-keeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; one that waits for a server that is away is not waited for."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_STOP_S)

    def _run(self) -> None:
        while not self._stop.wait(self._tick_s):
            try:
                self.renew_due()
            except Exception:  # noqa: BLE001 - the loop's boundary
                # Without renewals every long job would run twice: whatever it was, go on.
                log.logger.exception("lease renewal failed, next try in %.1f s", self._tick_s)

    def _renew(self, source: Source, leases: list[Lease]) -> None:
        keys = source.options.keys
        sent_at_s = self._clock()
        verdicts = source.link.run_many(
            [settle.extend(keys, lease.job, lease.lease_ms) for lease in leases]
        )
        for lease, verdict in zip(leases, verdicts, strict=True):
            if isinstance(verdict, EmqError):
                lease.renew_at_s = self._clock() + self._tick_s
            elif verdict is Verdict.EXTENDED:
                lease.renewed(sent_at_s)
            elif not lease.settling and not lease.handed_back:
                lease.lost = True
                self.drop(lease)
                log.lease_lost(lease)


def by_source(leases: Iterable[Lease]) -> list[tuple[Source, list[Lease]]]:
    """Return the leases grouped by their queue: a flush may not cross a cluster's slots."""
    groups: dict[int, tuple[Source, list[Lease]]] = {}
    for lease in leases:
        groups.setdefault(id(lease.source), (lease.source, []))[1].append(lease)
    return list(groups.values())
