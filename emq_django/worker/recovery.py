"""What a parent does about the jobs of a child that is gone.

First the child's connections are killed on the server: a command of it may still run from a socket
buffer. Then every job of the table goes back by its token, and so does every job that carries the
child's mark and is in no table: a take brought it and the child did not live to write it down. A
second look a second later finds what was hidden from the first.

| what the child was doing | its job |
| --- | --- |
| had taken it, not begun | goes back, nothing counted |
| was running it when it crashed | goes back as one lost run; buried after three |
| ran it past its hard limit, and was killed for that | fails, as if it had raised HardTimeLimit |
| was running it when it was killed for another job, or to end the tree | goes back, nothing counted |
"""  # noqa: E501 - a table

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from emq_django.errors import EmqError, WireError
from emq_django.protocol import settle
from emq_django.protocol.records import ClaimedJob, Verdict
from emq_django.protocol.recover import Held
from emq_django.wire import roster
from emq_django.worker import strays
from emq_django.worker.children import Child
from emq_django.worker.failure import one_line, record
from emq_django.worker.link import Link
from emq_django.worker.log import logger
from emq_django.worker.metrics import End
from emq_django.worker.outcomes import HardTimeLimit
from emq_django.worker.retry import delay_ms
from emq_django.worker.sources import Source
from emq_django.worker.table import Slot, State
from emq_django.worker.watch import Watch

_LOOK_AGAIN_S: Final = 1.0
_RETRY_S: Final = 0.5


@dataclass(slots=True)
class _Case:
    """One child that is gone."""

    incarnation: str
    connections: list[int]
    slots: list[Slot]
    overdue: dict[tuple[str, int], Slot]  # as they were when it was killed for them
    counted: bool
    until_s: float  # by then every lease of it has ended, and the reaper has its jobs
    at_s: float = field(default_factory=time.monotonic)
    ended_s: float = field(default_factory=time.monotonic)
    looks: int = 2

    def lost(self, job: Held) -> bool:
        """Whether a job that carries the mark had begun."""
        return self.counted and any(
            (slot.id, slot.token) == (job.id, job.token) and slot.state is State.STARTED
            for slot in self.slots
        )


class Recovery:
    """Hands back the jobs of children that are gone, as soon as the server can be asked."""

    def __init__(self, watch: Watch, sources: Sequence[Source]) -> None:
        self._watch = watch
        self._sources = sources
        self._cases: list[_Case] = []
        self._longest_lease_s = max(source.options.lease_ms for source in sources) / 1_000

    def open(self, child: Child) -> None:
        """Take over what a child held that has just ended."""
        slots = child.region.slots()
        ends_s = [slot.until_s for slot in slots]
        case = _Case(
            incarnation=child.incarnation,
            connections=child.region.connections(),
            slots=slots,
            overdue={(slot.id, slot.token): slot for slot in child.overdue},
            counted=not (child.forced or child.overdue),
            until_s=max([*ends_s, time.monotonic() + self._longest_lease_s]),
        )
        self._cases.append(case)

    def tick(self) -> None:
        """Look where it is time."""
        now_s = time.monotonic()
        for case in [case for case in self._cases if case.at_s <= now_s]:
            if self._look(case):
                case.looks -= 1
                case.at_s = now_s + _LOOK_AGAIN_S
            else:
                case.at_s = now_s + _RETRY_S
            if not case.looks or now_s > case.until_s:
                self._cases.remove(case)

    def next_in_s(self) -> float | None:
        """Return the time until the next look, None for no look."""
        if not self._cases:
            return None
        return max(min(case.at_s for case in self._cases) - time.monotonic(), 0.0)

    def first_looks_left(self) -> bool:
        """Whether some child's jobs could not be handed back yet."""
        return any(case.looks == 2 for case in self._cases)

    def _look(self, case: _Case) -> bool:
        """Do everything for one child; False where a server could not be asked."""
        done = bool(self._watch.posts)
        for post in self._watch.posts:
            try:
                if post.ear is not None:
                    name = roster.name_of(case.incarnation)
                    base = post.sources[0].options.keys.base
                    roster.kill(post.ear, base, name, case.connections)
            except WireError:
                done = False
            for source in post.sources:
                done = self._look_at(case, source, post.link) and done
        return done

    def _look_at(self, case: _Case, source: Source, link: Link) -> bool:
        queue = self._sources.index(source)
        mine = [slot for slot in case.slots if slot.queue == queue]
        try:
            for overdue in case.overdue.values():
                if overdue.queue == queue:
                    _fail(source, link, case, overdue)
            held = [
                Held(slot.id, slot.token, lost=case.counted and slot.state is State.STARTED)
                for slot in mine
                if (slot.id, slot.token) not in case.overdue
            ]
            self._hand_back(source, link, held)
            marked = strays.find(link, source.options.keys, case.incarnation)
            unknown = [Held(one.id, one.token, case.lost(one)) for one in marked]
            self._hand_back(source, link, unknown)
        except WireError:
            return False
        except EmqError as exc:
            source.complain(exc)
        return True

    def _hand_back(self, source: Source, link: Link, jobs: Sequence[Held]) -> None:
        for job, verdict in strays.hand_back(link, source.options.keys, jobs):
            if verdict is Verdict.STALE:
                continue
            source.tally.lost(int(job.lost))
            what = (
                "dead, lost with its process"
                if verdict is Verdict.DEAD
                else ("lost with its process, handed back" if job.lost else "handed back")
            )
            logger.log(
                log_level(verdict, lost=job.lost),
                "%s queue=%s id=%s attempt=%d",
                what, one_line(source.options.keys.name), one_line(job.id), job.token,
            )  # fmt: skip


def log_level(verdict: Verdict, *, lost: bool) -> int:
    """Return how loud to say it: ERROR for a death, WARNING for a lost run, else INFO."""
    if verdict is Verdict.DEAD:
        return 40
    return 30 if lost else 20


def _fail(source: Source, link: Link, case: _Case, slot: Slot) -> None:
    """Let a job fail that ran past its hard limit."""
    options = source.options
    ran_s = case.ended_s - slot.began_s
    cause = HardTimeLimit(
        f"still running after {slot.deadline_s - slot.began_s:.3g} s, its process was killed"
    )
    max_attempts, pause_ms = slot.max_attempts, slot.pause_ms
    if max_attempts is None:
        max_attempts = options.max_attempts
        pause_ms = delay_ms(slot.tries + 1, options.backoff_base_ms, options.backoff_cap_ms)
    if slot.asked_to_end:
        max_attempts = 0
    ended_ms = round(1_000 * (time.time() - time.monotonic() + case.ended_s))
    began_ms = ended_ms - round(1_000 * ran_s)
    error = f"HardTimeLimit: {cause}"
    job = ClaimedJob(slot.id, b"", slot.token, options.keys.name)
    call = settle.retry(
        options.keys, job, error, pause_ms, max_attempts,
        record=record(cause, slot.token, case.incarnation, began_ms, ended_ms),
    )  # fmt: skip
    verdict = link.run(call, _RETRY_S)
    if verdict in {Verdict.SCHEDULED, Verdict.DEAD}:
        how: End = "failed" if verdict is Verdict.DEAD else "retried"
        source.tally.ended(how, ran_s * 1_000)
        logger.error(
            "%s queue=%s id=%s attempt=%d error=%s",
            "dead" if verdict is Verdict.DEAD else "failed",
            one_line(options.keys.name), one_line(slot.id), slot.token, error,
        )  # fmt: skip
