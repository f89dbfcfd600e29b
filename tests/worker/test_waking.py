"""Which child a parent wakes, and which one may hear of jobs for itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.worker import parked
from emq_django.worker.rivals import Rivals
from emq_django.worker.table import Table
from emq_django.worker.waking import Waking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emq_django.worker.table import Region


class Child:
    """Stands in for a child: notes what it is told."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.stopping = False
        self.told: list[bytes] = []

    def tell(self, message: bytes) -> None:
        self.told.append(message)


class Watch:
    """Stands in for the watch of a tree; its rivals are real."""

    def __init__(self) -> None:
        self.rivals = Rivals()
        self.hearing = True
        self.changes = False

    def turn(self, *, idle: bool) -> None:
        del idle
        if self.changes:
            self.changes = False
            self.rivals.changed(time.monotonic(), overheard=True)

    def hears(self) -> bool:
        return self.hearing

    def wants_take(self) -> bool:
        return self.rivals.ask_at_s() <= time.monotonic()

    def next_in_s(self, *, idle: bool) -> float:
        return max(self.rivals.ask_at_s() - time.monotonic(), 0.0) if idle else 60.0

    def work_came(self) -> None:
        self.rivals.won(time.monotonic())


class Tree:
    """A tree of two that wait, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        self.table = Table(2, 1)
        watch: Any = Watch()
        self.watch = watch
        self.waking = Waking(watch)
        self.children: list[Any] = [Child(self.table.region(number)) for number in (0, 1)]
        for child in self.children:
            self.waking.born(child)
            self.says(child, parked.IDLE)
        self.waking.turn()

    def says(self, child: Any, message: bytes) -> None:
        if message == parked.IDLE:
            child.region.asked(self.now_s)  # a take that found nothing
        self.waking.hear(child, message)

    def job_comes(self, in_s: float = 1.0) -> None:
        self.now_s += in_s
        self.watch.changes = True
        self.waking.turn()

    def after(self, seconds: float) -> None:
        self.now_s += seconds
        self.waking.turn()

    def woken(self) -> list[int]:
        return [child.told.count(parked.WAKE) for child in self.children]

    def appointed(self) -> list[bool]:
        return [child.region.is_appointed() for child in self.children]


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tree]:
    tree = Tree(monkeypatch)
    yield tree
    tree.table.close()


def test_the_one_that_became_idle_last_is_woken_and_no_other_until_it_answers(tree: Tree) -> None:
    tree.job_comes()
    tree.job_comes(0.1)

    assert tree.woken() == [0, 1]
    tree.says(tree.children[1], parked.TOOK)
    tree.says(tree.children[1], parked.IDLE)
    tree.after(0.01)
    assert tree.woken() == [0, 1]


@pytest.mark.parametrize("message", [parked.FULL, parked.BUSY])
def test_one_that_leaves_something_has_the_next_one_woken(tree: Tree, message: bytes) -> None:
    tree.job_comes()

    tree.says(tree.children[1], message)
    tree.after(0.0)

    assert tree.woken() == [1, 1]


@pytest.mark.parametrize("how", ["ends", "is silent"])
def test_what_a_child_was_woken_for_is_there_for_another_one(tree: Tree, how: str) -> None:
    tree.job_comes()

    if how == "ends":
        tree.waking.ended(tree.children[1])
        tree.after(0.0)
    else:
        assert tree.waking.next_in_s() == pytest.approx(0.25)
        tree.after(0.26)

    assert tree.woken() == [1, 1]


def test_what_came_beside_a_take_is_there_for_another_one_after_a_moment(tree: Tree) -> None:
    tree.job_comes()
    tree.job_comes(0.0)
    tree.says(tree.children[1], parked.TOOK)

    tree.after(0.0)
    assert tree.woken() == [0, 1]
    tree.after(0.004)
    assert tree.woken() == [1, 1]


def test_the_child_that_took_last_may_hear_for_itself_and_no_other(tree: Tree) -> None:
    assert tree.appointed() == [True, False]  # nobody took yet

    tree.says(tree.children[1], parked.TOOK)
    tree.after(0.0)
    assert tree.appointed() == [False, True]

    tree.waking.ended(tree.children[1])
    assert tree.appointed() == [False, False]
    tree.says(tree.children[0], parked.FULL)
    tree.after(0.0)
    assert tree.appointed() == [True, False]


@pytest.mark.parametrize("why", ["deaf", "not the first", "over"])
def test_nobody_hears_for_itself_where_it_would_not_help(tree: Tree, why: str) -> None:
    if why == "deaf":
        tree.watch.hearing = False
    elif why == "over":
        tree.waking.end()
    else:
        tree.watch.rivals.others = 5

    tree.after(0.0)

    assert tree.appointed() == [False, False]


def test_one_that_hears_for_itself_has_a_moment_before_anybody_is_woken(tree: Tree) -> None:
    tree.children[0].region.hears(True)

    tree.job_comes()
    assert tree.woken() == [0, 0]

    tree.after(0.004)  # it stands still
    assert tree.woken() == [0, 1]


def test_one_that_came_too_late_costs_the_tree_its_lead(tree: Tree) -> None:
    tree.watch.work_came()
    tree.watch.rivals.others = 5
    assert tree.watch.rivals.is_quick()

    tree.now_s += 10
    tree.says(tree.children[0], parked.GONE)

    assert not tree.watch.rivals.is_quick()


def test_nobody_is_woken_who_stops_nor_after_the_end(tree: Tree) -> None:
    tree.children[1].stopping = True
    tree.waking.stops(tree.children[1])
    tree.says(tree.children[1], parked.IDLE)
    assert tree.waking.idle() == 1

    tree.job_comes()
    assert tree.woken() == [1, 0]

    tree.says(tree.children[0], parked.IDLE)
    tree.waking.end()
    tree.job_comes()
    assert tree.woken() == [1, 0]
