"""Keeps the dead jobs of queues within ``EMQ["DEAD_KEPT"]`` and ``EMQ["DEAD_TTL_S"]``.

Every worker process looks now and then; what one removed the others find gone. Removed is a job
for good: the log says how many, and which ids are the first and the last of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from emq_django.conf import conf, keys
from emq_django.errors import WireError
from emq_django.protocol import read, upkeep
from emq_django.protocol.keyspace import Queue
from emq_django.worker.link import Runner
from emq_django.worker.pauses import jitter

logger = logging.getLogger("emq_django.worker")

_FIRST_S: Final = (60.0, 300.0)  # drawn: the processes of a tree start together
_AGAIN_S: Final = (300.0, 600.0)
_PAUSE_S: Final = 0.02  # between two rounds where there is more: others want the server too
_BATCHES: Final = 10  # of 100 jobs, a round


class Undertaker:
    """Looks after the dead of some queues. One thread calls ``tick`` again and again."""

    def __init__(self, queues: Sequence[str], wire_for: Callable[[Queue], Runner]) -> None:
        self._yards = [_Yard(keys(name), wire_for(keys(name))) for name in queues]
        self._began = False

    def tick(self) -> float:
        """Remove some of what is beyond bounds; returns how many seconds to wait."""
        if not self._began:
            self._began = True
            return jitter(*_FIRST_S)
        more = [yard.round() for yard in self._yards]
        return _PAUSE_S if any(more) else jitter(*_AGAIN_S)


class _Yard:
    """The dead of one queue, and how far the walk through them is."""

    def __init__(self, queue: Queue, wire: Runner) -> None:
        self._queue = queue
        self._wire = wire
        self._offset = 0
        self._removed = 0
        self._first = self._last = ""

    def round(self) -> bool:
        """Go some batches on. True while there may be more to remove."""
        try:
            counts = self._wire.run(read.counts(self._queue))
            goes_on = counts.dead > 0 and self._walk(counts.now_ms)
        except WireError:
            goes_on = False  # the worker's own trips say what is wrong with the server
        if not goes_on:
            self._report()
        return goes_on

    def _walk(self, now_ms: int) -> bool:
        settings = conf()
        before_ms = now_ms - round(1_000 * settings.dead_ttl_s)
        for _ in range(_BATCHES):
            call = upkeep.trim_dead(
                self._queue, settings.dead_kept, max(before_ms, 0), self._offset
            )
            trimmed = self._wire.run(call)
            self._offset += trimmed.seen - trimmed.removed
            self._removed += trimmed.removed
            self._first = self._first or trimmed.first
            self._last = trimmed.last or self._last
            if not trimmed.more:
                return False
        return True

    def _report(self) -> None:
        """Say what went in this walk; the next one begins at the head."""
        if self._removed:
            logger.warning(
                "queue %s: removed %d dead jobs, from %s to %s: EMQ keeps %d, for %g days",
                self._queue.name, self._removed, self._first, self._last,
                conf().dead_kept, conf().dead_ttl_s / 86_400,
            )  # fmt: skip
        self._offset = self._removed = 0
        self._first = self._last = ""
