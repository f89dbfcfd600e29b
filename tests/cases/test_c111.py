"""C111: a short socket timeout does not end an idle worker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.servers import Server
    from tests.worker.processes import Bench


@pytest.mark.slow
def test_a_worker_idles_for_longer_than_its_socket_timeout(bench: Bench, server: Server) -> None:
    _idle(bench, f"{server.url}?socket_timeout=1", 4)


@pytest.mark.nightly
@pytest.mark.timeout(120)
@pytest.mark.parametrize("timeout", ["", "?socket_timeout=1", "?socket_timeout=5"])
def test_a_worker_idles_for_a_minute(bench: Bench, server: Server, timeout: str) -> None:
    _idle(bench, server.url + timeout, 60)


def _idle(bench: Bench, url: str, idle_s: float) -> None:
    bench.url = url
    worker = bench.start()
    (child,) = worker.children()
    time.sleep(idle_s)  # the case: nothing happens for so long
    added_ns = time.time_ns()
    job_id = bench.add()

    until(lambda: bench.ledger.count("end") == {job_id: 1}, "the job ended")

    (start,) = bench.ledger.notes("start")
    assert start.pid == child
    assert start.time_ns - added_ns <= 2e9, "not heard of at once"
    assert "Timeout" not in worker.log()
    assert "in trouble" not in worker.log()
