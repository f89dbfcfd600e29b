"""C104: after reconnects a worker takes jobs as before, by connections that are all new."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.proxy import Proxy
    from tests.worker.processes import Bench


@pytest.mark.parametrize("busy", [False, True])
def test_jobs_end_after_every_connection_was_cut_ten_times(
    bench: Bench, proxy: Proxy, *, busy: bool
) -> None:
    bench.url = proxy.url
    gate = bench.folder / "gate"
    running = [bench.add(wait_for=str(gate))] if busy else []
    worker = bench.start("--concurrency", "2")
    if busy:
        bench.started()
    pid = worker.children()[0]
    for _ in range(10):
        proxy.drop_connections()
        time.sleep(0.1)  # the case's own beat
    ids = [bench.add() for _ in range(100)]
    gate.touch()

    until(bench.empty, "all jobs ended")
    assert bench.ledger.count("end") == dict.fromkeys([*running, *ids], 1)
    assert bench.ledger.count("start") == dict.fromkeys([*running, *ids], 1)
    assert worker.children() == [pid]
