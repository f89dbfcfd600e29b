"""Waiting for a child of a tree: it tells its parent that it is idle, and the parent wakes it.

One byte per message. The parent reads the rest in the table.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import socket

    from emq_django.worker.lookout import Lookout
    from emq_django.worker.shutdown import StopRequest
    from emq_django.worker.sources import Sources
    from emq_django.worker.table import Region
    from emq_django.worker.wait import Bell

# From the child.
IDLE: Final = b"i"  # a take found nothing, and a slot is free
TOOK: Final = b"t"  # the take after being woken, or having heard for itself, found something
FULL: Final = b"m"  # and as much as it asked for: there may be more for another child
BUSY: Final = b"b"  # woken, but no slot is free, or this child stops: another one should go
GONE: Final = b"g"  # it heard of a job for itself, but somebody else was quicker
# From the parent.
WAKE: Final = b"w"
STOP: Final = b"s"

_CHUNK: Final = 256
_LONGEST_S: Final = 60.0


class Line:
    """The child's end of the line to its parent: a stop that comes over it is asked for at once."""

    def __init__(self, line: socket.socket, bell: Bell, stop: StopRequest) -> None:
        self.woken = False
        self._line = line
        self._stop = stop
        line.setblocking(False)
        bell.listen(line.fileno(), self._hear)

    def tell(self, message: bytes) -> None:
        """Send a message."""
        try:
            self._line.send(message)
        except BlockingIOError:
            pass  # the parent is far behind; it looks once a second anyway
        except OSError:
            self._stop.ask()  # the parent is gone

    def _hear(self) -> None:
        try:
            heard = self._line.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            heard = b""
        if not heard or STOP in heard:
            self._stop.ask()
        if WAKE in heard:
            self.woken = True


class Parked:
    """An ``Idle`` that leaves watching and upkeep to the parent, and to kill what hangs."""

    on_a_slot = True

    def __init__(
        self, line: Line, bell: Bell, sources: Sources, region: Region, lookout: Lookout
    ) -> None:
        self._line = line
        self._bell = bell
        self._sources = sources
        self._region = region
        self._lookout = lookout
        self._heard = False  # for itself; what comes of it is not known yet
        self._idle = False  # the parent believes so
        line.woken = True  # the first take is made without being told

    def tick(self) -> None:
        """Do nothing: the parent does the upkeep."""

    def took(self, jobs: int, limit: int, asked_s: float) -> None:
        """Tell the parent what the take found for which it woke this child."""
        heard, self._heard = self._heard and limit > 0, False
        if self._lookout.took(jobs, heard=heard):
            self._line.tell(GONE)
        if not jobs and limit:
            self._region.asked(asked_s)
        elif jobs == limit > 0:
            if self._line.woken or self._idle:
                self._line.tell(FULL)
            self._line.woken = self._idle = False
        elif jobs and self._line.woken:
            self._line.tell(TOOK)
            self._line.woken = False

    def gave_back(self) -> None:
        """Tell the parent that there is something for another child."""
        self._line.tell(BUSY)

    def wait(self, longest_s: float = math.inf) -> None:
        """Return when the parent says that a take is worth its trip, or the bell rang."""
        self._line.woken, self._idle = False, True
        self._line.tell(IDLE)
        again_s = self._sources.again_in_s()
        until_s = time.monotonic() + min(again_s, longest_s, _LONGEST_S)
        while (left_s := until_s - time.monotonic()) > 0:
            ears, at_most_s = self._lookout.watch(left_s)
            if self._bell.wait(min(left_s, at_most_s), ears):
                return
            if time.monotonic() < until_s and self._lookout.has_heard():
                self._heard = self._line.woken = True
                return

    def wait_for_slot(self, longest_s: float = math.inf) -> None:
        """Return when the bell rang, or ``longest_s`` are over."""
        if self._line.woken:
            self._line.tell(BUSY)
            self._line.woken = self._idle = False
        self._bell.wait(min(longest_s, _LONGEST_S))

    def sweep(self) -> bool:
        """Move nothing: the parent does the upkeep."""
        return False

    def close(self) -> None:
        """Let the line be: the parent learns from its end that this process is gone."""
        self._lookout.close()
