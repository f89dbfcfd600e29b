"""How many slots are worth being at work at once, as learned from what they get done.

Python runs one thread at a time. Where jobs keep it busy, each further slot at work makes all of
them wait for each other; where jobs wait for a database or a network, the more the better. Which of
the two it is can't be seen in a job, only in all: so, while more jobs wait than can begin, half as
many hands and twice as many are tried now and then, and kept if more gets done at less cost. Both
must be so, because either alone changes with whatever else the machine does. Trifles begin with
one, longer jobs with all: the former mostly keep it busy, the latter lose more by waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

SPAN_S: Final = 0.025  # of one look
_FEWEST: Final = 20  # jobs in a look that says anything
_BETTER: Final = 1.05  # less may be chance
_SOONEST, _LATEST = 2, 64  # looks between two trials, doubled with each that was in vain


class _Look(NamedTuple):
    """What was done in a while: jobs per second, and seconds of processor per job."""

    rate: float
    cost_s: float

    def beats(self, other: _Look) -> bool:
        return self.rate > _BETTER * other.rate and other.cost_s > _BETTER * self.cost_s


class Hands:
    """Asked whenever jobs begin while more of them wait; ``rest`` says that no more do."""

    def __init__(
        self,
        most: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        processor: Callable[[], float] = time.process_time,
    ) -> None:
        self._most = most
        self._clock = clock
        self._processor = processor
        self._count: int | None = None  # it has not begun
        self._trial: int | None = None  # so many are tried in this look
        self._tries_less = True  # next
        self._pause = _SOONEST
        self._looks_left = _SOONEST
        self._usual = _Look(0.0, 0.0)  # the last look that was no trial
        self._since: tuple[float, float, int] | None = None

    def count(self, done: int, first: int) -> int:
        """Return how many slots are worth it now, ``done`` jobs having been begun so far.

        ``first``: as many as to begin with, the first time.
        """
        if self._most == 1:
            return 1
        if self._count is None:
            self._count = first
        now_s = self._clock()
        if self._since is None:
            self._since = (now_s, self._processor(), done)
        since_s, used_s, before = self._since
        if now_s - since_s >= SPAN_S and (jobs := done - before) >= _FEWEST:
            self._since = (now_s, self._processor(), done)
            self._judge(_Look(jobs / (now_s - since_s), (self._since[1] - used_s) / jobs))
        return self._trial or self._count

    def rest(self) -> None:
        """Forget the look that is going on: from now on there may be less to do than hands."""
        self._since = self._trial = None

    def _judge(self, look: _Look) -> None:
        if self._trial is None:
            self._usual = look
            self._looks_left -= 1
            if self._looks_left <= 0:
                self._trial = self._next_trial()
            return
        if look.beats(self._usual):
            self._count, self._usual, self._pause = self._trial, look, _SOONEST
            self._trial = self._further()  # what helped may help once more
        else:
            self._tries_less = not self._tries_less
            self._pause = min(2 * self._pause, _LATEST)
            self._trial = None
        self._looks_left = self._pause

    def _next_trial(self) -> int | None:
        """Return how many to try: half as many or twice as many, by turns where both can be had."""
        trial = self._further()
        if trial is None:
            self._tries_less = not self._tries_less
            trial = self._further()
        return trial

    def _further(self) -> int | None:
        """Return the next number in the direction that is tried now; None at its end."""
        count = self._count or self._most
        trial = count // 2 if self._tries_less else min(2 * count, self._most)
        return trial if 0 < trial != count else None
