"""An ear of a child's own: it hears of a job itself, and need not be woken by its parent.

That is one process less on a job's way, a quarter of a millisecond. Nothing depends on it: the
parent hears of everything as well, and comes after a moment. So one child of a tree does it, the
one that its parent appoints, and whatever goes wrong here ends in waiting to be woken.

It hears of one change each time (``CLIENT TRACKING`` without BCAST announces a key that was read,
once), so a queue in which much happens costs nothing while this child works.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from emq_django.worker.log import logger
from emq_django.worker.pauses import Pauses

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from emq_django.wire.client import Command
    from emq_django.wire.hearing import HearingClient
    from emq_django.worker.seat import Listen
    from emq_django.worker.table import Region

_QUIET_S: Final = 0.01  # a child that is idle for less need not hear for itself
_WORTH_S: Final = 0.5  # a shorter wait is not worth the trip
_LOOK_S: Final = 1.0  # one that is not appointed looks again whether it is by now
_ANSWER_S: Final = 0.5
_FIRST_REST_S: Final = 0.1
_LONGEST_REST_S: Final = 5.0


class _State(Enum):
    OFF = auto()
    ASKED = auto()  # what comes is an answer, or a change
    HEARS = auto()  # what comes is a change


class Lookout:
    """Says on which sockets a child waits for jobs. For one thread at a time."""

    def __init__(self, listen: Listen, queues: Sequence[Queue], region: Region) -> None:
        self._listen = listen
        self._queues = queues
        self._region = region
        self._ears: Sequence[tuple[HearingClient, Sequence[Queue]]] = ()
        self._state = _State.OFF
        self._changed = False  # a change was read that nobody has taken for yet
        self._rests = Pauses(_FIRST_REST_S, _LONGEST_REST_S)
        self._from_s = 0.0  # before, it waits to be woken
        self._answer_by_s = 0.0

    def watch(self, wait_s: float) -> tuple[list[int], float]:
        """Return the sockets to wait on, and after how long at most to ask ``has_heard``."""
        now_s = time.monotonic()
        if self._state is _State.OFF:
            if wait_s < _WORTH_S:
                return [], wait_s
            if not self._region.is_appointed():
                return [], _LOOK_S
            if self._from_s <= now_s:
                self._ask(now_s)
            if self._state is _State.OFF:
                return [], max(self._from_s - now_s, 0.0)
        left_s = wait_s if self._state is _State.HEARS else self._answer_by_s - now_s
        return [ear.fileno() for ear, _ in self._ears], left_s

    def has_heard(self) -> bool:
        """Tell whether a wait for these sockets, which is over, ended with a change.

        Where it can be nothing else it is not read: first the take, which a job waits for.
        """
        if self._state is _State.ASKED:
            self._read()
            return self._changed
        return self._state is _State.HEARS

    def took(self, jobs: int, *, heard: bool) -> bool:
        """Learn what a take brought; returns whether what was ``heard`` was another one's job.

        Own takes change the queues as well, so after one it is too late to hear of others.
        """
        if not (jobs or heard):
            return False
        if heard and not jobs and self._state is _State.HEARS:
            self._read()  # a connection that was cut looks like a change
        is_late = self._changed and not jobs
        self._changed = False
        if self._state is _State.ASKED:
            self.close()  # an answer would come that is not the next one's
        self._turn(_State.OFF)
        if jobs:
            self._rests.reset()
            self._from_s = time.monotonic() + _QUIET_S
        elif is_late:
            self._from_s = time.monotonic() + self._rests.next_s()
        return is_late

    def close(self) -> None:
        """Close the connections."""
        for ear, _ in self._ears:
            ear.close()
        self._ears = ()
        self._turn(_State.OFF)

    def _turn(self, state: _State) -> None:
        self._state = state
        self._region.hears(state is _State.HEARS)

    def _ask(self, now_s: float) -> None:
        """Read what is to be heard of next, without waiting for the answer."""
        try:
            self._ears = self._ears or self._listen(self._queues)
            for ear, queues in self._ears:
                if ear.fileno() >= 0:
                    ear.heard()  # of changes before the last take, which are old news
                reads: list[Command] = [("EXISTS", *queue.waiting_keys) for queue in queues]
                ear.ask(reads)
        except Exception as exc:  # noqa: BLE001 - the parent finds out what is wrong, and says it
            self._fail(exc)
            return
        if refused := [ear.refusal for ear, _ in self._ears if not ear.hears]:
            self._fail(refused)
            return
        self._answer_by_s = now_s + _ANSWER_S
        self._turn(_State.ASKED)

    def _read(self) -> None:
        """Read what has come, and judge answers."""
        try:
            for ear, _ in self._ears:
                self._changed = bool(ear.heard()) or self._changed
        except Exception as exc:  # noqa: BLE001 - as above
            self._fail(exc)
            return
        answers = [answer for ear, _ in self._ears for answer in ear.answers()]
        if errors := [answer for answer in answers if isinstance(answer, Exception)]:
            self._fail(errors)
        elif len(answers) == sum(len(queues) for _, queues in self._ears):
            self._turn(_State.HEARS)
        elif self._answer_by_s <= time.monotonic():
            self._fail(f"no answer within {_ANSWER_S:g} s")

    def _fail(self, why: object) -> None:
        logger.debug("this process waits to be woken for jobs: %s", why)
        self.close()
        self._from_s = time.monotonic() + self._rests.next_s()
