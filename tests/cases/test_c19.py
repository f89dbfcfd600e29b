"""C19: workers that wait leave server and machine alone, and still hear of a job at once."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.conf import keys
from emq_django.protocol.ids import mint
from tests.worker.processes import open_bench, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers import Server
    from tests.worker.processes import Bench, WorkerProcess

PROCESSES, THREADS, QUEUES = 4, 4, 3
MOST_TRIPS = 3  # a second for the whole tree; the case allows 5 commands for each process
MOST_CPU = (
    0.1  # of a core for the whole tree; the case allows 0.01 for each of four, on a quiet one
)
MOST_MS = 100  # from the enqueue to the handler, for half of the jobs


@pytest.fixture
def alone(
    queue: str, tmp_path: Path, fresh_server: Callable[..., Server]
) -> Iterator[tuple[Bench, Any]]:
    """Workers on a server that nobody else uses, and a client of it."""
    server = fresh_server()
    for bench in open_bench(queue, tmp_path):
        bench.url = server.url
        with server.client() as client:
            yield bench, client


@pytest.mark.slow
@pytest.mark.parametrize(
    ("idle_s", "jobs"),
    [
        pytest.param(5, 20, marks=pytest.mark.timeout(120)),
        pytest.param(60, 200, marks=[pytest.mark.nightly, pytest.mark.timeout(600)]),
    ],
)
def test_an_idle_tree_makes_few_trips_and_hears_every_job(
    alone: tuple[Bench, Any], idle_s: int, jobs: int
) -> None:
    bench, client = alone
    bench.further = [f"{bench.queue}-{number}" for number in range(1, QUEUES)]
    tree = bench.start("--processes", str(PROCESSES), "--concurrency", str(THREADS))
    until(lambda: len(tree.incarnations()) == PROCESSES, "every process serves")
    until(lambda: len(client.client_list()) > 1, "the parent listens")
    time.sleep(2)  # what a start sends is over

    before = trips(client), cpu_s(tree)
    time.sleep(idle_s)  # the case: nothing happens
    after = trips(client), cpu_s(tree)

    assert (after[0] - before[0]) / idle_s <= MOST_TRIPS
    assert (after[1] - before[1]) / idle_s <= MOST_CPU
    took_ms = []
    for number in range(1, jobs + 1):
        time.sleep(0.05)  # idle again, at a moment of no rhythm of the worker's
        at_ns = time.time_ns()
        add_raw(bench, client)
        bench.started(number)
        took_ms.append((bench.ledger.notes("start")[-1].time_ns - at_ns) / 1e6)
    assert statistics.median(took_ms) <= MOST_MS


def trips(client: Any) -> int:
    """Return how often the server has read from a client."""
    return int(client.info("stats")["total_reads_processed"])


def cpu_s(tree: WorkerProcess) -> float:
    """Return the CPU time that the tree's processes have used."""
    ticks = 0
    for pid in (tree.process.pid, *tree.children()):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def add_raw(bench: Bench, client: Any) -> None:
    """Enqueue as a foreign speaker does: three plain commands."""
    where, job_id = keys(bench.queue), mint.one()
    with client.pipeline(transaction=True) as pipe:
        pipe.hset(where.row(job_id), mapping={"state": "pending", "attempts": 0, "payload": "{}"})
        pipe.zadd(where.pending, {job_id: 0})
        pipe.execute()
