"""Pauses that grow. Pure arithmetic: nobody sleeps here."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

# Not the global generator: job code that seeds it must not make every process pause in step.
jitter: Final[Callable[[float, float], float]] = random.SystemRandom().uniform


class Pauses:
    """``first_s``, then ``factor`` times the last one, up to ``cap_s``; anew after ``reset``.

    With ``spread`` each pause is drawn between that share of it and the whole, so that many
    processes that lost the same server do not come back in the same moment.
    """

    def __init__(
        self,
        first_s: float,
        cap_s: float,
        *,
        factor: float = 2.0,
        spread: float = 1.0,
        uniform: Callable[[float, float], float] = jitter,
    ) -> None:
        self._first_s = first_s
        self._cap_s = cap_s
        self._factor = factor
        self._spread = spread
        self._uniform = uniform
        self._next_s = min(first_s, cap_s)

    def next_s(self) -> float:
        """Return the pause to make now."""
        pause_s = self._next_s
        self._next_s = min(pause_s * self._factor, self._cap_s)
        return self._uniform(pause_s * self._spread, pause_s)

    def reset(self) -> None:
        """Start again with the shortest pause."""
        self._next_s = min(self._first_s, self._cap_s)
