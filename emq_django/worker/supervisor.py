"""The parent of a worker tree: one thread, one loop, and no job.

It forks the children, waits for all of them on the queues (``watch.py``) and wakes one that is
idle when there is something to take; looks after what they hold (``guard.py``), hands back what a
lost one held (``recovery.py``), and replaces it. Being single-threaded it may fork at any time, and
no call to a server takes it longer than half a second.
"""

from __future__ import annotations

import gc
import os
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from emq_django.protocol.workers import Busy
from emq_django.worker import parked
from emq_django.worker.beat import Beat, busy_of, facts_of
from emq_django.worker.cancels import Cancels
from emq_django.worker.children import HAD_ENOUGH, Child, fork
from emq_django.worker.guard import Guard
from emq_django.worker.log import logger
from emq_django.worker.metrics import Reporter
from emq_django.worker.notices import Notices, title
from emq_django.worker.options import TreeOptions, WorkerOptions
from emq_django.worker.recovery import Recovery
from emq_django.worker.seat import ChildSeat, Listen, new_incarnation, posts_for, slots_for
from emq_django.worker.signals import SignalPipe
from emq_django.worker.sources import Sources
from emq_django.worker.strays import Kill
from emq_django.worker.table import Region, Table
from emq_django.worker.waking import Waking
from emq_django.worker.watch import Watch

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0
_OVER_GRACE_S: Final = 2.0  # for children to hand back what their grace time was too short for
_LAST_LOOK_S: Final = 2.0  # at the end, for jobs whose server does not answer
_LONGEST_WAIT_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the application brings: its servers, and what must happen around a fork.

    Attributes:
        sources: the queues, over links of the parent's own.
        listen: finds the servers, and what hears of their changes.
        overhear: finds them for a child that hears for itself.
        before_fork: closes what a child must not share.
        work: runs a worker in the seat it gets; its exit code is the process's.
        kill_for: returns, in a new child, what kills its lost connections.
    """

    sources: Sources
    listen: Listen
    overhear: Listen
    before_fork: Callable[[], None]
    work: Callable[[ChildSeat], int]
    kill_for: Callable[[str, Region], Kill]


class Supervisor:
    """A worker tree."""

    def __init__(
        self, tree: TreeOptions, options: WorkerOptions, surroundings: Surroundings
    ) -> None:
        self._tree = tree
        self._options = options
        self._around = surroundings
        sources = surroundings.sources.all
        beat = Beat(facts_of(options, new_incarnation(), tree.processes), self._busy)
        self._watch = Watch(
            lambda: posts_for(options, sources, surroundings.listen),
            beat=beat,
            cancels=Cancels(sources, self._regions),
        )
        self._reporter = Reporter(sources, link_of=self._watch.link_of)
        self._recovery = Recovery(self._watch, sources)
        self._guard = Guard(self._watch, sources, tree.stuck_s, tree.max_memory_mb)
        self._notices = Notices(tree.health_file)
        self._table = Table(tree.processes, slots_for(options))
        self._signals = SignalPipe()
        self._children: dict[int, Child] = {}  # by their place in the tree
        self._births: dict[int, float] = dict.fromkeys(range(tree.processes), 0.0)
        self._pauses: dict[int, float] = {}
        self._waking = Waking(self._watch)
        self._stop_by_s: float | None = None
        self._chores_at_s = 0.0
        self._forced_by = 0
        self._exit_code = 0

    def run(self) -> int:
        """Keep the tree going until it is asked to stop; returns the exit code."""
        title(f"parent of {self._tree.processes}")
        gc.collect()
        gc.freeze()  # what is loaded by now stays shared with the children
        with self._signals:
            self._start_due()
            self._notices.ready()
            while self._children or self._births:
                try:
                    self._turn()
                except Exception:  # noqa: BLE001 - the loop's boundary
                    # Without this loop nobody looks after the children: whatever it was, go on.
                    logger.exception("the parent failed in one turn, and goes on")
                    time.sleep(_FIRST_PAUSE_S)
            self._finish()
        return 128 + self._forced_by if self._forced_by else self._exit_code

    def _turn(self) -> None:
        """Wait for whatever comes first, and deal with all of it, what jobs wait for first."""
        ready = self._wait()
        is_gone = False
        for child in [child for child in self._children.values() if child.line.fileno() in ready]:
            is_gone = not self._hear(child) or is_gone
        self._waking.turn()
        # Of many trees that hear of a job one has more to do: the others go back to wait.
        if is_gone or self._signals.fileno() in ready or time.monotonic() >= self._chores_at_s:
            self._do_chores(ready)

    def _do_chores(self, ready: set[int]) -> None:
        """Deal with all that no job waits for."""
        if self._signals.fileno() in ready:
            for signum in self._signals.read():
                self._stop(signum)
        self._reap()
        self._recovery.tick()
        for child in self._guard.tick(self._children.values()):
            self._retire(child, "it has grown too large")
        self._start_due()
        self._waking.wake()
        self._kill_if_over_time()
        self._reporter.tick()
        self._notices.tick(self._state)

    def _wait(self) -> set[int]:
        """Return what can be read, as soon as there is something to do."""
        now_s = time.monotonic()
        chores = (self._guard.next_in_s(), self._recovery.next_in_s(), self._notices.next_in_s())
        at_s = [now_s + one for one in chores if one is not None]
        at_s += self._births.values()
        if self._stop_by_s is not None:
            at_s.append(max(self._stop_by_s, now_s))
        self._chores_at_s = min(at_s)
        wait_s = min(self._waking.next_in_s(), self._chores_at_s - now_s, _LONGEST_WAIT_S)
        poll = select.poll()
        lines = [child.line.fileno() for child in self._children.values()]
        for number in (self._signals.fileno(), *lines, *self._watch.filenos()):
            poll.register(number, select.POLLIN)
        ready = poll.poll(max(wait_s, 0.0) * 1_000)
        return {number for number, _ in ready}

    # Children

    def _start_due(self) -> None:
        now_s = time.monotonic()
        for number in [number for number, at_s in self._births.items() if at_s <= now_s]:
            del self._births[number]
            self._start(number)

    def _start(self, number: int) -> None:
        self._around.before_fork()
        region = self._table.region(number)
        region.clear()
        incarnation = new_incarnation()

        def work(line: Any) -> int:
            title(f"process {number + 1}")
            kill = self._around.kill_for(incarnation, region)
            around = self._around
            seat = ChildSeat(incarnation, kill, around.listen, around.overhear, region, line)
            return self._around.work(seat)

        lines = [child.line for child in self._children.values()]
        self._children[number] = fork(
            number, incarnation, region, work, [*lines, *self._signals.sockets]
        )
        self._waking.born(self._children[number])

    def _reap(self) -> None:
        for child in list(self._children.values()):
            code = child.ended()
            if code is None:
                continue
            self._hear(child)
            self._forget(child)
            had_enough = code == HAD_ENOUGH
            code = 0 if had_enough else code
            clean = code == 0 and not child.region.slots()
            if not clean:
                self._recovery.open(child)
            self._say_ended(child, code)
            if self._is_over(child, code, had_enough=had_enough):
                self._exit_code = max(self._exit_code, code)
            else:
                self._births[child.number] = time.monotonic() + self._pause_s(child, code)

    def _is_over(self, child: Child, code: int, *, had_enough: bool) -> bool:
        """Whether nobody takes the place of a child that has ended.

        One that has had enough jobs has not seen whether any are left.
        """
        if self._stop_by_s is not None:
            return True
        return self._options.burst and code >= 0 and not (child.stopping or had_enough)

    def _pause_s(self, child: Child, code: int) -> float:
        """Return the pause before a new child: it grows while none gets as far as to serve."""
        if code == 0 or child.served:
            self._pauses.pop(child.number, None)
            return 0.0
        pause_s = self._pauses.get(child.number, 0.0)
        self._pauses[child.number] = min(max(2 * pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
        return pause_s

    def _say_ended(self, child: Child, code: int) -> None:
        if code == 0 or self._forced_by:
            return
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        logger.error("process %d (worker %s) ended %s", child.pid, child.incarnation, how)

    def _forget(self, child: Child) -> None:
        del self._children[child.number]
        self._waking.ended(child)
        child.line.close()

    def _retire(self, child: Child, why: str) -> None:
        if not child.stopping:
            logger.info("process %d stops and is replaced: %s", child.pid, why)
            child.stopping = True
            self._waking.stops(child)
            child.tell(parked.STOP)

    def _hear(self, child: Child) -> bool:
        """Hear what a child has said; False where it can say nothing any more."""
        messages = child.hear()
        for message in messages:
            child.served = True
            self._waking.hear(child, bytes((message,)))
        return bool(messages)

    # The end

    def _stop(self, signum: int) -> None:
        """Ask all children to finish; at the second time, end them and hand back their jobs."""
        if self._stop_by_s is None:
            logger.info("stopping: signal %d", signum)
            self._notices.stopping()
            self._stop_by_s = time.monotonic() + self._options.grace_s + _OVER_GRACE_S
            self._births.clear()
            self._waking.end()
            for child in self._children.values():
                child.stopping = True
                child.tell(parked.STOP)
        elif not self._forced_by:
            self._forced_by = signum
            self._stop_by_s = time.monotonic()

    def _kill_if_over_time(self) -> None:
        if self._stop_by_s is None or time.monotonic() < self._stop_by_s:
            return
        self._stop_by_s = time.monotonic() + _LONGEST_WAIT_S
        for child in self._children.values():
            child.forced = True
            child.kill()

    def _finish(self) -> None:
        """Hand back what is left, within reason."""
        until_s = time.monotonic() + _LAST_LOOK_S
        self._recovery.tick()
        while self._recovery.first_looks_left() and time.monotonic() < until_s:
            time.sleep(min(self._recovery.next_in_s() or 0.0, _LAST_LOOK_S))
            self._watch.turn(idle=False)
            self._recovery.tick()
        self._reporter.flush()
        self._watch.end()
        self._notices.close()
        self._table.close()
        gc.unfreeze()
        logger.info("worker tree %d ended", os.getpid())

    def _busy(self) -> list[Busy]:
        return busy_of(self._options, self._regions())

    def _regions(self) -> list[Region]:
        return [child.region for child in self._children.values()]

    def _state(self) -> dict[str, Any]:
        children: Sequence[Child] = tuple(self._children.values())
        return {
            "pid": os.getpid(),
            "time": time.time(),
            "processes": self._tree.processes,
            "alive": len(children),
            "idle": self._waking.idle(),
            "running": sum(len(child.region.slots()) for child in children),
            "stopping": self._stop_by_s is not None,
            "server_answers": all(post.answers() for post in self._watch.posts),
        }
