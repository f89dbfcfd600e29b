"""C86: whichever process of a worker is killed, work goes on or the whole ends."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.worker.processes import Bench


def test_children_that_are_killed_are_replaced_and_every_job_ends(bench: Bench) -> None:
    ids = [bench.add(sleep_s=0.01) for _ in range(400)]
    worker = bench.start("--processes", "4", "--concurrency", "2")
    until(lambda: len(worker.incarnations()) == 4, "all serve")

    os.kill(worker.children()[0], signal.SIGKILL)
    bench.started(50)
    os.kill(worker.children()[1], signal.SIGSEGV)
    bench.started(100)
    for pid in worker.children():
        os.kill(pid, signal.SIGKILL)

    until(bench.empty, "all jobs ended")
    assert set(bench.ledger.count("end")) == set(ids)
    assert bench.counts().dead == 0
    until(lambda: len(worker.children()) == 4, "four children again")
    assert worker.process.poll() is None
