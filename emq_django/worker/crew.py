"""All that a worker has in its hands: jobs in line, jobs that run, and ends to be reported.

Used by the main thread; what a slot does with one job is here too (``_run``).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from emq_django.errors import EmqError
from emq_django.protocol import settle
from emq_django.worker import drain, log
from emq_django.worker.afterwards import tell_of_end
from emq_django.worker.ends import LONGEST_S, Ends
from emq_django.worker.hands import Hands
from emq_django.worker.leases import Keeper, Lease
from emq_django.worker.pace import BUFFER_S, MOST_AHEAD, MOST_AT_ONCE, WORTH_A_SLOT_S
from emq_django.worker.pauses import jitter
from emq_django.worker.run import Execution
from emq_django.worker.slots import Slots

if TYPE_CHECKING:
    from emq_django.worker.hooks import Hooks
    from emq_django.worker.options import WorkerOptions
    from emq_django.worker.outcomes import Completed, Failed
    from emq_django.worker.pace import Pace
    from emq_django.worker.sources import Sources
    from emq_django.worker.table import Region
    from emq_django.worker.wait import Bell

_DEEP: Final = 4  # full takes in a row; fewer may be a burst that other processes share
_STILL_S: Final = 2 * BUFFER_S  # what is in line for longer was taken too early
_SUSPECT_AGAIN_MS: Final = (200, 1_000)


class Crew:
    """The slots of a worker with what they hold."""

    def __init__(
        self,
        options: WorkerOptions,
        hooks: Hooks,
        incarnation: str,
        sources: Sources,
        region: Region,
        bell: Bell,
    ) -> None:
        self.bell = bell
        self.keeper = Keeper(options.shortest_lease_ms, beat=self._beat)
        self.ends = Ends(self._settled, on_free=self._on_reported)
        self.slots: Slots[Lease] = Slots(
            options.concurrency, self._run, on_free=bell.ring, thread_ends=hooks.thread_ends
        )
        self._execution = Execution(
            hooks=hooks,
            enqueue_deadline_ms=options.enqueue_deadline_ms,
            settled=self._settled,
            worker=incarnation,
            ends=self.ends,
        )
        self._options = options
        self._hooks = hooks
        self._sources = sources
        self._region = region
        self._hands = Hands(options.concurrency)
        self._begun = 0
        self._streak = 0  # of takes that brought as many jobs as they asked for

    def has_had_enough(self) -> bool:
        """Whether as many jobs have begun as may."""
        return self._left() <= 0 and not self.slots.line()

    def is_idle(self) -> bool:
        """Whether nothing runs, waits, or is to be reported."""
        return self.slots.is_idle() and not (self.ends.waiting() or self.ends.in_trouble())

    def free(self) -> int:
        """Return how many more jobs may begin now."""
        return int(max(min(self.slots.free() - self.ends.in_trouble(), self._left()), 0))

    def ahead_s(self) -> float:
        """Return for how much more work jobs may be taken ahead.

        None while there is half as much as may be, or where it is not certain that slots move on
        and that more jobs wait than can begin; nor beside a suspect.
        """
        if self._streak < _DEEP or self.keeper.suspects() or self.ends.in_trouble():
            return 0.0
        if self.slots.still_s() > BUFFER_S or self._left() < 2 * MOST_AT_ONCE:
            return 0.0
        line = self.slots.line()
        waits_s = sum(lease.source.pace.expected_s() for lease in line)
        if len(line) > MOST_AHEAD // 2 or waits_s > BUFFER_S / 2:
            return 0.0
        return BUFFER_S - waits_s

    def patience_s(self) -> float:
        """Return after what time to look again although no bell rang."""
        return LONGEST_S if self.ends.waiting() or self.slots.line() else math.inf

    def start(self, leases: Sequence[Lease], *, full: bool) -> None:
        """Let jobs begin, or wait in line. ``full``: there may be more than were taken."""
        self._streak = self._streak + 1 if full else 0
        begin = [lease for lease in leases if not self._put_off(lease)]
        for lease in begin:
            lease.note_in(self._region, self._sources.all.index(lease.source))
            self.keeper.hold(lease)
        self._begun += len(begin)
        self.slots.low_mark = len(begin) // 2 if len(begin) > self._options.concurrency else -1
        if len(begin) == 1 and self.slots.is_lent:
            self._hands.rest()
            self.slots.submit(begin)  # to the very slot that took it
        elif begin:
            self.slots.submit(begin, hands=self._worth_it([*self.slots.line(), *begin]))

    def look_after(self) -> None:
        """Report ends that have waited for long enough; hand back what was taken too early."""
        if self.ends.ripe() or (self.ends.waiting() and self.slots.is_idle()):
            self.ends.flush()
        self.slots.wake()
        self.slots.spread(LONGEST_S)
        # A slot that was woken and has not come yet will: the machine is busy.
        if self.slots.is_full() and self.slots.still_s() > _STILL_S:
            self._streak = 0
            self.clear_line()
            self.bell.ring()  # what counted as no free slot may have been the line

    def clear_line(self) -> None:
        """Hand back what has not begun."""
        leases = self.slots.recall()
        self._begun -= len(leases)
        drain.hand_back(leases)
        for lease in leases:
            self.keeper.drop(lease)

    def close(self) -> None:
        """Let idle threads end."""
        self.keeper.stop()
        self.slots.close()

    def _beat(self) -> None:
        """Do what has to be done while the main thread waits for a server; on the keeper's."""
        self._region.beat()
        self.slots.spread(LONGEST_S)

    def _worth_it(self, leases: Iterable[Lease]) -> int | None:
        """Return how many slots these jobs are worth, None for any number."""
        counts: dict[Pace, int] = {}  # a Counter takes longer than a take of one job may
        for lease in leases:
            pace = lease.source.pace
            counts[pace] = counts.get(pace, 0) + 1
        is_deep = self._streak >= _DEEP
        if not is_deep:
            self._hands.rest()
        if not all(pace.is_short for pace in counts):
            return None
        most = self._options.concurrency
        if is_deep:  # trifles mostly keep the interpreter busy: they begin with one
            are_trifles = all(pace.expected_s() < WORTH_A_SLOT_S for pace in counts)
            most = self._hands.count(self.slots.begun, 1 if are_trifles else most)
        work_s = sum(count * pace.expected_s() for pace, count in counts.items())
        return min(most, math.ceil(work_s / WORTH_A_SLOT_S))

    def _left(self) -> float:
        """Return how many more jobs may begin before this worker ends."""
        return self._options.max_jobs - self._begun if self._options.max_jobs else math.inf

    def _put_off(self, lease: Lease) -> bool:
        """Put a suspect off for a moment while another one is held: at most one at a time."""
        if not (lease.is_suspect and self.keeper.suspects()):
            return False
        pause_ms = round(jitter(*_SUSPECT_AGAIN_MS))
        call = settle.delay(lease.source.options.keys, lease.job, "in", pause_ms)
        with contextlib.suppress(EmqError):
            lease.source.link.run(call)
            log.put_off(lease, pause_ms)
            return True
        return False  # it must not be lost again for nothing

    def _run(self, lease: Lease) -> None:
        """Take one job through its run; on a slot."""
        if lease.over():  # it waited in line while this process stood still
            self.keeper.drop(lease)
            return
        try:
            lease.begins()
            self._execution.run(lease)
        except BaseException:
            self.keeper.drop(lease)
            raise

    def _on_reported(self) -> None:
        """Hear that ends in trouble were reported, on a thread that did that."""
        self.slots.wake()
        self.bell.ring()

    def _settled(self, lease: Lease, ended: Completed | Failed | None) -> None:
        """Let go of a lease; what is told of its job's end is told on the slot that ran it."""
        if ended is not None and lease.tells:
            self.slots.follow_up(lease.thread_id, partial(self._tell, lease, ended))
        self.keeper.drop(lease)

    def _tell(self, lease: Lease, ended: Completed | Failed) -> None:
        """Tell of a job's end; on a slot."""
        began_s = time.monotonic()
        tell_of_end(self._hooks, lease, ended)
        lease.source.pace.told(time.monotonic() - began_s)
