"""The queues a worker serves: which one is asked next, and what happens when it can't be asked.

A claim is sent once: when its reply is lost, jobs may be under our lease with nobody to run them,
and the reaper brings them back. A second send would take further ones.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from emq_django.errors import EmqError, ReplyLost, WireError
from emq_django.protocol import claim
from emq_django.protocol.calls import Call
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.records import ClaimedJob, Taken
from emq_django.worker.failure import one_line
from emq_django.worker.link import Link, Runner, Trouble
from emq_django.worker.log import Quiet, logger
from emq_django.worker.metrics import Tally
from emq_django.worker.options import Order, QueueOptions, WorkerOptions
from emq_django.worker.pace import MOST_AT_ONCE, Pace
from emq_django.worker.pauses import Pauses

if TYPE_CHECKING:
    from emq_django.worker.ends import Batch

_FIRST_REST_S: Final = 0.1
_LONGEST_REST_S: Final = 5.0
_SHARE: Final = 5  # of as many takes, one asks the lower bands of a queue first


class Source:
    """One queue, the link to its server, and whose turn it is there: the flat set's or the ring's.

    After an error the queue rests for a growing time, so that one broken queue takes nothing from
    the others and a server that is away is not hammered.
    """

    def __init__(
        self, options: QueueOptions, link: Link, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.options = options
        self.link = link
        self.tally = Tally()
        self.pace = Pace()
        self.failing_since_s: float | None = None
        self.reply_lost = False  # a take may have brought jobs that nobody here knows of
        self._clock = clock
        self._ring_first = True
        self._calls: dict[tuple[str, int, bool], Call[Taken]] = {}
        self._rest_until_s = 0.0
        self._rests = Pauses(_FIRST_REST_S, _LONGEST_REST_S, spread=0.5)
        self._quiet = Quiet(clock)

    def rests(self) -> bool:
        """Whether the queue is left alone for a moment, after an error."""
        return self.rests_for_s() > 0

    def rests_for_s(self) -> float:
        """Return for how long it is left alone."""
        return max(self._rest_until_s - self._clock(), 0.0)

    def take(self, incarnation: str, limit: int, ended: Batch | None = None) -> list[ClaimedJob]:
        """Claim up to ``limit`` jobs; none while the queue rests.

        What has ``ended`` is reported in the same flush, before it.
        """
        if self.rests():
            if ended is not None:
                ended.report()
            return []
        self._ring_first = not self._ring_first
        taken = self._send(self._call(incarnation, limit), ended)
        if isinstance(taken, EmqError):
            self.reply_lost = self.reply_lost or isinstance(taken, ReplyLost)
            self.failed(taken)
            return []
        if self.failing_since_s is not None:
            self._rests.reset()
            self.failing_since_s = None
        return taken.jobs

    def _call(self, incarnation: str, limit: int) -> Call[Taken]:
        """Return the take, made once for each limit and turn."""
        key = (incarnation, limit, self._ring_first)
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = claim.take(
                self.options.keys,
                incarnation,
                self.options.lease_ms,
                limit,
                ring_first=self._ring_first,
                suspects_alone=True,
            )
        return call

    def ahead(self, budget_s: float) -> int:
        """Return how many jobs may be taken beyond those that can begin, for so much work.

        None of a band: in a batch of the urgent one the others would not have their share.
        """
        return 0 if self.options.band_of else self.pace.ahead(budget_s)

    def _send(self, call: Call[Taken], ended: Batch | None) -> Taken | EmqError:
        """Send a take once, behind the report of what has ended."""
        reports = [] if ended is None else ended.calls()
        if ended is None or not reports:
            try:
                return self.link.run(call)
            except EmqError as exc:
                return exc
        with ended.on_its_way():
            *answers, taken = self.link.run_many([*reports, call])
        ended.answered(answers)
        return cast("Taken | EmqError", taken)

    def failed(self, exc: EmqError) -> None:
        """Let the queue rest for a moment, longer each time until a take succeeds."""
        now_s = self._clock()
        if self.failing_since_s is None:
            self.failing_since_s = now_s
        self._rest_until_s = now_s + self._rests.next_s()
        self.complain(exc)

    def complain(self, exc: EmqError) -> None:
        """Log what is wrong with this queue, unless the link has logged it for its server."""
        if not isinstance(exc, WireError) and self._quiet.may_log(type(exc)):
            logger.error(
                "queue %s can't be served: %s: %s",
                one_line(self.options.keys.name), type(exc).__name__, one_line(str(exc)),
            )  # fmt: skip


class Haul(NamedTuple):
    """What a take over all queues brought. ``asked``: for how many jobs; 0 where none was asked."""

    jobs: list[tuple[Source, ClaimedJob]]
    asked: int

    @property
    def is_full(self) -> bool:
        """Whether there may be more."""
        return 0 < self.asked == len(self.jobs)


class Sources:
    """All queues of a worker, in the order that ``order`` asks for."""

    def __init__(self, sources: Sequence[Source], order: Order) -> None:
        self.all = tuple(sources)
        self._strict = order == "strict"
        self._takes = 0
        self._first = 0  # round-robin: the one behind the last that had a job

    def take(
        self,
        incarnation: str,
        free: int,
        ahead_s: float = 0.0,
        ended: Callable[[Source], Batch] | None = None,
    ) -> Haul:
        """Claim jobs for ``free`` slots, asking one queue after the other until there are enough.

        ``ahead_s``: for how much work jobs may be taken beyond those, where they are short. What
        has ``ended`` of a queue that is asked is reported in the same flush.
        """
        taken: list[list[tuple[Source, ClaimedJob]]] = []
        is_full = False
        share_s = ahead_s if self._strict else ahead_s / len(self.all)
        for source in self._in_turn() if free > 0 or ahead_s > 0 else ():
            ahead = source.ahead(min(share_s, ahead_s)) if ahead_s > 0 else 0
            limit = min(free + ahead, MOST_AT_ONCE)
            if limit < 1:
                break  # its jobs may not wait in line, and those of others may not pass them by
            jobs = source.take(incarnation, limit, ended(source) if ended else None)
            taken.append([(source, job) for job in jobs])
            ahead_s -= max(len(jobs) - free, 0) * source.pace.expected_s()
            free = max(free - len(jobs), 0)
            if free == 0 and jobs and not source.pace.is_short:
                ahead_s = 0.0  # what is taken ahead now would wait behind them
            is_full = is_full or len(jobs) == limit
            if is_full and free == 0 and (self._strict or ahead_s <= 0):
                break
        self._takes += bool(taken)  # a turn in which nobody was asked is none
        if served := [part[0][0] for part in taken if part]:
            self._first = (self.all.index(served[-1]) + 1) % len(self.all)
        jobs_in_turn = [one for row in zip_longest(*taken) for one in row if one is not None]
        more = bool(taken) and not is_full
        return Haul(jobs_in_turn, len(jobs_in_turn) + more)

    def again_in_s(self) -> float:
        """Return the time until a queue in trouble may be asked again; infinity for no trouble."""
        return min((one.rests_for_s() for one in self.all if one.failing_since_s), default=math.inf)

    def failing_for_s(self, now_s: float) -> float:
        """Return for how long the queue with the longest trouble has had it; 0.0 for none."""
        since = [one.failing_since_s for one in self.all if one.failing_since_s is not None]
        return now_s - min(since) if since else 0.0

    def doubt(self) -> None:
        """Note that a take may have been cut short, whichever it was."""
        for source in self.all:
            source.reply_lost = True

    def doubtful(self) -> bool:
        """Whether a take may have brought jobs that nobody here knows of."""
        return any(source.reply_lost for source in self.all)

    def all_well(self) -> bool:
        """Whether every queue answered when it was last asked."""
        return all(source.failing_since_s is None for source in self.all)

    def _in_turn(self) -> tuple[Source, ...]:
        if len(self.all) == 1:
            return self.all
        first = 0 if self._strict else self._first
        return shared(self.all[first:] + self.all[:first], self._takes + 1)


def shared(sources: tuple[Source, ...], takes: int) -> tuple[Source, ...]:
    """Return the order for one take: now and then a lower band goes before the more urgent ones.

    So that a queue whose urgent band is never empty still works off the others.
    """
    turn, is_shared = divmod(takes, _SHARE)
    if is_shared or not any(source.options.band_of for source in sources):
        return sources
    places: dict[str, list[int]] = {}
    for place, source in enumerate(sources):
        places.setdefault(source.options.band_of, []).append(place)
    order = list(sources)
    for name, taken in places.items():
        if name:
            lower = taken[1 + turn % (len(taken) - 1)] if len(taken) > 1 else taken[0]
            rest = [place for place in taken if place != lower]
            for place, moved in zip(taken, (lower, *rest), strict=True):
                order[place] = sources[moved]
    return tuple(order)


def sources_of(
    options: WorkerOptions, wire_for: Callable[[Queue], Runner], *, told: bool = False
) -> Sources:
    """Return the queues to serve; those that share a wire share its link. ``told``: see Trouble."""
    links: dict[int, Link] = {}
    sources = []
    for queue in options.queues:
        wire = wire_for(queue.keys)
        link = links.setdefault(id(wire), Link(wire, Trouble(queue.address, told=told)))
        sources.append(Source(queue, link))
    return Sources(sources, options.order)
