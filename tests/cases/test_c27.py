"""C27: a reaper never touches a job whose lease lasts, and no run sees an empty payload."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import upkeep
from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.worker.processes import Bench

REAPERS, EVERY_S, LEASE_MS = 3, 0.05, 5_000


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_three_reapers_find_nothing_among_short_jobs(bench: Bench) -> None:
    _run_among_reapers(bench, 400)


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_three_reapers_find_nothing_among_short_jobs_at_full_size(bench: Bench) -> None:
    _run_among_reapers(bench, 2_000)


def _run_among_reapers(bench: Bench, jobs: int) -> None:
    bench.handler, bench.settings = "tests.cases.handlers.full", {"LEASE_MS": LEASE_MS}
    ids = [bench.add(sleep_s=(5 + number % 46) / 1_000) for number in range(jobs)]
    end, seen = threading.Event(), []
    where = keys(bench.queue)

    def reap() -> None:
        while not end.wait(EVERY_S):
            seen.append(wire_for(where).run(upkeep.reap(where)).seen)

    reapers = [threading.Thread(target=reap) for _ in range(REAPERS)]
    for reaper in reapers:
        reaper.start()
    try:
        bench.start("--concurrency", "8")
        until(bench.empty, "all have run", 90)
    finally:
        end.set()
        for reaper in reapers:
            reaper.join()

    assert len(seen) > REAPERS
    assert sum(seen) == 0
    assert bench.ledger.count("start") == dict.fromkeys(ids, 1)
    assert {note.token for note in bench.ledger.notes()} == {1}
    assert not bench.ledger.notes("empty")
