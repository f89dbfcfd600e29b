"""A job that runs is asked to end: it learns of it in time, and nobody runs it again."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from emq_django import control
from emq_django.conf import keys
from emq_django.errors import WireError
from emq_django.protocol.operate import Cancelled
from emq_django.worker.cancels import Cancels
from emq_django.worker.link import Link
from emq_django.worker.options import QueueOptions
from emq_django.worker.sources import Source
from emq_django.worker.table import Region, Table
from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.worker.processes import Bench

LANE = "USR0KHTOWnGLuC"
TREES = [("--concurrency", "2"), ("--processes", "2", "--concurrency", "1")]


@pytest.fixture
def asked_for(bench: Bench) -> Bench:
    bench.handler = "tests.worker.zoo.until_cancelled"
    bench.settings = {"LEASE_MS": 3_000, "MAX_ATTEMPTS": 5, "BACKOFF_BASE_MS": 0}
    return bench


@pytest.mark.parametrize("tree", TREES, ids=["process", "tree"])
@pytest.mark.parametrize("lane", [None, LANE])
def test_a_job_that_gives_in_is_dead_at_once_and_its_neighbour_runs_on(
    asked_for: Bench, tree: tuple[str, ...], lane: str | None
) -> None:
    bench = asked_for
    bench.start(*tree)
    job, other = bench.add(lane=lane), bench.add()
    bench.started(2)

    assert control.cancel(bench.queue, [job]) == [Cancelled.ASKED]

    until(lambda: bench.held_by(job) == "dead", "it has ended")
    error = bench.field(job, "last_error") or ""
    assert error.startswith("emq_django.worker.outcomes.JobCancelled: its end was asked for\n")
    assert bench.field(job, "cancel") is None
    assert bench.ledger.count("start") == {job: 1, other: 1}
    assert bench.held_by(other) == "active"
    assert bench.ledger.count("asked") == {job: 1}


def test_a_job_that_goes_on_ends_as_usual(asked_for: Bench) -> None:
    bench = asked_for
    bench.start()
    job = bench.add(then="go on")
    bench.started()

    control.cancel(bench.queue, [job])

    until(lambda: bench.row(job) is None, "it has completed")
    assert bench.ledger.count("end") == {job: 1}


def test_a_job_that_fails_when_it_is_asked_has_no_further_try(asked_for: Bench) -> None:
    bench = asked_for
    bench.start()
    job = bench.add(then="fail")
    bench.started()

    control.cancel(bench.queue, [job])

    until(lambda: bench.held_by(job) == "dead", "it has ended")
    assert (bench.field(job, "last_error") or "").startswith("ValueError: broken off")
    assert bench.field(job, "failures") == "1"


@pytest.mark.parametrize("tree", TREES, ids=["process", "tree"])
def test_a_job_whose_worker_is_lost_after_the_request_is_not_run_again(
    asked_for: Bench, tree: tuple[str, ...]
) -> None:
    bench = asked_for
    bench.handler = "tests.worker.zoo.work"
    worker = bench.start(*tree)
    job = bench.add(sleep_s=60)
    bench.started()
    assert control.cancel(bench.queue, [job]) == [Cancelled.ASKED]

    (start,) = bench.ledger.notes("start")
    os.kill(start.pid, signal.SIGKILL)
    if start.pid == worker.process.pid:
        bench.start(*tree)

    until(lambda: bench.held_by(job) == "dead", "it has ended")
    assert bench.field(job, "last_error") == "cancelled: asked to end while a worker ran it"
    assert bench.ledger.count("start") == {job: 1}


# What it costs


class _NoWire:
    def run(self, call: object, timeout_s: float | None = None) -> object:
        raise AssertionError("nothing is sent")

    run_many = run


@pytest.fixture
def region() -> Region:
    return Table(1, 2_000).region(0)


def _source(name: str) -> Source:
    return Source(QueueOptions(keys=keys(name), handler=lambda _: None), Link(_NoWire()))  # type: ignore[arg-type]


def _start(region: Region, job_id: str, queue: int = 0) -> int:
    place = region.hold(queue, job_id, 7, 0, 30_000, time.monotonic() + 30)
    region.started(place)
    return place


def _in_a_second() -> float:
    return time.monotonic() + 1


def test_nothing_is_asked_while_nothing_has_run_for_long(region: Region) -> None:
    source = _source("a")
    region.hold(0, "JOB00000000001", 7, 0, 30_000, time.monotonic() + 30)
    assert Cancels([source], lambda: [region], _in_a_second).questions([source]) == []

    _start(region, "JOB00000000002")

    assert Cancels([source], lambda: [region], time.monotonic).questions([source]) == []


def test_each_queue_is_asked_once_about_its_own_jobs(region: Region) -> None:
    first, second = _source("a"), _source("b")
    _start(region, "JOB00000000001")
    _start(region, "JOB00000000002", queue=1)
    cancels = Cancels([first, second], lambda: [region], _in_a_second)

    (question,) = cancels.questions([second])

    assert question.call.args == (b"JOB00000000002", 7)
    assert question.call.keys == (keys("b").base,)
    assert len(cancels.questions([first, second])) == 2


def test_no_question_is_larger_than_a_script_may_take(region: Region) -> None:
    source = _source("a")
    for number in range(1_001):
        _start(region, f"JOB{number:011}")

    questions = Cancels([source], lambda: [region], _in_a_second).questions([source])

    assert [len(one.call.args) for one in questions] == [2_000, 2]


def test_the_answer_reaches_the_run_that_it_is_about(region: Region) -> None:
    source = _source("a")
    place, other = _start(region, "JOB00000000001"), _start(region, "JOB00000000002")
    (question,) = Cancels([source], lambda: [region], _in_a_second).questions([source])

    question.answered(WireError("away"))
    assert not region.is_asked_to_end(place, "JOB00000000001", 7)
    question.answered(["JOB00000000001"])

    assert region.is_asked_to_end(place, "JOB00000000001", 7)
    assert not region.is_asked_to_end(place, "JOB00000000001", 8)
    assert not region.is_asked_to_end(other, "JOB00000000002", 7)
    assert not region.is_asked_to_end(-1, "JOB00000000001", 7)
    region.drop(place)
    assert _start(region, "JOB00000000003") == place
    assert not region.is_asked_to_end(place, "JOB00000000003", 7)
    question.answered(["JOB00000000001"])  # comes late: the place is another job's by now
    assert not region.is_asked_to_end(place, "JOB00000000003", 7)
