"""When there is another attempt, after which pause, and how long it may take. Sends nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from random import Random
from typing import Final

from emq_django.errors import (
    EmqError,
    NotReplicated,
    ReplyLost,
    ServerBusy,
    ServerReadOnly,
    Unreachable,
)

logger = logging.getLogger("emq_django.enqueue")

PASSING: Final = (Unreachable, ServerBusy, ServerReadOnly, NotReplicated)
"""Errors that may be over in a moment: the only ones after which anything is sent again."""

# A closed port does not open while a visitor waits: the call ends within a second, last included.
REFUSED_S: Final = 0.9
DOWN_S: Final = 1.0  # the only attempt of a call while the server is known to be down
FIRST_PAUSE_S: Final = 0.01
LONGEST_PAUSE_S: Final = 0.25
LEAST_ATTEMPT_S: Final = 0.05  # with less time for a reply, an attempt would only lose it
USUAL_READ_S: Final = 5.0  # a connection's own read timeout where nothing else is configured

_jitter = Random().uniform  # noqa: S311 - spreads pauses, guards nothing


class Patience:
    """How long an admission may take, and whether its server is known to be down.

    One per server, shared by all calls: the server's state, not a job's. ``read_s`` is how long a
    connection waits for a reply by itself; ``clock`` returns seconds and is an argument for tests.
    """

    __slots__ = ("clock", "deadline_s", "down", "first_s", "read_s")

    def __init__(
        self,
        deadline_s: float,
        read_s: float = USUAL_READ_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.deadline_s = deadline_s
        self.read_s = read_s
        self.clock = clock
        self.down = False
        # None leaves a first attempt to the connection, which is the cheap way.
        self.first_s = deadline_s if 0 < deadline_s < read_s else None

    def gave_up(self, error: EmqError) -> None:
        """Note that the server took no admission by the deadline."""
        if not self.down:
            self.down = True
            logger.warning("enqueue gave up, further calls try once: %s", error)

    def worked(self) -> None:
        """Note that the server took an admission."""
        if self.down:
            self.down = False
            logger.info("enqueue works again")


class Attempts:
    """The attempts of one call against its deadline: from ``began_s``, now or ``restart``.

    A call that began while the server was up keeps its whole deadline, also when another call
    finds the server down in the meantime.
    """

    # What changes only when an attempt failed is set only then: most calls make one attempt.
    _fresh = True
    _pause_s = FIRST_PAUSE_S
    _refused_since: float | None = None

    def __init__(self, patience: Patience, began_s: float | None = None) -> None:
        self._patience = patience
        # Whoever began earlier found the server up.
        self._once = began_s is None and patience.down
        began_s = patience.clock() if began_s is None else began_s
        self._deadline = began_s + patience.deadline_s

    def restart(self) -> None:
        """Begin again: what was sent so far got through."""
        patience = self._patience
        self._once = patience.down
        self._deadline = patience.clock() + patience.deadline_s
        self._fresh = True
        self._pause_s = FIRST_PAUSE_S
        self._refused_since = None

    def timeout_s(self) -> float | None:
        """Return how long an attempt may take that is not made because another one failed.

        None leaves it to the connection.
        """
        patience = self._patience
        if self._fresh:
            self._fresh = False
            if self._once:
                return min(DOWN_S, patience.deadline_s, patience.read_s)
            return patience.first_s
        if not patience.deadline_s:
            return None
        left_s = self._deadline - patience.clock()
        return min(max(left_s, LEAST_ATTEMPT_S), patience.read_s)

    def after(self, error: EmqError) -> tuple[float, float] | None:
        """Return (pause, time for the attempt after it), or None when the call has to give up."""
        patience = self._patience
        if self._once or not patience.deadline_s:
            return None
        now, limit = patience.clock(), self._deadline
        if _is_refusal(error):
            if self._refused_since is None:
                self._refused_since = now
            limit = min(limit, self._refused_since + REFUSED_S)
        else:
            self._refused_since = None
        left_s = limit - now
        if left_s < FIRST_PAUSE_S + LEAST_ATTEMPT_S:
            patience.gave_up(error)
            return None
        # The last pause is cut, so that the server is asked once more right before the end.
        pause_s = min(_jitter(self._pause_s / 2, self._pause_s), left_s - LEAST_ATTEMPT_S)
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
        return pause_s, min(left_s - pause_s, patience.read_s)


def _is_refusal(error: EmqError) -> bool:
    """Tell whether a connection was refused: a silent server may be on its way up."""
    if not isinstance(error, Unreachable) or isinstance(error, ReplyLost):
        return False
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TimeoutError):
            return False
        cause = cause.__cause__ or cause.__context__
    return True
