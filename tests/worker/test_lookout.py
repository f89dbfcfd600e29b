"""A child that hears of jobs for itself: when it does, and that nothing depends on it."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redis.exceptions import ResponseError

from emq_django.conf import keys
from emq_django.connections import hearing_clients
from emq_django.worker.lookout import Lookout
from emq_django.worker.table import Table
from tests.worker.processes import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import redis

    from emq_django.worker.table import Region
    from tests.worker.processes import Bench

LONG_S = 60.0


class Ear:
    """Stands in for a hearing client, each on a server of its own."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.hears = True
        self.refusal = ""
        self.open = True
        self.asked: list[Any] = []
        self.coming: list[Any] = []  # what a read finds; an error is raised once
        self._answers: list[Any] = []

    def fileno(self) -> int:
        return self.number if self.open else -1

    def heard(self) -> list[bytes]:
        coming, self.coming = self.coming, []
        changes = []
        for one in coming:
            if one == "cut":
                self.open = False
                raise ConnectionError(one)
            if isinstance(one, bytes):
                changes.append(one)
            else:
                self._answers.append(one)
        return changes

    def ask(self, commands: Sequence[Any]) -> None:
        self.open = True
        self._answers = []
        self.asked.append([command[0] for command in commands])

    def answers(self) -> list[Any]:
        return self._answers

    def close(self) -> None:
        self.open = False


class Place:
    """A lookout with its ears, in a region whose parent has appointed it, and a clock."""

    def __init__(self, region: Region, monkeypatch: pytest.MonkeyPatch) -> None:
        self.region = region
        self.ears = [Ear(7), Ear(8)]
        self.found = 0
        self.now_s = 1_000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        self.lookout = Lookout(self._find, [keys("one"), keys("two")], region)
        region.appoint(True)

    def _find(self, queues: Sequence[Any]) -> Any:
        self.found += 1
        return [(ear, queues) for ear in self.ears]

    def sockets(self, wait_s: float = LONG_S) -> list[int]:
        return self.lookout.watch(wait_s)[0]

    def answered(self, *answers: Any) -> bool:
        """Have answers come, two by each server; tell whether that was a change."""
        for ear in self.ears:
            ear.coming += answers or [0, 0]
        return self.lookout.has_heard()

    def hears(self) -> None:
        """Get as far as to hear."""
        assert self.sockets() == [7, 8]
        assert not self.answered()
        assert self.region.is_hearing()

    def asked(self) -> int:
        return len(self.ears[0].asked)

    def rest_s(self) -> float:
        """Return for how long it waits to be woken."""
        sockets, at_most_s = self.lookout.watch(LONG_S)
        return 0.0 if sockets else at_most_s


@pytest.fixture
def region() -> Iterator[Region]:
    table = Table(1, 1)
    yield table.region(0)
    table.close()


