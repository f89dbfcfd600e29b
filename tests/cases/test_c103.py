"""C103: tiny jobs are not made slow by what isolates them: threads in a process that stays."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from emq_django.api import enqueue_many
from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import metrics
from emq_django.protocol.claim import claim
from emq_django.protocol.settle import complete

if TYPE_CHECKING:
    from tests.worker.processes import Bench

JOBS = 5_000
# Claiming and completing one after the other costs two trips a job; a process or a connection of
# its own for each job costs far more than this many times as much.
MOST_TIMES_BARE = 6


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_5_000_empty_jobs_take_a_default_worker_little_more_than_their_trips(bench: Bench) -> None:
    bench.handler = "tests.cases.handlers.nothing"
    ratios = []
    for _ in range(3):  # the machine may be busy with something else
        enqueue_many(bench.queue, [b"{}"] * JOBS)
        bare_s = bare_trips_s(bench.queue)
        enqueue_many(bench.queue, [b"{}"] * JOBS)

        worker = bench.burst("--log-json")

        ratios.append(took_s(worker.log()) / bare_s)
        if ratios[-1] <= MOST_TIMES_BARE:
            break
    assert min(ratios) <= MOST_TIMES_BARE
    where = keys(bench.queue)
    done = wire_for(where).run(metrics.history(where)).total().completed
    assert done == JOBS * len(ratios)


def bare_trips_s(queue: str) -> float:
    """Return how long it takes to claim and complete all jobs with nothing in between."""
    where = keys(queue)
    wire = wire_for(where)
    ended = 0
    began_s = time.perf_counter()
    while (job := wire.run(claim(where, 30_000))) is not None:
        wire.run(complete(where, job))
        ended += 1
    assert ended == JOBS
    return time.perf_counter() - began_s


def took_s(log: str) -> float:
    """Return the time from the worker's first line to the last job's end."""
    lines = [json.loads(line) for line in log.splitlines()]
    times = [datetime.fromisoformat(line["time"]) for line in lines]
    ends = [one for one, line in zip(times, lines, strict=True) if line.get("event") == "completed"]
    assert len(ends) == JOBS
    return (max(ends) - min(times)).total_seconds()
