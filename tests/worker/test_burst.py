"""A burst drains what is claimable and due, and then ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.worker.processes import Bench

LANES = ("USR00000000001", "USR00000000002")


def test_a_burst_runs_flat_and_lane_jobs_and_ends(bench: Bench) -> None:
    flat = [bench.add() for _ in range(20)]
    lanes = [bench.add(lane=lane) for lane in LANES for _ in range(10)]

    bench.burst()

    assert bench.ledger.count("end") == dict.fromkeys([*flat, *lanes], 1)
    assert bench.empty()


def test_a_burst_whose_children_are_replaced_after_some_jobs_leaves_none(bench: Bench) -> None:
    jobs = [bench.add() for _ in range(10)]

    worker = bench.burst("--max-jobs", "3", "--concurrency", "2")

    assert bench.ledger.count("end") == dict.fromkeys(jobs, 1)
    assert "ended with exit code" not in worker.log()


def test_a_burst_without_children_ends_after_its_share_of_jobs(bench: Bench) -> None:
    for _ in range(5):
        bench.add()

    bench.burst("--processes", "0", "--max-jobs", "3", "--concurrency", "1")

    assert len(bench.ledger.notes("end")) == 3
    assert bench.counts().pending == 2


def test_a_burst_waits_for_jobs_that_running_jobs_enqueue(bench: Bench) -> None:
    bench.add(sleep_s=0.3, enqueue=['{"sleep_s": 0.3, "enqueue": ["{}", "{}"]}'])

    bench.burst()

    assert len(bench.ledger.notes("end")) == 4
    assert bench.empty()


def test_a_burst_with_nothing_to_do_ends_at_once(bench: Bench) -> None:
    worker = bench.burst()

    assert "ended" in worker.log()


def test_a_worker_ends_without_a_warning(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDEVMODE", "1")
    for _ in range(8):
        bench.add(query=True)

    worker = bench.burst()

    assert "Warning" not in worker.log()
    assert len(bench.ledger.notes("end")) == 8
