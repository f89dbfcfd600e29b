"""C85: the stop signal of a container reaches the worker, however it was started."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.worker.processes import DEADLINE_S, until

if TYPE_CHECKING:
    from tests.worker.processes import Bench

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "run-a-worker.md"
SCRIPT = re.compile(r"^```sh\n(#!/bin/sh\n.*?)^```", re.DOTALL | re.MULTILINE)
WORKER = [sys.executable, "-m", "django", "emq_worker", "--grace-s", "20"]
# A namespace of its own makes the worker process 1, to which an unhandled signal does nothing.
AS_PROCESS_1 = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]


def entrypoint(folder: Path) -> Path:
    """Write the start script that the guide shows."""
    [script] = re.findall(
        r"^```sh\n(#!/bin/sh\n.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE
    )
    path = folder / "entrypoint.sh"
    path.write_text(script)
    path.chmod(0o755)
    return path


NO_NAMESPACES = pytest.mark.skipif(
    not shutil.which("unshare") and not os.environ.get("CI"), reason="no unshare: not a Linux"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "start", ["command", "script", pytest.param("process 1", marks=NO_NAMESPACES)]
)
def test_the_outermost_process_drains_and_ends_with_the_workers_code(
    bench: Bench, start: str
) -> None:
    command = {
        "command": WORKER,
        "script": [str(entrypoint(bench.folder)), *WORKER],
        "process 1": [*AS_PROCESS_1, *WORKER],
    }[start]
    gate = bench.folder / "gate"
    running = bench.add(wait_for=str(gate))
    log = bench.folder / "log"
    with log.open("wb") as output:
        outermost = subprocess.Popen(
            command, env=environment(bench), stdout=output, stderr=output, start_new_session=True
        )
    try:
        bench.started()
        os.kill(told_to_stop(outermost, start), signal.SIGTERM)
        until(lambda: "stopping" in log.read_text(), "the drain is logged")
        later = bench.add()
        gate.touch()

        assert outermost.wait(DEADLINE_S) == 0, log.read_text()
        assert bench.ledger.count("end") == {running: 1}
        assert bench.held_by(later) == "pending"  # no claim after the signal
    finally:
        if outermost.poll() is None:
            os.killpg(outermost.pid, signal.SIGKILL)
            outermost.wait()


def told_to_stop(outermost: subprocess.Popen[bytes], start: str) -> int:
    """Return the process that a container engine would signal, as this side numbers it."""
    if start != "process 1":
        return outermost.pid
    [inside] = Path(f"/proc/{outermost.pid}/task/{outermost.pid}/children").read_text().split()
    assert Path(f"/proc/{inside}/status").read_text().split("NSpid:")[1].split()[1] == "1"
    return int(inside)


def environment(bench: Bench) -> dict[str, str]:
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.worker.settings",
        "EMQ_TEST_QUEUES": json.dumps({bench.queue: {"HANDLER": bench.handler}}),
        "EMQ_TEST_LEDGER": str(bench.ledger.path),
    }
