"""C98: under the reloader the worker runs off the main thread, and edited code is used."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.worker.processes import Bench

MODULE = """
from tests.worker import zoo

def work(job):
    zoo.note("{name}", job)
    zoo.work(job)
"""


@pytest.mark.timeout(120)
def test_the_running_job_ends_and_the_next_one_runs_the_new_code(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = bench.folder / "edited_handlers.py"
    source.write_text(MODULE.format(name="old"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(bench.folder), *sys.path]))
    bench.handler = "edited_handlers.work"
    worker = bench.start("--reload")
    gate = bench.folder / "gate"
    bench.add(wait_for=str(gate))
    bench.started()

    source.write_text(MODULE.format(name="new") + "# changed\n")
    times = itertools.count(2_000_000_000)

    def noticed() -> bool:
        # An edit before the reloader's first look at the files is none.
        if "stopping" in worker.log():
            gate.touch()
        else:
            os.utime(source, (now := next(times), now))
        return len(worker.incarnations()) >= 2

    until(noticed, "the worker started again", 60)
    bench.add()

    until(bench.empty, "both jobs ended")
    assert "signal only works" not in worker.log()
    assert len(bench.ledger.notes("end")) == 2
    assert len(bench.ledger.notes("old")) == 1
    assert len(bench.ledger.notes("new")) == 1


@pytest.mark.timeout(120)
def test_ctrl_c_leaves_no_job_leased(bench: Bench) -> None:
    job_id = bench.add(wait_for=str(bench.folder / "never"))
    worker = bench.start("--reload")
    bench.started()

    os.killpg(worker.process.pid, signal.SIGINT)  # as a terminal does

    worker.exit_code()
    until(lambda: bench.held_by(job_id) == "pending", "the job is handed back", 10)
