"""C82: a stop signal in the middle of a job lets it finish, or hands it back."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.worker.processes import Bench

SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_job_that_ends_within_the_grace_time_ends(bench: Bench, signum: signal.Signals) -> None:
    gate = bench.folder / "gate"
    running = bench.add(wait_for=str(gate))
    worker = bench.start("--concurrency", "1", "--grace-s", "20")
    bench.started()
    worker.signal(signum)
    worker.wait_for_log("stopping")
    later = bench.add()
    gate.touch()

    assert worker.exit_code() == 0
    assert bench.ledger.count("end") == {running: 1}
    assert bench.held_by(later) == "pending"
    assert bench.field(later, "attempts") == "0"
    assert bench.held_by(running) is None


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_job_that_outlasts_the_grace_time_is_handed_back(
    bench: Bench, signum: signal.Signals
) -> None:
    gate = bench.folder / "gate"
    job_id = bench.add(wait_for=str(gate))
    worker = bench.start("--grace-s", "0.5")
    bench.started()
    stopped_at_s = time.monotonic()
    worker.signal(signum)

    assert worker.exit_code() == 0
    assert time.monotonic() - stopped_at_s < 3
    assert bench.held_by(job_id) == "pending"  # at once, not when its lease of 30 s ends
    assert "handed back" in worker.log()
    gate.touch()
    bench.burst()
    assert bench.ledger.count("end") == {job_id: 1}
