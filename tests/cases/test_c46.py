"""C46: kill -9 loses nothing of what a process had taken."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.worker.processes import Bench

LEASE_MS = 1_000


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_every_job_of_killed_workers_ends(bench: Bench) -> None:
    _kill_and_start_anew(bench, seed=0, jobs=40, sleep_s=0.3)


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(10))
def test_every_job_of_killed_workers_ends_at_full_size(bench: Bench, seed: int) -> None:
    _kill_and_start_anew(bench, seed, jobs=40, sleep_s=2)


def _kill_and_start_anew(bench: Bench, seed: int, *, jobs: int, sleep_s: float) -> None:
    options = ("--concurrency", "2", "--lease-ms", str(LEASE_MS))
    ids = [bench.add(sleep_s=sleep_s) for _ in range(jobs)]
    doomed = [bench.start(*options, ready=False) for _ in range(4)]
    bench.started()
    time.sleep(random.Random(seed).uniform(0, 2 * sleep_s))  # the case: at a random time
    for worker in doomed:
        worker.kill()
    left = bench.counts()
    assert left.active or left.pending, "all jobs ended before the kill"

    bench.start("--concurrency", "8", "--lease-ms", str(LEASE_MS))

    until(bench.empty, "every job has ended", 60)
    assert set(bench.ledger.count("end")) == set(ids)
    assert bench.counts().dead == 0


def test_jobs_that_were_claimed_and_never_started_come_back(bench: Bench) -> None:
    from emq_django.conf import keys
    from emq_django.connections import wire_for
    from emq_django.protocol.claim import take

    ids = [bench.add() for _ in range(3)]
    where = keys(bench.queue)
    # What a worker leaves that dies between its take and the first handler.
    taken = wire_for(where).run(take(where, "gone", lease_ms=50, limit=3)).jobs
    assert [job.id for job in taken] == ids

    bench.start()

    until(bench.empty, "all jobs ended")
    assert bench.ledger.count("end") == dict.fromkeys(ids, 1)
