"""An ear of a child's own: it hears of a job itself, and need not be woken by its parent.

That is one process less on a job's way, a quarter of a millisecond. Nothing depends on it: the
parent hears of everything as well, and comes after a moment. So one child of a tree does it, the
one that its parent appoints, and whatever goes wrong here ends in waiting to be woken.

It hears of one change each time (``CLIENT TRACKING`` without BCAST announces a key that was read,
once), so a queue in which much happens costs nothing while this child works.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from emq_django.worker.log import logger
from emq_django.worker.pauses import Pauses

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from emq_django.wire.client import Command
    from emq_django.wire.hearing import HearingClient
    from emq_django.worker.seat import Listen
    from emq_django.worker.table import Region

_WORTH_S: Final = 0.5  # a shorter wait is not worth the trip
_QUIET_S: Final = 0.01
_FIRST_REST_S: Final = 0.1
_LONGEST_REST_S: Final = 5.0


class Lookout:
    """Says on which sockets a child may wait for jobs. For one thread at a time."""

    def __init__(self, listen: Listen, queues: Sequence[Queue], region: Region) -> None:
        self._listen = listen
        self._queues = queues
        self._region = region
        self._ears: Sequence[tuple[HearingClient, Sequence[Queue]]] = ()
        self._armed = False
        self._rests = Pauses(_FIRST_REST_S, _LONGEST_REST_S)
        self._rest_until_s = 0.0

    def arm(self, wait_s: float) -> list[int]:
        """Return the sockets of which one can be read once a queue changes; none to be woken."""
        if not self._armed:
            now_s = time.monotonic()
            if wait_s < _WORTH_S or now_s < self._rest_until_s or not self._region.is_appointed():
                return []
            try:
                self._ask()
            except Exception as exc:  # noqa: BLE001 - the parent finds out what is wrong, and says it
                logger.debug("this process waits to be woken for jobs: %s", exc)
                self.close()
                self._rest_until_s = now_s + self._rests.next_s()
                return []
            self._turn(armed=True)
        return [ear.fileno() for ear, _ in self._ears]

    def rests_for_s(self) -> float:
        """Return for how long it has to be woken: a child that is idle for less need not ask."""
        return max(self._rest_until_s - time.monotonic(), _QUIET_S)

    def has_heard(self) -> bool:
        """Tell whether something changed of which no socket shows anything any more."""
        return self._armed and any(ear.has_heard() for ear, _ in self._ears)

    def took(self, jobs: int, *, heard: bool) -> None:
        """Learn what a take brought: what was ``heard`` for nothing was another one's job.

        Own takes change the queues as well, so after one it is too late to hear of others.
        """
        if jobs:
            self._rests.reset()
        elif heard:
            self._rest_until_s = time.monotonic() + self._rests.next_s()
        if self._armed and (jobs or heard):
            self._turn(armed=False)

    def close(self) -> None:
        """Close the connections."""
        for ear, _ in self._ears:
            ear.close()
        self._ears = ()
        self._turn(armed=False)

    def _turn(self, *, armed: bool) -> None:
        self._armed = armed
        self._region.hears(armed)

    def _ask(self) -> None:
        """Read what is to be heard of next. Raises whatever is wrong."""
        self._ears = self._ears or self._listen(self._queues)
        for ear, queues in self._ears:
            with contextlib.suppress(Exception):  # a connection that was cut: the next is a new one
                ear.heard()  # of changes before the last take, which are old news
            reads: list[Command] = [("EXISTS", *queue.waiting_keys) for queue in queues]
            for reply in ear.execute_many(reads, queues[0].base):
                if isinstance(reply, Exception):
                    raise reply
            if not ear.hears:
                raise RuntimeError(ear.refusal)
