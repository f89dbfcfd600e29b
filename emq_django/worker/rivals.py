"""When to ask for a job of which many worker trees have heard. Pure decisions, no I/O.

All trees of a queue hear of a new job in the same moment. Would all ask for it, 64 trees made 64
trips for one job. So the tree that won the last race asks at once, and the others leave it a head
start and then come one after the other, in an order that is drawn each time. Whoever takes the job
changes the queue again, which is heard as well: a second change soon after the first says that most
likely there is nothing left to take. Most likely, not certainly (it may have been another job, and
the quick tree is busy), so a few of them ask nevertheless; and each tree looks at its queues once a
second whatever it heard, which of many trees is often.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from emq_django.worker.pauses import jitter

_HEAD_START_S: Final = 0.005  # what the quick one needs for its take to be heard of by the others
_PER_TREE_S: Final = 0.002  # then one more asks every so often, until the take is heard of
_LONGEST_S: Final = 0.25
# Within this a process that hears of a job for itself, or that has just taken one, has asked
# (again), and said what came of it.
_OWN_S: Final = 0.003
_ECHO_S: Final = 0.1  # a take's own change is heard within this time, also on a busy machine
_FEW: Final = 3


class Rivals:
    """What one tree does about changes. ``others`` is how many more trees serve its queues."""

    def __init__(self, uniform: Callable[[float, float], float] = jitter) -> None:
        self.others = 0
        self.has_lookout = False  # a process of this tree hears of new jobs itself
        self._uniform = uniform
        self._leads = False
        self._ask_at_s = math.inf
        self._heard_s = -math.inf
        self._known_s = -math.inf  # up to when what is known came to be
        self._won_s = -math.inf

    def changed(self, now_s: float, *, overheard: bool = False) -> None:
        """Hear that jobs came, or went. ``overheard``: a lookout has heard of it, and goes."""
        is_echo = now_s - self._heard_s < _ECHO_S
        self._heard_s = self._known_s = now_s
        if self._ask_at_s <= now_s:
            return  # asked for as soon as somebody is free
        if self.is_quick() or not is_echo:
            hold_back_s = _OWN_S if overheard and self.has_lookout else 0.0
            self._ask_at_s = min(self._ask_at_s, now_s + max(hold_back_s, self.hold_back_s()))
        elif self.is_one_of_few():
            self._ask_at_s = now_s + self._after_head_start_s(min(self.others, _FEW))
        else:
            self._ask_at_s = math.inf

    def seen(self, now_s: float) -> None:
        """Know that there was something to take: ask now."""
        self._known_s = now_s
        self.told(now_s)

    def told(self, now_s: float) -> None:
        """Hear from one of this tree that it left something: ask now, unless somebody has."""
        self._ask_at_s = min(self._ask_at_s, now_s)

    def ask_at_s(self) -> float:
        """Return when to ask next; infinity for not before something changes."""
        return self._ask_at_s

    def took(self, now_s: float) -> None:
        """Hear that one of this tree took something, and asks again soon if it can.

        What was heard up to now may have been that, and the change that the take itself made.
        """
        if self._ask_at_s < now_s + _OWN_S:
            self._ask_at_s = now_s + _OWN_S

    def asked(self) -> None:
        """Note that somebody of this tree goes and asks."""
        self._ask_at_s = math.inf

    def won(self, now_s: float) -> None:
        """Note that they found something: this tree is quick enough to ask first next time."""
        self._leads = True
        self._won_s = now_s

    def lost(self, now_s: float) -> None:
        """Note that there was nothing left: another tree is quicker.

        Unless this tree has just won. Then it was most likely its own take that it heard of.
        """
        if now_s - self._won_s > _ECHO_S:
            self._leads = False

    def empty(self, asked_s: float, now_s: float) -> None:
        """Note that nothing was there when it was asked for at ``asked_s``, whoever asked."""
        if self._known_s <= asked_s:
            self._ask_at_s = math.inf
        elif self._ask_at_s == math.inf:
            self._ask_at_s = now_s + self.hold_back_s()

    def is_quick(self) -> bool:
        """Tell whether this tree need not wait for others: it won the last race, or is alone."""
        return self._leads or not self.others

    def is_one_of_few(self) -> bool:
        """Draw whether this tree does what not all need to do, but some should."""
        return self._uniform(0, self.others) < _FEW

    def hold_back_s(self) -> float:
        """Return for how long to leave to others what all trees have reason to do now."""
        return 0.0 if self.is_quick() else self._after_head_start_s(self.others)

    def _after_head_start_s(self, trees: int) -> float:
        spread_s = min(trees * _PER_TREE_S, _LONGEST_S)
        return min(_HEAD_START_S, spread_s) + self._uniform(0.0, spread_s)
