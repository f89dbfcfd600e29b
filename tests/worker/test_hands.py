"""How many slots are at work at once: what the worker learns from jobs that it pretends to run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from emq_django.worker.hands import SPAN_S, Hands


@dataclass
class Machine:
    """Runs jobs in pretended time. ``speed`` tells jobs per second and cost per job by hands."""

    most: int
    speed: Callable[[int], tuple[float, float]]
    now_s: float = 100.0
    used_s: float = 5.0
    done: int = 0
    first: int = 1
    counts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.hands = Hands(self.most, clock=lambda: self.now_s, processor=lambda: self.used_s)

    def run(self, looks: int) -> int:
        """Let so many looks pass; return how many hands most of the last ones had."""
        self.counts.clear()
        for _ in range(looks):
            count = self.hands.count(self.done, self.first)
            rate, cost_s = self.speed(count)
            jobs = math.ceil(rate * SPAN_S * 1.01)
            self.now_s += jobs / rate
            self.used_s += jobs * cost_s
            self.done += jobs
            self.counts.append(count)
        last = self.counts[-looks // 4 :]
        return max(set(last), key=last.count)


def keeps_the_interpreter_busy(hands: int) -> tuple[float, float]:
    cost_s = 200e-6 * (1 + 0.1 * math.log2(hands))
    return 1 / cost_s, cost_s


def waits(hands: int) -> tuple[float, float]:
    cost_s = 100e-6 * (1 + 1 / hands)
    return min(hands / (1e-3 + cost_s), 1 / cost_s), cost_s


@pytest.mark.parametrize("most", [2, 3, 8, 64])
def test_one_is_left_where_jobs_keep_the_interpreter_busy(most: int) -> None:
    assert Machine(most, keeps_the_interpreter_busy).run(400) == 1


@pytest.mark.parametrize("most", [1, 2, 3, 8])
def test_all_work_where_jobs_wait(most: int) -> None:
    machine = Machine(most, waits)
    assert machine.run(400) == most
    assert machine.counts.count(most) > 360  # trials are rare


def test_one_begins_and_all_are_at_work_soon_where_jobs_wait() -> None:
    machine = Machine(8, waits)

    machine.run(6)

    assert machine.counts == [1, 1, 2, 4, 8, 8]


def test_as_many_begin_as_are_asked_for_and_only_the_first_time() -> None:
    hands = Hands(8, clock=lambda: 0.0, processor=lambda: 0.0)

    assert [hands.count(0, first) for first in (5, 1, 8)] == [5, 5, 5]
    assert Machine(8, keeps_the_interpreter_busy, first=8).run(400) == 1


def test_all_come_back_when_jobs_begin_to_wait() -> None:
    machine = Machine(8, keeps_the_interpreter_busy)
    assert machine.run(400) == 1

    machine.speed = waits

    assert machine.run(400) == 8


def test_a_machine_that_is_faster_or_slower_for_a_while_changes_nothing() -> None:
    machine = Machine(8, waits)

    def by_turns(hands: int) -> tuple[float, float]:
        rate, cost_s = waits(hands)
        return rate * (3 if len(machine.counts) % 5 < 2 else 0.5), cost_s

    machine.speed = by_turns

    assert machine.run(400) == 8


def test_a_look_lasts_until_it_has_seen_enough_jobs() -> None:
    hands = Hands(8, clock=iter(range(1_000)).__next__, processor=lambda: 0.0)
    assert {hands.count(0, 1) for _ in range(100)} == {1}
    assert {hands.count(done, 1) for done in range(19)} == {1}

    counts = [hands.count(done, 1) for done in range(19, 61)]

    assert counts.index(2) + 19 == 40  # the third look is a trial


def test_a_trial_ends_where_less_waits_than_there_are_hands_for() -> None:
    machine = Machine(8, waits)
    while machine.hands.count(machine.done, 1) == 1:
        machine.run(1)

    machine.hands.rest()

    assert machine.hands.count(machine.done, 1) == 1
