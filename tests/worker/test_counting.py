"""Each change of a job's state is logged and counted, and the counts reach the server."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from redis.exceptions import MovedError

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.errors import AccessRefused, ReplyLost, ScriptFailed, Unreachable, WireError
from emq_django.protocol import claim, enqueue, ids, metrics, workers
from emq_django.protocol.ids import mint
from emq_django.protocol.records import ClaimedJob
from emq_django.worker import log
from emq_django.worker.beat import Beat, facts_of
from emq_django.worker.cadence import sweep
from emq_django.worker.leases import Lease
from emq_django.worker.link import Link
from emq_django.worker.log import JsonLines
from emq_django.worker.metrics import Reporter, Tally
from emq_django.worker.options import QueueOptions, WorkerOptions
from emq_django.worker.outcomes import Failed, Parked
from emq_django.worker.sources import Source
from tests.worker import zoo
from tests.worker.processes import until

if TYPE_CHECKING:
    from emq_django.protocol.metrics import Figures
    from emq_django.protocol.workers import Facts, WorkerSeen

FAILED = Failed(error="boom", brief="ValueError: boom", delay_ms=70, max_attempts=5)
TASK = b'{"v":1,"task":"shop.tasks.send","args":[],"kwargs":{}}'


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Runner:
    """A wire that goes to the server, or fails as it is told."""

    def __init__(self, queue: str) -> None:
        self._wire = wire_for(keys(queue))
        self.fails_with: Exception | None = None
        self.calls: list[str] = []

    def run(self, call: Any, timeout_s: float | None = None) -> Any:
        self.calls.append(call.script.name)
        if self.fails_with is not None:
            raise self.fails_with
        return self._wire.run(call, timeout_s)

    def run_many(self, calls: Any, timeout_s: float | None = None) -> Any:
        return self._wire.run_many(list(calls), timeout_s)


@pytest.fixture
def runner(queue: str) -> Runner:
    return Runner(queue)


@pytest.fixture
def source(queue: str, runner: Runner) -> Source:
    options = QueueOptions(keys=keys(queue), handler=zoo.work)
    return Source(options, Link(runner))


def lease(source: Source, payload: bytes = b"x", **facts: Any) -> Lease:
    job_id = facts.pop("id", None) or mint.one()
    facts = {"attempts": 1, **facts}
    return Lease(source, ClaimedJob(job_id, payload, queue="emails", **facts), 0.0)


def told(source: Source) -> Figures:
    return wire_for(source.options.keys).run(metrics.history(source.options.keys)).total()


def figures_of(source: Source) -> Figures:
    figures = source.tally.take()
    assert figures is not None
    return figures


def test_the_life_of_a_job_in_figures(source: Source) -> None:
    tells: list[Callable[[Lease], None]] = [
        lambda one: log.completed(one, 5),
        lambda one: log.will_retry(one, 50, FAILED),
        lambda one: log.died(one, 500, FAILED),
    ]
    for tell in tells:
        one = lease(source)
        log.started(one)
        tell(one)
    log.parked_too_long(lease(source), Parked(reason="unknown", delay_ms=1, grace_ms=1))

    figures = figures_of(source)

    assert (figures.started, figures.completed, figures.retried, figures.failed) == (3, 1, 1, 2)
    assert (figures.run.sum_ms, figures.run.count, figures.wait.count) == (555, 3, 3)
    assert source.tally.take() is None


@pytest.mark.parametrize(
    ("facts", "payload", "waits"),
    [
        ({}, b"x", 1),
        ({"attempts": 2}, b"x", 0),
        ({"id": "made up elsewhere"}, b"x", 0),
        ({}, TASK, 1),
        ({}, TASK[:-1] + b',"run_after":1790000000000}', 0),
    ],
)
def test_waiting_is_counted_for_first_runs_that_asked_for_no_time(
    source: Source, facts: dict[str, Any], payload: bytes, waits: int
) -> None:
    log.started(lease(source, payload, **facts))

    assert figures_of(source).wait.count == waits


def test_waiting_is_from_mint_to_start_and_never_negative(source: Source) -> None:
    now_ms = int(time.time() * 1_000)
    log.started(lease(source, id=ids.first_id_at(now_ms - 60_000)))
    assert 60_000 <= figures_of(source).wait.sum_ms < 90_000

    log.started(lease(source, id=ids.first_id_at(now_ms + 60_000)))  # a producer's clock is ahead
    assert figures_of(source).wait.sum_ms == 0


def test_threads_lose_no_count() -> None:
    tally = Tally()

    def count() -> None:
        for _ in range(2_000):
            tally.started(1.0)
            tally.ended("completed", 1.0)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    figures = tally.take()
    assert figures is not None
    assert (figures.started, figures.completed, figures.wait.count) == (8_000, 8_000, 8_000)


def test_figures_reach_the_server_when_it_is_time(source: Source, runner: Runner) -> None:
    clock = Clock()
    reporter = Reporter([source], 5.0, clock)
    log.completed(lease(source), 5)
    reporter.tick()
    assert runner.calls == []
    clock.now_s += 5

    reporter.tick()
    reporter.tick()

    assert runner.calls == ["metrics_flush", "depth_note"]
    assert told(source).completed == 1


def test_how_many_jobs_wait_is_noted_once_a_minute_also_by_an_idle_process(
    source: Source, runner: Runner
) -> None:
    clock = Clock()
    reporter = Reporter([source], 5.0, clock)
    wire_for(source.options.keys).run(enqueue.enqueue(source.options.keys, mint.one(), b"x"))

    for _ in range(25):
        clock.now_s += 5
        reporter.tick()

    assert runner.calls == ["depth_note"] * 3  # after 5, 65 and 125 s
    (depth,) = wire_for(source.options.keys).run(metrics.depths(source.options.keys))[-1:]
    assert (depth.pending, depth.active) == (1, 0)


def test_a_note_that_fails_keeps_nobody(source: Source, runner: Runner) -> None:
    clock = Clock()
    reporter = Reporter([source, source], 5.0, clock)
    runner.fails_with = Unreachable("away")
    clock.now_s += 5

    reporter.tick()

    assert runner.calls == ["depth_note"]  # the second queue does not wait once more


def test_a_process_that_did_nothing_sends_nothing(source: Source, runner: Runner) -> None:
    reporter = Reporter([source])

    reporter.flush()

    assert runner.calls == []


def test_a_reporter_that_stops_sends_the_rest(source: Source) -> None:
    reporter = Reporter([source])
    reporter.start()
    source.tally.lost(3)

    reporter.stop()

    assert told(source).lost == 3


def test_what_an_outage_kept_back_is_sent_later_with_its_time(
    source: Source, runner: Runner
) -> None:
    clock = Clock()
    reporter = Reporter([source], 5.0, clock)
    runner.fails_with = Unreachable("away")
    for _ in range(40):
        source.tally.lost()
        reporter.flush()
        clock.now_s += 5
    runner.fails_with = None

    reporter.flush()

    assert told(source).lost == 40
    stretches = wire_for(source.options.keys).run(metrics.history(source.options.keys)).stretches
    assert len(stretches) > 1


@pytest.mark.parametrize("error", [ReplyLost("perhaps"), ScriptFailed("no"), AccessRefused("no")])
def test_what_may_have_been_counted_or_never_will_be_is_not_sent_for_ever(
    source: Source, runner: Runner, error: Exception
) -> None:
    reporter = Reporter([source])
    runner.fails_with = error
    for _ in range(100):
        source.tally.lost()
        reporter.flush()
    runner.fails_with = None
    runner.calls.clear()

    reporter.flush()

    assert len(runner.calls) <= 24


def record_of(caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    (record,) = caplog.records
    return record


@pytest.fixture
def caught(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "emq_django.worker")
    return caplog


EVENTS: list[tuple[Callable[[Lease], None], str, dict[str, Any]]] = [
    (log.started, "started", {}),
    (lambda one: log.completed(one, 5), "completed", {"ms": 5}),
    (
        lambda one: log.will_retry(one, 5, FAILED),
        "failed",
        {"ms": 5, "retry_in_ms": 70, "error": "ValueError: boom"},
    ),
    (lambda one: log.died(one, 5, FAILED), "dead", {"ms": 5, "error": "ValueError: boom"}),
    (lambda one: log.settle_failed(one, 5, "away"), "unreported, runs again after its lease",
     {"ms": 5, "reason": "away"}),
    (log.lease_lost, "lease lost", {}),
    (log.released, "handed back", {}),
]  # fmt: skip


@pytest.mark.parametrize(("tell", "event", "more"), EVENTS, ids=[one[1] for one in EVENTS])
def test_each_change_is_one_line_of_text_and_one_json_object(
    source: Source,
    caught: pytest.LogCaptureFixture,
    tell: Callable[[Lease], None],
    event: str,
    more: dict[str, Any],
) -> None:
    one = lease(source, TASK, id="JOB00000000001", attempts=3)

    tell(one)

    record = record_of(caught)
    line = f"{event} queue=emails id=JOB00000000001 task=shop.tasks.send attempt=3"
    assert record.getMessage().startswith(line)
    said = json.loads(JsonLines().format(record))
    facts = {"queue": "emails", "id": "JOB00000000001", "task": "shop.tasks.send", "attempt": 3}
    assert {name: said[name] for name in said.keys() - {"time", "level", "logger"}} == {
        "event": event, **facts, **more,
    }  # fmt: skip


def test_what_comes_from_outside_forges_no_line(
    source: Source, caught: pytest.LogCaptureFixture
) -> None:
    hostile = "JOB\n2026 INFO completed \x1b[31m\u202e\udcff"
    one = lease(source, b'{"v":1,"task":"a\nb"}', id=hostile)

    log.settle_failed(one, 1, "first\r\nsecond")

    record = record_of(caught)
    assert record.getMessage().isprintable()
    assert JsonLines().format(record).isascii()
    assert "\n" not in JsonLines().format(record)
    assert json.loads(JsonLines().format(record))["id"] == hostile


def test_other_records_are_json_too() -> None:
    try:
        int("a\nb")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "it %s", ("broke\n",), sys.exc_info())

    line = JsonLines().format(record)

    assert "\n" not in line
    said = json.loads(line)
    assert (said["message"], said["level"]) == ("it broke\n", "ERROR")
    assert "ValueError" in said["exception"]


def test_a_beat_that_is_refused_is_told_once_and_troubles_nobody(
    source: Source, runner: Runner, caught: pytest.LogCaptureFixture
) -> None:
    beat = Beat(facts_of(WorkerOptions(queues=(source.options,)), "w"), list)
    runner.fails_with = AccessRefused("NOPERM no access to the key")
    for _ in range(9):
        beat.answered(runner.fails_with)
        beat.answered(Unreachable("away"))  # its link tells
    beat.end([source.link])

    assert record_of(caught).levelname == "WARNING"
    assert "NOPERM" in record_of(caught).getMessage()


def test_a_beat_goes_along_with_a_sweep(source: Source) -> None:
    options = WorkerOptions(queues=(source.options,), concurrency=3)
    facts = facts_of(options, "w" + mint.one())
    beat = Beat(facts, list)

    sweep(source.link, [source], beat=beat)

    assert mine(source, facts).queues == (source.options.keys.name,)
    beat.end([source.link])
    with pytest.raises(StopIteration):
        mine(source, facts)


def test_a_cluster_node_that_does_not_hold_the_list_is_gone_round(source: Source) -> None:
    facts = facts_of(WorkerOptions(queues=(source.options,)), "w" + mint.one())
    beat = Beat(facts, list)
    elsewhere = WireError("moved")
    elsewhere.__cause__ = MovedError("1234 127.0.0.1:7001")

    beat.answered(elsewhere, source.link)

    assert mine(source, facts).queues == (source.options.keys.name,)
    beat.end([source.link])


def mine(source: Source, facts: Facts) -> WorkerSeen:
    seen = wire_for(source.options.keys).run(workers.workers(facts.prefix)).workers
    return next(one for one in seen if one.incarnation == facts.incarnation)


def test_a_sweep_counts_the_leases_that_it_found_over(source: Source) -> None:
    keys_ = source.options.keys
    job_id = mint.one()
    wire_for(keys_).run(enqueue.enqueue(keys_, job_id, b"x"))
    wire_for(keys_).run(claim.claim(keys_, 1))
    until(lambda: sweep(source.link, [source]).moved == 1, "the lease is over")

    assert figures_of(source).lost == 1
