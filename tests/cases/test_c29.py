"""C29: a lost job comes back after its own lease, whatever the slowest job beside it may take."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.worker.processes import Bench

LONG_S = 3_600


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_jobs_of_a_killed_tree_run_elsewhere_after_one_short_lease(bench: Bench) -> None:
    """The case: limits of 2 s and of an hour on one worker, which is killed while both run."""
    bench.settings["HARD_LIMIT_S"] = LONG_S
    gate = bench.folder / "gate"
    short, long = bench.add(wait_for=str(gate)), bench.add(wait_for=str(gate))
    doomed = bench.start("--concurrency", "2", "--lease-ms", "2000")
    bench.started(2)

    doomed.kill()
    bench.start("--concurrency", "2", "--lease-ms", "2000")

    bench.started(4)  # within the 30 s that any wait here has: the hour of the limit plays no part
    assert bench.ledger.count("start") == {short: 2, long: 2}
    gate.touch()
    until(bench.empty, "both ended")
    assert bench.ledger.count("end") == {short: 1, long: 1}


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_job_of_a_killed_child_comes_back_before_its_lease_ends(bench: Bench) -> None:
    """With the default lease of 30 s: the parent hands back what its child held."""
    gate = bench.folder / "gate"
    job_id = bench.add(wait_for=str(gate))
    bench.start("--processes", "2", "--concurrency", "1")
    bench.started()

    os.kill(bench.ledger.notes("start")[0].pid, signal.SIGKILL)

    bench.started(2)

    first, second = bench.ledger.notes("start")
    assert (second.time_ns - first.time_ns) / 1e9 < 15
    gate.touch()
    until(bench.empty, "it ended")
    assert bench.ledger.count("end") == {job_id: 1}
