"""C13: a worker that stops while a take is on its way loses nothing and doubles nothing."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.worker.processes import Bench

LEASE_MS = 30_000  # longer than a round: no job comes back by its lease
WORKERS = 5


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_300_jobs_end_once_each_while_workers_stop(bench: Bench) -> None:
    _round_of(bench, jobs=300)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("_round", range(20))
def test_1000_jobs_end_once_each_while_workers_stop(bench: Bench, _round: int) -> None:
    _round_of(bench, jobs=1_000)


def _round_of(bench: Bench, jobs: int) -> None:
    options = ("--concurrency", "2", "--lease-ms", str(LEASE_MS))
    serving = [bench.start(*options, ready=False) for _ in range(WORKERS)]
    for worker in serving:
        worker.wait_until_it_serves()
    ids = [bench.add(sleep_s=0.002) for _ in range(jobs)]
    # The case stops a worker every 300 ms; by the number of starts the stops fall into the work
    # on a machine of any speed.
    while len(serving) > 1:
        bench.started(jobs * (WORKERS - len(serving) + 1) // (WORKERS + 1))
        serving.pop().signal(signal.SIGTERM)
    until(bench.empty, "no job left in pending, active or schedule")
    serving.pop().signal(signal.SIGTERM)

    assert [worker.exit_code() for worker in bench.workers] == [0] * WORKERS
    assert bench.ledger.count("end") == dict.fromkeys(ids, 1)
    assert bench.ledger.count("start") == dict.fromkeys(ids, 1)
