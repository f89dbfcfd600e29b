"""How long a queue's jobs take, as measured, and how many of them are worth being taken ahead.

A short job costs less than the trips to the server around it. So several are taken at once and
wait in line for a slot, never more than a moment's work; long ones are never taken before they can
start.
"""

from __future__ import annotations

from typing import Final

BUFFER_S: Final = 0.05  # work that may wait in line in one process
SHORT_S: Final = 0.005  # a longer job gains nothing: the wait for the network is a trifle beside it
WORTH_A_SLOT_S: Final = 0.001  # less work is done before a further thread has woken for it
MOST_AT_ONCE: Final = 100  # jobs per take: a script holds the server for a millisecond or so
MOST_AHEAD: Final = 200
_SHORTEST_S: Final = 1e-6
_MOST_BYTES: Final = 4_000_000  # payloads in line
_QUICK: Final = 0.5  # how much a job weighs that took longer than those before it
_SLOW: Final = 0.125  # and one that did not: after a long job some twenty short ones must follow


class Pace:
    """What one queue's jobs were like lately. Threads may overwrite each other: it is an estimate.

    ``run_s``: the moving average of their run times; None before the first one.
    """

    def __init__(self) -> None:
        self.run_s: float | None = None
        self._told_s = 0.0
        self._bytes = 0.0

    def ran(self, run_s: float, payload_bytes: int) -> None:
        """Learn from a run."""
        before_s = self.run_s
        if before_s is None:
            self.run_s, self._bytes = run_s, float(payload_bytes)
            return
        self.run_s = _nearer(before_s, run_s)
        self._bytes += _SLOW * (payload_bytes - self._bytes)

    def told(self, told_s: float) -> None:
        """Learn for how long a slot was kept by what was told of a job's end."""
        self._told_s = _nearer(self._told_s, told_s)

    @property
    def is_short(self) -> bool:
        """Whether its jobs may wait in line."""
        return self.run_s is not None and self.expected_s() <= SHORT_S

    def expected_s(self) -> float:
        """Return for how long the next one will probably keep its slot; ``BUFFER_S`` if unknown."""
        return BUFFER_S if self.run_s is None else self.run_s + self._told_s

    def ahead(self, budget_s: float) -> int:
        """Return how many jobs may be taken beyond those that can start, for so much work."""
        if not self.is_short:
            return 0
        work = budget_s / max(self.expected_s(), _SHORTEST_S)
        return int(min(work, _MOST_BYTES / max(self._bytes, 1.0), MOST_AHEAD))


def _nearer(before_s: float, now_s: float) -> float:
    weight = _QUICK if now_s > before_s else _SLOW
    return before_s + weight * (now_s - before_s)
