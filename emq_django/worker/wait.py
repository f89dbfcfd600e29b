"""How a worker waits: on a bell, and on whatever else there is to hear.

``Idle`` is the one place to change for another way of waiting. Two exist: ``watched`` for a
process that looks after itself, ``parked`` for one that its parent wakes.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import weakref
from collections.abc import Callable, Iterable
from typing import Final, Protocol

_CHUNK: Final = 4_096
_MOST_MS: Final = 3_600_000


class Bell:
    """Ends a wait, from any thread and from a signal handler.

    A pipe, because a write is one system call and re-entrant: a signal handler that set an Event
    while the main thread was inside that Event would wait for itself for ever.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        for end in (self._read, self._write):
            os.set_blocking(end, False)
        weakref.finalize(self, _close, self._read, self._write)
        self._listeners: dict[int, Callable[[], None]] = {}

    def ring(self) -> None:
        """End the wait that is going on, or else the next one."""
        with contextlib.suppress(BlockingIOError):  # a full pipe has rung often enough
            os.write(self._write, b"\0")

    def listen(self, descriptor: int, call: Callable[[], None]) -> None:
        """Also end waits when there is something to read, after calling ``call``."""
        self._listeners[descriptor] = call

    def wait(self, timeout_s: float, others: Iterable[int] = ()) -> bool:
        """Wait until it rings. False says that it did not, within ``timeout_s``.

        Something to read on one of ``others`` ends the wait too, without a ring.
        """
        poll = select.poll()
        for descriptor in (self._read, *self._listeners, *others):
            poll.register(descriptor, select.POLLIN)
        ready = dict(poll.poll(min(max(timeout_s, 0.0) * 1_000, _MOST_MS)))
        rang = self._read in ready
        while rang and len(os.read(self._read, _CHUNK)) == _CHUNK:
            pass  # rings that came together end one wait
        for descriptor in ready.keys() & self._listeners.keys():
            rang = True
            self._listeners[descriptor]()
        return rang


class Idle(Protocol):
    """Waits for work on behalf of the worker's loop.

    ``on_a_slot``: whether another thread than the main one may do it. A signal that forces the end
    cuts short what the main thread does, and nothing that another one does.
    """

    on_a_slot: bool

    def tick(self) -> None:
        """Do what is due, if anything; called in each turn of the loop."""

    def took(self, jobs: int, limit: int, asked_s: float) -> None:
        """Hear what a take brought that was sent at ``asked_s`` and asked for ``limit`` jobs."""

    def gave_back(self) -> None:
        """Hear that a take brought jobs that were handed back, because this worker stops."""

    def wait(self, longest_s: float = math.inf) -> None:
        """Return when a take is worth its trip, the bell rang, or ``longest_s`` are over."""

    def wait_for_slot(self, longest_s: float = math.inf) -> None:
        """Return when the bell rang, something is due, or ``longest_s`` are over."""

    def sweep(self) -> bool:
        """Promote and reap now; tells whether there is something to take."""

    def close(self) -> None:
        """Close what this way of waiting has opened."""


def _close(*ends: int) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            os.close(end)
