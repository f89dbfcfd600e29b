"""C30: a job that kills its worker does so three times, and nothing else suffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.worker.processes import Bench


def test_a_poison_job_is_buried_with_the_reason_after_three_starts(bench: Bench) -> None:
    poison = bench.add(**{"raise": "Kill"})
    good = [bench.add() for _ in range(10)]
    worker = bench.start("--concurrency", "1")

    until(bench.empty, "nothing is left but the dead")

    assert bench.ledger.count("start")[poison] == 3
    assert bench.held_by(poison) == "dead"
    assert "the worker was lost 3 times" in (bench.field(poison, "last_error") or "")
    assert bench.field(poison, "attempts") == "3"
    assert bench.field(poison, "stalled") == "3"
    assert bench.ledger.count("end") == dict.fromkeys(good, 1)
    until(lambda: len(worker.children()) == 1, "the tree still serves")
