"""C41: a deploy uses up no try; a lost worker counts as one, on the row."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.worker.processes import Bench


@pytest.mark.slow
def test_three_deploys_in_the_middle_of_a_job_cost_it_no_try(bench: Bench) -> None:
    bench.settings = {"MAX_ATTEMPTS": 3}
    gate = bench.folder / "gate"
    job_id = bench.add(wait_for=str(gate))
    for deploy in range(1, 4):
        worker = bench.start("--grace-s", "0.3")
        bench.started(deploy)
        worker.signal(signal.SIGTERM)

        assert worker.exit_code() == 0
        assert bench.held_by(job_id) == "pending"
        assert bench.field(job_id, "failures") is None
        assert bench.field(job_id, "stalled") is None
    gate.touch()

    bench.burst()

    assert bench.ledger.count("end") == {job_id: 1}
    assert bench.ledger.notes("end")[0].token == 4
    assert bench.empty()
    assert bench.counts().dead == 0


@pytest.mark.slow
def test_a_killed_worker_costs_its_job_one_try_and_three_bury_it(bench: Bench) -> None:
    bench.settings = {"LEASE_MS": 400}
    job_id = bench.add(wait_for=str(bench.folder / "never"))
    for loss in range(1, 4):
        worker = bench.start()
        bench.started(loss)
        worker.kill()
    bench.start()

    until(lambda: bench.held_by(job_id) == "dead", "the job is dead")
    assert bench.field(job_id, "stalled") == "3"
    assert bench.field(job_id, "failures") is None
    assert "worker was lost" in (bench.field(job_id, "last_error") or "")
    assert len(bench.ledger.notes("start")) == 3