@pytest.fixture
def place(region: Region, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(region, monkeypatch)


def test_it_asks_all_servers_and_does_not_wait_for_their_answers(place: Place) -> None:
    assert place.lookout.watch(LONG_S) == ([7, 8], 0.5)
    assert [ear.asked for ear in place.ears] == [[["EXISTS", "EXISTS"]]] * 2
    assert not place.region.is_hearing()

    assert not place.answered(0)  # one of two
    assert place.lookout.watch(LONG_S) == ([7, 8], 0.5)
    assert not place.answered(0)

    assert place.lookout.watch(LONG_S) == ([7, 8], LONG_S)
    assert place.region.is_hearing()
    assert place.lookout.has_heard()  # what comes now is a change, and is not even read


def test_a_change_that_comes_before_the_answers_is_one(place: Place) -> None:
    place.sockets()

    assert place.answered(b"pending")


def test_one_that_has_heard_nothing_need_not_ask_again(place: Place) -> None:
    place.hears()

    assert not place.lookout.took(0, heard=False)

    assert place.sockets() == [7, 8]
    assert (place.asked(), place.found) == (1, 1)


@pytest.mark.parametrize("heard", [True, False])
def test_after_a_take_that_brought_something_it_asks_anew_once_it_is_quiet(
    place: Place, *, heard: bool
) -> None:
    place.hears()

    assert not place.lookout.took(1, heard=heard)

    assert not place.region.is_hearing()
    assert place.rest_s() == pytest.approx(0.01)
    place.now_s += 0.02
    place.ears[0].coming = [b"pending"]  # its own take: old news
    place.hears()
    assert (place.asked(), place.found) == (2, 1)


def test_an_answer_that_is_still_to_come_is_never_taken_for_a_later_one(place: Place) -> None:
    place.sockets()

    place.lookout.took(1, heard=False)

    assert not any(ear.open for ear in place.ears)
    place.now_s += 0.02
    place.hears()


def test_nobody_listens_who_was_not_appointed_or_waits_for_a_moment_only(place: Place) -> None:
    assert place.lookout.watch(0.1) == ([], 0.1)
    place.region.appoint(False)
    assert place.lookout.watch(LONG_S) == ([], 1.0)
    assert not place.lookout.has_heard()
    assert (place.found, place.region.is_hearing()) == (0, False)

    place.region.appoint(True)  # while it waits
    place.hears()


def test_who_comes_too_late_leaves_it_to_the_parent_for_a_while(place: Place) -> None:
    rests_s = []
    for _ in range(8):
        place.hears()
        place.ears[0].coming = [b"pending"]
        assert place.lookout.took(0, heard=True)
        rests_s.append(place.rest_s())
        place.now_s += rests_s[-1]

    assert rests_s == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])
    place.hears()
    place.lookout.took(1, heard=True)
    place.now_s += 0.02
    place.hears()
    place.ears[0].coming = [b"pending"]
    assert place.lookout.took(0, heard=True)
    assert place.rest_s() == pytest.approx(0.1)  # the shortest again


def test_a_connection_that_was_cut_is_not_another_ones_job(place: Place) -> None:
    place.hears()
    place.ears[1].coming = ["cut"]
    assert place.lookout.has_heard()

    assert not place.lookout.took(0, heard=True)

    assert not any(ear.open for ear in place.ears)
    assert place.rest_s() == pytest.approx(0.1)
    place.now_s += 0.2
    place.hears()
    assert place.found == 2  # the servers may be others by now


@pytest.mark.parametrize("wrong", ["refused", "moved", "silent", "cut"])
def test_whatever_goes_wrong_it_waits_to_be_woken_and_tries_again_later(
    place: Place, wrong: str
) -> None:
    ear = place.ears[1]
    if wrong == "refused":
        ear.hears, ear.refusal = False, "NOPERM"
    waits = place.sockets()
    if wrong == "moved":
        assert not place.answered(0, ResponseError("MOVED"))
    elif wrong == "silent":
        place.now_s += 0.5
        assert not place.answered(0)
    elif wrong == "cut":
        ear.coming = ["cut"]
        assert not place.lookout.has_heard()

    assert bool(waits) == (wrong != "refused")
    assert not place.region.is_hearing()
    assert not any(ear.open for ear in place.ears)
    assert place.rest_s() == pytest.approx(0.1)
    ear.hears = True
    place.now_s += 0.2
    place.hears()


def ears(redis_client: redis.Redis) -> list[str]:
    """Return the connections that hear of one change of what they have read."""
    listed = redis_client.client_list()
    return [one["id"] for one in listed if "t" in one["flags"] and "B" not in one["flags"]]


def tracked_keys(redis_client: redis.Redis) -> int:
    """Return of how many keys the server will tell who has read them."""
    return int(redis_client.info("stats")["tracking_total_keys"])


needs_proc = pytest.mark.skipif(not Path("/proc").exists(), reason="children are found in /proc")


