"""What a kill and a stop cost: jobs run again in time, and a stop under load costs nothing."""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
import time
from typing import TYPE_CHECKING

import pytest

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import read
from emq_django.protocol.enqueue import enqueue_many
from emq_django.protocol.ids import mint
from emq_django.protocol.records import JobSet
from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.worker.processes import Bench, WorkerProcess

pytestmark = pytest.mark.slow

LEASE_MS = 2_000
JOBS = 8
# Within the lease and a second, on a machine that does nothing else. What a loaded one adds is
# bounded too: far below what a lease that is never ended early would take.
MOST_MS = LEASE_MS + 8_000
GRACE_S = 20.0


def test_jobs_of_a_killed_tree_run_again_when_their_lease_is_over(bench: Bench) -> None:
    gate = bench.folder / "gate"
    ids = [bench.add(wait_for=str(gate)) for _ in range(JOBS)]
    options = ("--processes", "2", "--concurrency", "4", "--lease-ms", str(LEASE_MS))
    doomed = bench.start(*options)
    bench.started(JOBS)
    bench.start(*options)

    killed_ns = time.time_ns()
    kill_tree(doomed)
    gate.touch()  # lost jobs run one per process at a time: each may be what killed it
    bench.started(2 * JOBS)

    second = bench.ledger.notes("start")[JOBS:]
    late_ms = sorted((note.time_ns - killed_ns) / 1e6 for note in second)
    said = (
        f"second starts {late_ms[0]:.0f} to {late_ms[-1]:.0f} ms after the kill, lease {LEASE_MS}"
    )
    sys.stdout.write(f"{said}\n")
    assert late_ms[-1] <= MOST_MS, said
    until(bench.empty, "all ended")
    assert bench.ledger.count("end") == dict.fromkeys(ids, 1)


def test_jobs_of_a_killed_child_run_again_before_their_lease_is_over(bench: Bench) -> None:
    """The default lease of 30 s: the parent hands its jobs back."""
    gate = bench.folder / "gate"
    bench.start("--processes", "2", "--concurrency", "4")
    late_ms = []
    for number in range(1, 6):
        bench.add(wait_for=str(gate))
        bench.started(2 * number - 1)
        pid = bench.ledger.notes("start")[-1].pid
        killed_ns = time.time_ns()
        os.kill(pid, signal.SIGKILL)
        bench.started(2 * number)
        late_ms.append((bench.ledger.notes("start")[-1].time_ns - killed_ns) / 1e6)
        gate.touch()
        until(bench.empty, "it ended")
        gate.unlink()

    said = f"second starts {', '.join(f'{one:.0f}' for one in late_ms)} ms after the kill"
    sys.stdout.write(f"{said}\n")
    assert statistics.median(late_ms) <= 10_000, said


def kill_tree(worker: WorkerProcess) -> None:
    """Kill the parent and its children at once, as a machine that stops does."""
    worker.process.send_signal(signal.SIGSTOP)  # it starts no further child
    for pid in worker.children():
        os.kill(pid, signal.SIGKILL)
    worker.kill()


@pytest.mark.parametrize(
    ("rounds", "jobs"),
    [
        pytest.param(2, 300, marks=pytest.mark.timeout(180)),
        pytest.param(20, 1_000, marks=[pytest.mark.nightly, pytest.mark.timeout(1_800)]),
    ],
)
def test_a_stop_under_load_loses_no_job_runs_none_twice_and_burns_no_try(
    bench: Bench, rounds: int, jobs: int
) -> None:
    where = keys(bench.queue)
    payload = json.dumps({"sleep_s": 0.005}).encode()
    longest_s, ids = 0.0, set[str]()
    for number in range(rounds):
        added = mint.many(jobs)
        ids.update(added)
        for start in range(0, jobs, 100):
            items = [(one, payload) for one in added[start : start + 100]]
            wire_for(where).run(enqueue_many(where, items))
        before = len(bench.ledger.notes("start"))
        options = ("--concurrency", "4", "--grace-s", str(GRACE_S))
        worker = bench.start("--processes", "2", *options, ready=False)
        bench.started(before + jobs // 10)

        stopped_s = time.monotonic()
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == 0, worker.log()
        longest_s = max(longest_s, time.monotonic() - stopped_s)

        counts = bench.counts()
        assert counts.active == counts.scheduled == counts.dead == 0
        ended = bench.ledger.count("end")
        assert counts.pending + len(ended) == len(ids)
        if number == 0:
            assert counts.pending, "the stop came after the last job"
        first = wire_for(where).run(read.page(where, JobSet.PENDING, 100)).entries
        # What was handed back stands in front: neither a failed run nor a lost one is counted.
        assert {(int(one.failures or 0), int(one.stalled or 0)) for one in first} <= {(0, 0)}
    sys.stdout.write(f"{rounds} stops, the longest took {longest_s:.1f} s\n")
    assert longest_s <= GRACE_S

    bench.burst("--concurrency", "8")
    assert bench.ledger.count("start") == bench.ledger.count("end") == dict.fromkeys(ids, 1)
