"""Short jobs are taken and reported several at a time, and none of them suffers from it."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import scripts
from emq_django.protocol.enqueue import enqueue_many
from emq_django.protocol.ids import mint
from emq_django.protocol.read import state
from emq_django.worker.loop import Worker
from emq_django.worker.options import WorkerOptions
from tests.queue_state import check_invariants
from tests.worker.processes import until
from tests.worker.test_loop import add, burst, figures, options

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    import redis

    from emq_django.worker.job import Job
    from tests.monitoring import Recording
    from tests.proxy import Mode, Proxy
    from tests.worker.processes import Bench

pytestmark = pytest.mark.server

LANE = "USR00000000001"


def add_many(name: str, count: int, payload: bytes = b"{}", lane: str | None = None) -> list[str]:
    ids = mint.many(count)
    for first in range(0, count, 100):
        items = [(one, payload) for one in ids[first : first + 100]]
        wire_for(keys(name)).run(enqueue_many(keys(name), items, lane))
    return ids


def sent(recording: Recording, name: str) -> int:
    sha = scripts.load(name).sha.encode()
    return sum(sha in command for command in recording.commands)


@pytest.mark.parametrize("concurrency", [1, 8])
def test_short_jobs_share_their_trips(
    queue: str,
    monitor: Callable[[], AbstractContextManager[Recording]],
    redis_client: redis.Redis,
    concurrency: int,
) -> None:
    ids = add_many(queue, 600) + add_many(queue, 200, lane=LANE)
    ran: list[str] = []

    with monitor() as recording:
        burst([options(queue, lambda job: ran.append(job.id))], concurrency=concurrency)

    assert Counter(ran) == dict.fromkeys(ids, 1)
    assert sent(recording, "take") < 200
    assert sent(recording, "complete") + sent(recording, "complete_many") < 200
    left = check_invariants(redis_client, keys(queue))
    assert not left.places
    assert figures(queue).completed == 800


def test_an_end_does_not_wait_when_nothing_else_is_about_to_end(queue: str) -> None:
    """One that waited for a second job to end with it would wait for ever."""
    gate = threading.Event()
    add(queue, b"long")
    short = add(queue)
    where = keys(queue)

    def handler(job: Job) -> None:
        if job.payload == b"long":
            gate.wait(20)

    worker = threading.Thread(target=burst, args=([options(queue, handler)],), kwargs={
        "concurrency": 2,
    })  # fmt: skip
    worker.start()
    try:
        until(lambda: wire_for(where).run(state(where, short)) == "absent", "it is reported")
    finally:
        gate.set()
        worker.join(20)
    assert not figures(queue).active


def test_what_waits_behind_a_long_job_is_handed_back(
    queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One slot, and a long job among short ones that were taken ahead."""
    gate, running = threading.Event(), threading.Event()
    ids = add_many(queue, 100)
    long = add(queue, b"long")
    ids += add_many(queue, 50)
    ran: list[str] = []

    def handler(job: Job) -> None:
        ran.append(job.id)
        if job.payload == b"long":
            running.set()
            gate.wait(20)

    wanted = WorkerOptions(queues=(options(queue, handler),), concurrency=1, burst=True)
    worker = threading.Thread(target=Worker(wanted, wire_for).run)
    with caplog.at_level(logging.INFO, "emq_django.worker"):
        worker.start()
        try:
            assert running.wait(20)
            until(lambda: figures(queue).active == 1, "its neighbours are handed back")
            assert figures(queue).pending == 50
        finally:
            gate.set()
            worker.join(20)

    assert Counter(ran) == dict.fromkeys([*ids, long], 1)
    assert figures(queue).completed == 151


def test_a_queue_of_long_jobs_is_not_starved_by_short_ones(queue: str) -> None:
    for order in ("round-robin", "strict"):
        short, slow = f"{queue}-{order}-short", f"{queue}-{order}-long"
        add_many(short, 400)
        add_many(slow, 3)
        ran: list[str] = []

        def work(job: Job, ran: list[str] = ran) -> None:
            ran.append(job.queue)

        def rest(job: Job, ran: list[str] = ran) -> None:
            ran.append(job.queue)
            time.sleep(0.02)

        names = [slow, short] if order == "strict" else [short, slow]
        first = {short: work, slow: rest}
        burst([options(name, first[name]) for name in names], order=order)

        assert Counter(ran) == {short: 400, slow: 3}
        assert max(at for at, name in enumerate(ran) if name == slow) < 350, order


