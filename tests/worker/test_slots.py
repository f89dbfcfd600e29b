"""Slots in disorder: whatever is submitted, told, recalled and looked at, nothing is forgotten."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import Counter
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import pytest

from emq_django.worker.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STUCK_S = 30  # whatever takes that long never comes
ALWAYS_S = -1.0  # to spread whatever stands in line, for however short a time
STEPS = 60


@pytest.fixture
def hurry() -> Iterator[None]:
    """Have threads take turns far more often than they do by themselves."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before_s)


class Disorder:
    """A main thread that does this and that with its slots, and expects what was promised."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.count = self.random.randint(1, 6)
        self.changed = threading.Condition()
        self.bell = threading.Event()
        self.submitted: list[str] = []
        self.recalled: list[str] = []
        self.begun: list[str] = []
        self.told: list[str] = []
        self.to_be_told: list[str] = []
        self.gates: dict[str, threading.Event] = {}  # of the long ones that are kept
        self.thread_ids: set[int] = set()
        self.ended_threads = 0
        self.needs_look = False
        self.slots: Slots[str] = Slots(
            self.count, self._work, on_free=self.bell.set, thread_ends=self._thread_ends
        )

    def run(self) -> None:
        steps: list[Callable[[], None]] = [
            self.submit, self.submit, self.tell, self.look, self.recall, self.let_go,
            self.lend, self.expect_all_done, self.expect_ring,
        ]  # fmt: skip
        for _ in range(STEPS):
            self.random.choice(steps)()
        self.wind_down()

        assert Counter(self.begun) + Counter(self.recalled) == Counter(self.submitted)
        assert Counter(self.told) == Counter(self.to_be_told)
        assert (self.slots.busy(), self.slots.free(), self.slots.line()) == (0, self.count, [])
        self.slots.close()
        assert self.ended_threads >= len(self.thread_ids)

    def submit(self) -> None:
        items = [self._item() for _ in range(self.random.randint(1, 9))]
        hands = self.random.choice([None, 0, 1, 1, 2, 50])
        self.submitted += items
        self.slots.low_mark = self.random.choice([-1, len(items) // 2])
        self.slots.submit(items, hands)
        self.needs_look = hands is not None and bool(self.gates)

    def lend(self) -> None:
        """Have a slot do what this thread does, while all are idle."""
        self.slots.wake()
        if not self.slots.is_idle():
            return
        act = self.random.choice([self.submit, self.look, self.recall, self.fail])
        with contextlib.suppress(LookupError):
            self.slots.lend(act)
            assert act != self.fail

    def fail(self) -> None:
        raise LookupError

    def tell(self) -> None:
        """Have something followed up on a slot, whatever it does."""
        with self.changed:
            threads = sorted(self.thread_ids)
        if threads:
            name = f"told {len(self.to_be_told)}"
            self.to_be_told.append(name)
            self.slots.follow_up(self.random.choice(threads), partial(self._tell, name))

    def look(self) -> None:
        self.slots.wake()
        self.slots.spread(self.random.choice([ALWAYS_S, 60]))

    def recall(self) -> None:
        self.recalled += self.slots.recall()
        for item in self.recalled:
            self.gates.pop(item, None)

    def let_go(self) -> None:
        if self.gates:
            self.gates.pop(self.random.choice(sorted(self.gates))).set()

    def expect_all_done(self) -> None:
        """Look once, and only where a few hands may be held up: all but what is long is done."""
        self.slots.wake()
        if self.needs_look:
            self.slots.spread(ALWAYS_S)
        self._wait_for(
            lambda: len(self.begun) + len(self.recalled) == len(self.submitted), "all have begun"
        )
        if not self.gates:
            self._wait_for(lambda: len(self.told) == len(self.to_be_told), "all are told")

    def expect_ring(self) -> None:
        """Whoever is told that no slot is free hears of the next one that is."""
        self.slots.wake()
        if not self.slots.line():
            self.bell.clear()
            if self.slots.free() == 0:
                self.let_go()
                assert self.bell.wait(STUCK_S), "a slot is free, and no bell rang"

    def wind_down(self) -> None:
        while self.gates:
            self.let_go()
        self.expect_all_done()
        self.bell.clear()
        while not self.slots.is_idle():
            assert self.bell.wait(STUCK_S), "the last has ended, and no bell rang"
            self.bell.clear()

    def _item(self) -> str:
        kind = self.random.choice(["trifle", "trifle", "bad", "told", "long"])
        item = f"{kind} {len(self.submitted)}.{self.random.random()}"
        if kind == "long":
            if len(self.gates) + 1 >= self.count:  # one slot at least is left for the others
                return item.replace("long", "trifle")
            self.gates[item] = threading.Event()
        return item

    def _work(self, item: str) -> None:
        gate = self.gates.get(item)
        with self.changed:
            self.thread_ids.add(threading.get_ident())
            if item.startswith("told"):
                self.to_be_told.append(item)
                self.slots.follow_up(threading.get_ident(), partial(self._tell, item))
            self.begun.append(item)
            self.changed.notify_all()
        if gate is not None:
            assert gate.wait(STUCK_S)
        if item.startswith("bad"):
            raise SystemExit

    def _tell(self, name: str) -> None:
        with self.changed:
            self.told.append(name)
            self.changed.notify_all()

    def _thread_ends(self) -> None:
        with self.changed:
            self.ended_threads += 1

    def _wait_for(self, holds: Callable[[], bool], what: str) -> None:
        with self.changed:
            assert self.changed.wait_for(holds, STUCK_S), f"never: {what}"


@pytest.mark.usefixtures("hurry")
@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_forgotten_and_nobody_waits_for_a_ring_that_never_comes(seed: int) -> None:
    Disorder(seed).run()
