"""A wire as the worker uses it: its going and coming back is logged, each change once.

Sends nothing again; who may is decided where the call is made (``sources.py``, ``settling.py``).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from emq_django.errors import (
    EmqError,
    NotReplicated,
    PersistenceFailed,
    ReplyLost,
    ServerFull,
    ServerReadOnly,
    Unreachable,
    WireError,
)
from emq_django.protocol.calls import Call
from emq_django.worker.failure import one_line
from emq_django.worker.log import Quiet, logger

R = TypeVar("R")

# A server that takes no writes answers what only reads all the same: it works again when none of
# these came for a while. Longer than the default lease takes to its renewal, which is a write.
_WRITE_REFUSALS: Final = (ServerReadOnly, ServerFull, PersistenceFailed, NotReplicated)
_REFUSES_FOR_S: Final = 12.0


class Runner(Protocol):
    """The two verbs of a wire (``wire.sync.Wire`` has them)."""

    def run(self, call: Call[R], timeout_s: float | None = None) -> R:
        """Run one call."""

    def run_many(
        self, calls: Sequence[Call[Any]], timeout_s: float | None = None
    ) -> list[Any | EmqError]:
        """Run several in one flush; errors stand in place."""


class Trouble:
    """Whether a server answers, for all links that lead to it; ``address`` is for log lines.

    ``told``: a parent asks the same server, and says for its children that it is away, and how
    it tells of new jobs.
    """

    def __init__(
        self, address: str = "", clock: Callable[[], float] = time.monotonic, *, told: bool = False
    ) -> None:
        self.address = one_line(address)
        self.told = told
        self._clock = clock
        self._quiet = Quiet(clock)
        self._lock = threading.Lock()
        self._down_since_s: float | None = None
        self._refused_at_s = -math.inf
        self._logged = False

    def failed(self, exc: WireError) -> None:
        """Note an error; log it unless the same was logged not long ago."""
        with self._lock:
            if self._down_since_s is None:
                self._down_since_s = self._clock()
            if isinstance(exc, _WRITE_REFUSALS):
                self._refused_at_s = self._clock()
            # A lost reply is this process's own.
            if self.told and isinstance(exc, Unreachable) and not isinstance(exc, ReplyLost):
                return
            if not self._quiet.may_log(type(exc)):
                return
            self._logged = True
            away_s = self._clock() - self._down_since_s
        logger.error(
            "server %s in trouble%s: %s: %s - no job runs until it answers%s",
            self.address,
            f" for {away_s:.0f} s" if away_s >= 1 else "",
            type(exc).__name__,
            one_line(str(exc)).removesuffix("."),
            f": {exc.remedy}" if exc.remedy else "",
        )

    def answered(self) -> None:
        """Note an answer; log it when there was trouble."""
        if self._down_since_s is None or self._clock() < self._refused_at_s + _REFUSES_FOR_S:
            return
        with self._lock:
            since_s, self._down_since_s = self._down_since_s, None
            away_s = self._clock() - since_s
            logged, self._logged = self._logged, False
        if logged:
            logger.info("server %s works again, after %.1f s", self.address, away_s)


class Link:
    """One wire, shared by all threads of a worker, and what is known about its server."""

    def __init__(self, wire: Runner, trouble: Trouble | None = None) -> None:
        self._wire = wire
        self.trouble = trouble or Trouble()

    def run(self, call: Call[R], timeout_s: float | None = None) -> R:
        """Run one call. Raises what the wire raises."""
        try:
            result = self._wire.run(call, timeout_s)
        except WireError as exc:
            self.trouble.failed(exc)
            raise
        self.trouble.answered()
        return result

    def run_aside(self, call: Call[R], timeout_s: float | None = None) -> R:
        """Run a call that no job depends on: how it goes says nothing about the server."""
        return self._wire.run(call, timeout_s)

    def run_many(
        self,
        calls: Sequence[Call[Any]],
        timeout_s: float | None = None,
        aside: Sequence[Call[Any]] = (),
    ) -> list[Any | EmqError]:
        """Run several calls in one flush; never raises an EmqError, each stands in its place.

        Those of ``aside`` come last, and their errors say nothing about the server.
        """
        every = [*calls, *aside]
        try:
            results = self._wire.run_many(every, timeout_s)
        except EmqError as exc:
            results = [exc] * len(every)
        told = results[: len(calls)]
        failed = next((result for result in told if isinstance(result, WireError)), None)
        if failed is None:
            self.trouble.answered()
        else:
            self.trouble.failed(failed)
        return results
