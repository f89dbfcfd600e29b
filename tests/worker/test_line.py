"""The line before the slots, the pace of a queue and who is asked for more: no server."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.conf import keys
from emq_django.protocol.records import ClaimedJob, Taken
from emq_django.worker.link import Link
from emq_django.worker.options import QueueOptions
from emq_django.worker.pace import BUFFER_S, MOST_AHEAD, MOST_AT_ONCE, SHORT_S, Pace
from emq_django.worker.slots import Slots
from emq_django.worker.sources import Source, Sources
from tests.worker import zoo
from tests.worker.processes import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emq_django.worker.options import Order


def paced(*runs_s: float, payload_bytes: int = 10) -> Pace:
    pace = Pace()
    for run_s in runs_s:
        pace.ran(run_s, payload_bytes)
    return pace


def test_nothing_is_taken_ahead_before_a_run_was_measured() -> None:
    assert Pace().ahead(BUFFER_S) == 0
    assert Pace().expected_s() == BUFFER_S


@pytest.mark.parametrize(
    ("run_s", "ahead"),
    [(0.0, MOST_AHEAD), (0.00001, MOST_AHEAD), (0.001, 50), (0.004, 12), (0.006, 0)],
)
def test_no_more_than_a_moments_work_is_taken_ahead(run_s: float, ahead: int) -> None:
    assert abs(paced(run_s).ahead(BUFFER_S) - ahead) <= 1
    assert paced(run_s).ahead(0.0) == 0


def test_one_long_job_ends_the_taking_ahead_until_many_short_ones_came() -> None:
    pace = paced(*[0.0001] * 50)
    assert pace.ahead(BUFFER_S)

    pace.ran(0.1, 10)
    assert pace.ahead(BUFFER_S) == 0

    short = 0
    while not pace.ahead(BUFFER_S):
        pace.ran(0.0001, 10)
        short += 1
    assert 10 < short < 40


def test_jobs_whose_end_is_told_at_length_may_not_wait_in_line() -> None:
    pace = paced(*[0.0001] * 50)
    for _ in range(20):
        pace.told(2 * SHORT_S)

    assert pace.ahead(BUFFER_S) == 0
    assert pace.expected_s() > SHORT_S


def test_large_payloads_are_not_piled_up() -> None:
    assert paced(0.0001, payload_bytes=1_000_000).ahead(BUFFER_S) == 4
    assert paced(0.0001, payload_bytes=100_000_000).ahead(BUFFER_S) == 0


class Crowd:
    """Slots whose work waits for a gate, and what they did."""

    def __init__(self, count: int) -> None:
        self.gate = threading.Event()
        self.begun: list[str] = []
        self.rings = 0
        self.ended_threads = 0
        self.slots: Slots[str] = Slots(
            count, self._work, on_free=self._ring, thread_ends=self._thread_ends
        )

    def _work(self, item: str) -> None:
        self.begun.append(item)
        if item.startswith("bad"):
            raise SystemExit
        if item.startswith("long"):
            self.gate.wait(20)

    def _ring(self) -> None:
        self.rings += 1

    def _thread_ends(self) -> None:
        self.ended_threads += 1


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    crowd = Crowd(2)
    yield crowd
    crowd.gate.set()
    crowd.slots.close()


def test_nothing_waits_behind_a_long_one_while_a_slot_is_free(crowd: Crowd) -> None:
    crowd.slots.submit(["long", *map(str, range(20))])

    until(lambda: len(crowd.begun) == 21, "the other slot did them all")

    assert (crowd.slots.busy(), crowd.slots.free(), crowd.slots.line()) == (1, 1, [])
    assert crowd.begun == ["long", *map(str, range(20))]


def test_what_is_lent_to_a_slot_is_done_there_and_what_it_submits_begins_there() -> None:
    crowd = Crowd(3)
    threads: list[str] = []

    def turn() -> None:
        threads.append(threading.current_thread().name)
        crowd.slots.submit(["a"])

    crowd.slots.lend(turn)
    until(lambda: crowd.begun == ["a"] and crowd.slots.is_idle(), "it was done")
    crowd.slots.lend(turn)
    until(lambda: crowd.begun == ["a", "a"] and crowd.slots.is_idle(), "and once more")

    assert threads == ["emq-slot-1"] * 2
    assert [thread.name for thread in crowd.slots._threads] == ["emq-slot-1"]
    crowd.slots.close()


def test_more_that_is_submitted_on_a_lent_slot_has_others_woken(crowd: Crowd) -> None:
    crowd.slots.lend(lambda: crowd.slots.submit(["long", "long", "after"]))

    until(lambda: crowd.begun == ["long", "long"], "both began")
    assert (crowd.slots.free(), crowd.slots.line()) == (0, ["after"])


def test_a_trifle_submitted_after_a_long_wait_on_a_lent_slot_wakes_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crowd = Crowd(3)
    crowd.slots.submit(["a", "b", "c"])
    until(lambda: len(crowd.begun) == 3 and crowd.slots.is_idle(), "all threads are there")
    woken: list[int] = []

    def turn() -> None:
        time.sleep(0.02)  # what takes so long is not at hand any more, but this only waited
        with monkeypatch.context() as patch:
            patch.setattr(crowd.slots, "_summon", woken.append)
            crowd.slots.submit(["d", "e"], hands=1)

    crowd.slots.lend(turn)
    until(lambda: len(crowd.begun) == 5 and crowd.slots.is_idle(), "one did both")

    assert woken == [0]
    crowd.slots.close()


def test_a_slot_that_is_lent_counts_as_free_and_what_it_raises_comes_back(crowd: Crowd) -> None:
    free: list[int] = []
    crowd.slots.lend(lambda: free.append(crowd.slots.free()))
    with pytest.raises(ZeroDivisionError):
        crowd.slots.lend(lambda: [1 // 0 for _ in "x"].clear())

    crowd.slots.submit(["still at work"])

    until(lambda: crowd.begun == ["still at work"], "no slot is lost")
    assert free == [2]


def test_a_trifle_wakes_one_slot_and_what_stands_still_behind_it_the_others() -> None:
    crowd = Crowd(3)
    crowd.slots.submit(["long", "a", "b"], hands=1)
    until(lambda: crowd.begun == ["long"], "one slot was woken, and keeps at it")
    crowd.slots.submit(["c"], hands=1)
    assert (crowd.slots.busy(), crowd.slots.line()) == (1, ["a", "b", "c"])

    crowd.slots.spread(still_s=60)
    assert crowd.slots.line() == ["a", "b", "c"]
    crowd.slots.spread(still_s=0)
    until(lambda: not crowd.slots.line() and crowd.slots.busy() == 1, "the others did the rest")

    assert sorted(crowd.begun) == ["a", "b", "c", "long"]
    crowd.gate.set()
    crowd.slots.close()


def test_a_slot_is_woken_for_more_although_another_was_for_less() -> None:
    crowd = Crowd(3)
    crowd.slots.submit(["long 1"], hands=1)
    until(lambda: crowd.slots.busy() == 1, "it runs")
    crowd.slots.submit(["long 2", "long 3"], hands=50)
    until(lambda: crowd.slots.busy() == 3, "all run")
    crowd.gate.set()
    crowd.slots.close()


def test_slots_are_woken_for_what_a_few_left_in_line_too() -> None:
    crowd = Crowd(3)
    crowd.slots.submit(["long 1", "long 2", "a"], hands=1)
    until(lambda: crowd.begun == ["long 1"], "one slot was woken, and keeps at it")

    crowd.slots.submit(["b"])

    until(lambda: sorted(crowd.begun) == ["a", "b", "long 1", "long 2"], "two more were woken")
    crowd.gate.set()
    crowd.slots.close()


def test_what_is_worth_no_slot_has_one() -> None:
    crowd = Crowd(1)
    crowd.slots.submit(["a"], hands=0)
    until(lambda: crowd.begun == ["a"], "nobody had to look")
    crowd.slots.close()


def test_whoever_is_told_that_something_runs_hears_of_its_end() -> None:
    rings, gate = threading.Semaphore(0), threading.Event()
    ran_on: list[int] = []

    def wait_at_the_gate() -> None:
        gate.wait(20)

    slots: Slots[str] = Slots(
        1,
        lambda _: ran_on.append(threading.get_ident()),
        on_free=rings.release,
        thread_ends=lambda: None,
    )
    slots.submit(["a"])
    assert rings.acquire(timeout=20)
    slots.follow_up(ran_on[0], wait_at_the_gate)
    slots.wake()

    assert not slots.is_idle()
    gate.set()

    assert rings.acquire(timeout=20)
    assert slots.is_idle()
    slots.close()


def test_a_slot_that_wakes_for_a_follow_up_is_a_hand() -> None:
    """However long it slept before: no second one is woken for what comes with it."""
    crowd = Crowd(2)
    crowd.slots.submit(["a"])
    until(lambda: crowd.rings == 1, "done")
    (thread_id,) = crowd.slots._places
    until(lambda: time.monotonic() - crowd.slots._places[thread_id].began_s > 0.05, "it slept")

    crowd.slots.follow_up(thread_id, lambda: None)
    crowd.slots.submit(["b"], hands=1)
    until(lambda: crowd.begun == ["a", "b"] and crowd.slots.is_idle(), "both were done")

    crowd.slots.close()
    assert crowd.ended_threads == 1


def test_what_has_not_begun_can_be_recalled(crowd: Crowd) -> None:
    crowd.slots.submit(["long 1", "long 2", "a", "b"])
    until(lambda: crowd.slots.busy() == 2, "both run")
    assert crowd.slots.free() == 0
    until(lambda: crowd.slots.still_s() > 0.01, "the line stands still")

    assert crowd.slots.recall() == ["a", "b"]

    assert crowd.slots.still_s() == 0.0
    assert not crowd.slots.is_idle()
    crowd.gate.set()
    until(crowd.slots.is_idle, "both have ended")
    assert sorted(crowd.begun) == ["long 1", "long 2"]


def test_a_fault_in_the_work_takes_no_slot_away(crowd: Crowd) -> None:
    crowd.slots.submit(["bad 1", "bad 2", "bad 3", "a", "b"])

    until(lambda: len(crowd.begun) == 5 and crowd.slots.is_idle(), "all were done")

    assert crowd.slots.free() == 2


def test_the_bell_rings_at_the_low_mark_and_when_nothing_is_left() -> None:
    crowd = Crowd(1)
    crowd.slots.low_mark = 2
    crowd.slots.submit(["a", "b", "c", "d", "e"])

    until(crowd.slots.is_idle, "all were done")
    until(lambda: crowd.rings == 2, "at the mark, and at the end")

    crowd.slots.close()
    assert crowd.ended_threads == 1


def test_what_follows_up_is_done_by_the_slot_that_did_the_work_before_what_is_in_line() -> None:
    done: list[tuple[str, int]] = []
    rings: list[int] = []

    def work(item: str) -> None:
        done.append((item, threading.get_ident()))
        if item == "first":
            slots.follow_up(threading.get_ident(), lambda: work("told of the first"))

    slots: Slots[str] = Slots(1, work, on_free=lambda: rings.append(1), thread_ends=lambda: None)
    slots.submit(["first", "second"])
    until(lambda: rings, "nothing is left to do")
    (thread_id,) = {thread_id for _, thread_id in done}

    slots.follow_up(thread_id, lambda: work("told later"))
    assert slots.busy() == 1
    slots.wake()
    until(lambda: len(done) == 4 and slots.is_idle(), "an idle slot is woken for it")
    slots.close()
    slots.follow_up(thread_id, lambda: work("too late"))

    assert [item for item, _ in done] == ["first", "told of the first", "second", "told later"]
    assert {thread_id for _, thread_id in done} == {thread_id}


def test_who_was_told_that_a_slot_is_busy_hears_when_it_is_not(crowd: Crowd) -> None:
    """And who was not told needs no second ring for the same work."""
    ran_on: list[int] = []
    both, gate = threading.Barrier(2), threading.Event()

    def work(item: str) -> None:
        ran_on.append(threading.get_ident())
        if item == "beside another":
            both.wait(20)

    def wait_at_the_gate() -> None:
        gate.wait(20)

    slots: Slots[str] = Slots(2, work, on_free=crowd._ring, thread_ends=lambda: None)
    slots.submit(["beside another"] * 2)
    until(lambda: crowd.rings == 2, "both are done")

    followed = threading.Event()
    slots.follow_up(ran_on[0], followed.set)
    slots.wake()
    assert followed.wait(20)
    slots.follow_up(ran_on[0], wait_at_the_gate)
    slots.submit(["while a follow-up hangs"])
    until(lambda: crowd.rings == 3, "the other slot did it and is free again")
    assert ran_on[2] == ran_on[1] != ran_on[0]

    assert (slots.busy(), slots.free()) == (1, 1)
    gate.set()
    until(lambda: crowd.rings == 4, "the slot is free again")
    assert slots.is_idle()
    slots.close()


class FakeLink(Link):
    """Answers takes from a store."""

    def __init__(self, store: list[str]) -> None:
        super().__init__(None)  # type: ignore[arg-type]
        self.store = store
        self.limits: list[int] = []

    def run(self, call: Any, timeout_s: float | None = None) -> Any:
        limit = int(call.args[1])
        self.limits.append(limit)
        part, self.store[:] = self.store[:limit], self.store[limit:]
        return Taken([ClaimedJob(one, b"", 1, "q") for one in part], 0)


def sources_with(
    order: Order, *stores: list[str], run_s: float | None = 0.001
) -> tuple[Sources, list[FakeLink]]:
    links = [FakeLink(store) for store in stores]
    sources = [
        Source(QueueOptions(keys=keys(f"q{number}"), handler=zoo.work), link)
        for number, link in enumerate(links)
    ]
    for source in sources:
        source.pace.run_s = run_s
    return Sources(sources, order), links


def test_a_take_asks_for_what_can_begin_and_for_what_may_wait() -> None:
    sources, (link,) = sources_with("strict", [str(one) for one in range(100)])

    haul = sources.take("w", 2, BUFFER_S)

    assert link.limits == [2 + 50]
    assert (len(haul.jobs), haul.asked, haul.is_full) == (52, 52, True)
    assert len(sources.take("w", 100, BUFFER_S).jobs) == 48
    assert link.limits[-1] == MOST_AT_ONCE


def test_no_take_is_sent_for_nothing() -> None:
    sources, (link,) = sources_with("strict", ["a"])

    assert sources.take("w", 0, 0.0).asked == 0

    assert link.limits == []


def test_the_jobs_of_two_queues_take_turns_in_the_line() -> None:
    sources, _ = sources_with("round-robin", ["a1", "a2", "a3"], ["b1", "b2", "b3"])

    haul = sources.take("w", 0, BUFFER_S)

    assert [job.id for _, job in haul.jobs] == ["a1", "b1", "a2", "b2", "a3", "b3"]
    assert not haul.is_full


@pytest.mark.parametrize("run_s", [None, 2 * SHORT_S])
@pytest.mark.parametrize("order", ["strict", "round-robin"])
def test_jobs_of_a_later_queue_do_not_pass_by_one_whose_jobs_may_not_wait(
    order: Order, run_s: float | None
) -> None:
    sources, (first, second) = sources_with(order, ["long"], ["short"])
    sources.all[0].pace.run_s = run_s

    assert sources.take("w", 0, BUFFER_S).asked == 0
    assert (first.limits, second.limits) == ([], [])
    assert [job.id for _, job in sources.take("w", 1, BUFFER_S).jobs] == ["long"]