class Tree:
    """A tree of two. Of its queue's two keys both are waited for, or one is left of before."""

    def __init__(self, bench: Bench, redis_client: redis.Redis) -> None:
        self._redis = redis_client
        self._before = tracked_keys(redis_client)
        self.worker = bench.start("--processes", "2", "--concurrency", "2")
        until(lambda: len(self.worker.incarnations()) == 2, "both children serve")
        self.hears()

    def hears(self) -> None:
        """Wait until a child hears for itself."""
        until(lambda: tracked_keys(self._redis) == self._before + 2, "one hears for itself")


@pytest.fixture
def tree(bench: Bench, redis_client: redis.Redis) -> Tree:
    tree = Tree(bench, redis_client)
    bench.add()
    bench.started()
    until(bench.empty, "the first job ended")
    tree.hears()
    return tree


@needs_proc
def test_a_job_need_not_wait_for_a_parent_that_stands_still(
    bench: Bench, tree: Tree, redis_client: redis.Redis
) -> None:
    tree.hears()
    os.kill(tree.worker.process.pid, signal.SIGSTOP)
    try:
        for number in range(2, 5):
            job_id = bench.add()
            bench.started(number)
            until(bench.empty, f"job {job_id} ended")
            tree.hears()
    finally:
        os.kill(tree.worker.process.pid, signal.SIGCONT)

    assert len({note.pid for note in bench.ledger.notes("start")[1:]}) == 1


def test_it_does_not_count_as_a_tree(queue: str, redis_client: redis.Redis) -> None:
    where = keys(queue)
    ((hears, _),) = hearing_clients([where])
    ((hears_of_reads, _),) = hearing_clients([where], of_reads=True)
    try:
        for ear in (hears, hears_of_reads):
            ear.execute(("PING",), b"")

        assert redis_client.pubsub_numsub(where.trees) == [(where.trees, 1)]
    finally:
        hears.close()
        hears_of_reads.close()


@needs_proc
def test_a_job_need_not_wait_for_a_child_that_has_heard_and_stands_still(
    bench: Bench, tree: Tree, redis_client: redis.Redis
) -> None:
    tree.hears()
    bench.add()
    bench.started(2)
    until(bench.empty, "the job ended")
    tree.hears()
    stands_still = bench.ledger.notes("start")[-1].pid
    os.kill(stands_still, signal.SIGSTOP)
    try:
        bench.add()
        bench.started(3)
    finally:
        os.kill(stands_still, signal.SIGCONT)

    assert bench.ledger.notes("start")[-1].pid != stands_still
    assert set(tree.worker.children()) > {stands_still}


@needs_proc
def test_a_connection_that_hears_may_be_cut_at_any_time(
    bench: Bench, tree: Tree, redis_client: redis.Redis
) -> None:
    for number in range(2, 6):
        tree.hears()
        for one in ears(redis_client):
            redis_client.client_kill_filter(_id=one)
        bench.add()
        bench.started(number)
        until(bench.empty, "the job ended")

    assert tree.worker.process.poll() is None
    assert set(Counter(note.id for note in bench.ledger.notes("end")).values()) == {1}


@needs_proc
def test_jobs_of_a_paused_queue_are_not_run_after(
    bench: Bench, tree: Tree, redis_client: redis.Redis
) -> None:
    tree.hears()
    redis_client.hset(keys(bench.queue).meta, "paused", "1")
    before = scripts_run(redis_client)
    until_s = time.monotonic() + 1.5
    added = 0
    while time.monotonic() < until_s:
        bench.add()
        added += 1

    asked = scripts_run(redis_client) - before - added
    redis_client.hdel(keys(bench.queue).meta, "paused")
    until(bench.empty, "all ended")

    assert added > 100
    assert asked < added / 4


def scripts_run(redis_client: redis.Redis) -> int:
    return int(redis_client.info("commandstats")["cmdstat_evalsha"]["calls"])
