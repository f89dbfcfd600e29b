"""C17: a customer's batch of thousands delays nobody else's job by more than a turn.

The same on the wire alone, with weights and pauses: tests/conformance/test_lanes.py.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from emq_django.api import enqueue, enqueue_many
from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.worker.loop import Worker
from emq_django.worker.options import QueueOptions, WorkerOptions
from tests.worker.processes import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from emq_django.worker.job import Job

JOB_S = 0.01
LANES = [f"USR{number:011}" for number in range(1, 53)]
A, B, OTHERS = LANES[0], LANES[1], LANES[2:]


def _serve(queue: str, handler: Callable[[Job], None], far: Callable[[], bool]) -> None:
    options = QueueOptions(keys=keys(queue), handler=handler)
    worker = Worker(WorkerOptions(queues=(options,), concurrency=1, grace_s=5), wire_for)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        until(far, "the worker has come so far", 120)
    finally:
        worker.stop.ask()
        thread.join(20)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_small_lanes_start_within_a_turn_of_a_large_one(queue: str) -> None:
    batch = [one.id for one in enqueue_many(queue, [b"a"] * 10_000, lane=A)]
    started: list[tuple[str, str]] = []
    born: dict[str, int] = {}  # lane -> claims before its job was enqueued

    def handler(job: Job) -> None:
        assert job.lane is not None
        started.append((job.lane, job.id))
        if len(started) == 100:
            born[B] = len(started)
            enqueue(queue, b"b", lane=B)
        elif job.lane == B:
            for lane in OTHERS:
                born[lane] = len(started)
                enqueue(queue, b"other", lane=lane)
        time.sleep(JOB_S)

    _serve(queue, handler, lambda: len(started) >= 200)

    waited = {lane: place - born[lane] for place, (lane, _) in enumerate(started, 1) if lane != A}
    assert waited.pop(B) <= 2
    assert set(waited) == set(OTHERS)
    assert max(waited.values()) <= 51
    of_a = [job_id for lane, job_id in started if lane == A]
    assert of_a == batch[: len(of_a)]


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_lanes_cost_a_tenth_of_the_speed_at_most(queue: str) -> None:
    alone_s, shared_s = _seconds_per_job(queue, [A]), _seconds_per_job(queue, LANES)

    assert shared_s <= alone_s / 0.9


def _seconds_per_job(queue: str, lanes: list[str]) -> float:
    done: list[str] = []
    total = len(LANES) * 20
    for lane in lanes:
        enqueue_many(queue, [b"x"] * (total // len(lanes)), lane=lane)

    def handler(job: Job) -> None:
        time.sleep(JOB_S)
        done.append(job.id)

    began_s = time.monotonic()
    _serve(queue, handler, lambda: len(done) == total)
    return (time.monotonic() - began_s) / total