def test_a_lane_at_its_limit_is_not_overtaken(queue: str, redis_client: redis.Redis) -> None:
    """What is taken ahead counts as in flight, so a limit holds for the lane's runs as well."""
    redis_client.hset(keys(queue).base + b"glimit", LANE, 2)
    add_many(queue, 200, lane=LANE)
    running, most = [0], [0]
    lock = threading.Lock()

    def handler(_job: Job) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.0005)
        with lock:
            running[0] -= 1

    burst([options(queue, handler)], concurrency=8)

    assert most[0] <= 2
    assert figures(queue).completed == 200


def test_one_job_that_cannot_be_reported_keeps_none_of_its_companions(
    queue: str, redis_client: redis.Redis
) -> None:
    """A script that meets a damaged key refuses them all, so each is then reported by itself."""
    ids = add_many(queue, 150)
    lane_job = add(queue, lane=LANE)
    ids += add_many(queue, 50)

    where, ran = keys(queue), []

    def handler(job: Job) -> None:
        ran.append(job.id)
        if job.id == lane_job and job.attempts == 1:
            redis_client.delete(where.ring)
            redis_client.set(where.ring, "x")

    wanted = WorkerOptions(queues=(options(queue, handler, lease_ms=1_000),), concurrency=2)
    worker = Worker(wanted, wire_for)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        until(lambda: lane_job in ran, "the lane's job has run")
        until(
            lambda: set(redis_client.zrange(where.active, 0, -1)) <= {lane_job.encode()},
            "all others are reported",
        )
        redis_client.delete(where.ring)
        until(lambda: figures(queue).completed == 201, "all ended")
    finally:
        worker.stop.ask()
        thread.join(20)
    assert Counter(ran) == {**dict.fromkeys(ids, 1), lane_job: ran.count(lane_job)}


@pytest.mark.parametrize("fault", ["drop_reply", "truncate", "close"])
def test_a_batch_whose_reply_is_lost_is_judged_job_by_job(
    bench: Bench, proxy: Proxy, fault: Mode
) -> None:
    bench.url = proxy.url
    bench.handler = "tests.worker.zoo.brief"
    sha = scripts.load("complete_many").sha.encode()
    proxy.arm(fault, matching=sha)
    ids = [bench.add() for _ in range(300)]

    worker = bench.start("--concurrency", "1", "--burst", ready=False)

    assert worker.exit_code() == 0, worker.log()
    assert bench.ledger.count("end") == dict.fromkeys(ids, 1)
    assert worker.log().count("completed queue=") == 300
    assert "refused" not in worker.log()
    assert bench.empty()


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_jobs_in_line_are_handed_back_at_no_cost(bench: Bench, signum: signal.Signals) -> None:
    """By the child when it is asked to stop, by its parent when it is killed."""
    bench.handler = "tests.worker.zoo.brief"
    ids = add_many(bench.queue, 3_000)
    worker = bench.start("--processes", "1", "--concurrency", "2")
    until(lambda: len(bench.ledger.notes("end")) > 300, "batches are under way")

    if signum == signal.SIGTERM:
        worker.signal(signum)
        assert worker.exit_code() == 0
        ended = bench.ledger.count("end")
        assert set(ended.values()) == {1}
        counts = bench.counts()
        assert (counts.active, counts.pending) == (0, 3_000 - len(ended))
        bench.start("--processes", "1", "--concurrency", "2")
        until(bench.empty, "all jobs ended")
        assert bench.ledger.count("end") == dict.fromkeys(ids, 1)
    else:
        signal_child(worker.children()[0], signum)
        until(bench.empty, "all jobs ended")
        assert set(bench.ledger.count("end")) == set(ids)
        lost = worker.log().count("lost with its process, handed back")
        assert lost <= 2  # those that ran
    tokens = [note.token for note in bench.ledger.notes("end")]
    assert max(tokens) <= 3


def signal_child(pid: int, signum: signal.Signals) -> None:
    import os

    os.kill(pid, signum)


@pytest.mark.parametrize("place", [0, 20, 50, 64])
def test_of_a_poison_job_among_good_ones_only_it_dies(bench: Bench, place: int) -> None:
    bench.handler = "tests.worker.zoo.brief"
    good = [bench.add() for _ in range(place)]
    poison = bench.add(**{"raise": "Kill"})
    good += [bench.add() for _ in range(64 - place)]

    worker = bench.start("--processes", "1", "--concurrency", "8")

    until(lambda: bench.held_by(poison) == "dead", "the poison job is dead")
    until(bench.empty, "all others ended")
    assert bench.counts().dead == 1
    assert bench.field(poison, "last_error") == "stalled: the worker was lost 3 times"
    starts, ends = bench.ledger.count("start"), bench.ledger.count("end")
    assert set(ends) == set(good)
    assert starts[poison] == 3
    assert max(starts[one] for one in good) <= 3, worker.log()
