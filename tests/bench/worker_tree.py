"""How fast worker trees react, and what they cost while they wait. Prints one table per figure.

    python -m tests.bench.worker_tree                       # all of it, some minutes
    python -m tests.bench.worker_tree pickup delayed idle   # some
    python -m tests.bench.worker_tree herd --trees 64

| figure | what is measured |
| --- | --- |
| pickup | from before an enqueue to the handler's first line, idle tree; beside it BRPOP and what |
|        | only hears and takes (`hear_and_take`); `--awake` keeps the cores from going to sleep |
| delayed | how late a job starts that was enqueued for a moment in the near future |
| idle | commands per second and CPU of a tree with nothing to do |
| herd | client commands per job while many idle trees wait for the same queue |
| recovery | from SIGKILL of a child to the second start of its job |

Servers are the script's own. Figures of one run are to be compared with each other, not with those
of another machine or another day.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers import Server
    from tests.worker.processes import Bench


def pickup(bench: Bench, server: Server, options: argparse.Namespace) -> None:
    """Enqueue at random moments, in turn by us and by plain commands; two floors beside them."""
    worker = bench.start("--processes", str(options.processes), "--concurrency", "4")
    ours: list[float] = []
    foreign: list[float] = []
    floor: list[float] = []
    least: list[float] = []
    with (
        server.client() as client,
        _popper(server) as popped,
        _hear_and_take(f"{bench.queue}-least") as taken,
        _awake(options.awake),
    ):
        for number in range(options.rounds):
            time.sleep(random.uniform(0.02, 0.12))  # idle in between
            ours.append(_until_started(bench, lambda: bench.add(), number * 2))
            time.sleep(random.uniform(0.02, 0.12))
            foreign.append(_until_started(bench, lambda: _add_raw(bench, client), number * 2 + 1))
            time.sleep(random.uniform(0.02, 0.12))
            at_ns = time.time_ns()
            client.lpush("floor", "1")
            floor.append((popped() - at_ns) / 1e6)
            time.sleep(random.uniform(0.02, 0.12))
            least.append(taken())
    _row("BRPOP", floor, "ms")
    _row("heard and taken, no more", least, "ms")
    _row("enqueue by us", ours, "ms")
    _row("enqueue by plain commands", foreign, "ms")
    ratio = statistics.median(ours) / statistics.median(floor)
    say(f"median of ours / BRPOP: {ratio:.2f}, / least:"
        f" {statistics.median(ours) / statistics.median(least):.2f}")  # fmt: skip
    worker.close()


def delayed(bench: Bench, server: Server, options: argparse.Namespace) -> None:
    """Enqueue for 50 to 400 ms from now; the server's clock is this machine's."""
    del server
    from emq_django.conf import keys
    from emq_django.connections import wire_for
    from emq_django.protocol.enqueue import enqueue_at
    from emq_django.protocol.ids import mint

    worker = bench.start("--processes", str(options.processes))
    where, late = keys(bench.queue), []
    for number in range(options.rounds):
        due_ms = time.time_ns() // 1_000_000 + random.randrange(50, 400)
        wire_for(where).run(enqueue_at(where, mint.one(), b"{}", due_ms))
        late.append(_wait_for_start(bench, number) / 1e6 - due_ms)
    _row("late", late, "ms")
    worker.close()


def idle(bench: Bench, server: Server, options: argparse.Namespace) -> None:
    """Let a tree wait for nothing and count what it does."""
    worker = bench.start("--processes", str(options.processes))
    time.sleep(3)
    with server.client() as client:
        before = _commands(client), _cpu_s(worker.process.pid, worker.children())
        time.sleep(options.seconds)
        after = _commands(client), _cpu_s(worker.process.pid, worker.children())
    trips = _trips(server, options.seconds)
    say(f"client commands/s: {(after[0] - before[0]) / options.seconds:.2f}")
    say(f"trips/s: {trips:.2f}")
    say(f"CPU of the tree: {100 * (after[1] - before[1]) / options.seconds:.2f} %")
    worker.close()


def herd(bench: Bench, server: Server, options: argparse.Namespace) -> None:
    """Enqueue now and then for many idle trees."""
    for _ in range(options.trees):
        bench.start("--processes", "1", "--concurrency", "1", ready=False)
    for worker in bench.workers:
        worker.wait_until_it_serves()
    time.sleep(5)
    for pause_s in (1.0, 0.2, 0.05):
        jobs = max(int(20 / pause_s) // 4, 20)
        began = len(bench.ledger.notes("start"))
        with server.client() as client:
            quiet_s = 5.0
            before = _commands(client)
            time.sleep(quiet_s)
            base = (_commands(client) - before) / quiet_s
            before, at_s = _commands(client), time.monotonic()
            took: list[float] = []
            for number in range(jobs):
                at_ns = time.time_ns()
                bench.add()
                took.append((_wait_for_start(bench, began + number) - at_ns) / 1e6)
                time.sleep(pause_s)
            sent = _commands(client) - before - base * (time.monotonic() - at_s)
        say(f"a job each {pause_s:g} s: {sent / jobs:.1f} client commands per job,"
              f" upkeep beside that {base:.0f}/s")  # fmt: skip
        _row("  pick-up", took, "ms")
    for worker in bench.workers:
        worker.close()


def recovery(bench: Bench, server: Server, options: argparse.Namespace) -> None:
    """Kill the child that runs a job; measure until the job is started again."""
    del server
    worker = bench.start("--processes", str(max(options.processes, 2)), "--concurrency", "1")
    took: list[float] = []
    for _ in range(min(options.rounds, 20)):
        before = len(bench.ledger.notes("start"))
        gate = bench.folder / f"gate-{before}"
        bench.add(wait_for=str(gate))
        _wait_for_start(bench, before)
        note = bench.ledger.notes("start")[-1]
        time.sleep(random.uniform(0, 0.5))
        at_ns = time.time_ns()
        os.kill(note.pid, signal.SIGKILL)
        took.append((_wait_for_start(bench, before + 1) - at_ns) / 1e6)
        gate.touch()
        while not bench.empty():
            time.sleep(0.01)
    _row("SIGKILL to second start", took, "ms")
    worker.close()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


FIGURES: dict[str, Callable[[Any, Any, argparse.Namespace], None]] = {
    "pickup": pickup, "delayed": delayed, "idle": idle, "herd": herd, "recovery": recovery,
}  # fmt: skip


def _until_started(bench: Bench, enqueue: Callable[[], object], number: int) -> float:
    at_ns = time.time_ns()
    enqueue()
    return (_wait_for_start(bench, number) - at_ns) / 1e6


def _wait_for_start(bench: Bench, number: int) -> int:
    """Return when the handler noted its ``number``-th start (0 is the first)."""
    time.sleep(0.02)  # looking at once would compete for the processor with what is measured
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        if len(notes := bench.ledger.notes("start")) > number:
            return notes[number].time_ns
        time.sleep(0.002)
    raise SystemExit(f"no start within 60 s: {bench.workers[-1].log()[-2000:]}")


def _add_raw(bench: Bench, client: Any) -> None:
    from emq_django.conf import keys
    from emq_django.protocol.ids import mint

    where, job_id = keys(bench.queue), mint.one()
    with client.pipeline(transaction=True) as pipe:
        pipe.hset(where.row(job_id), mapping={"state": "pending", "attempts": 0, "payload": "{}"})
        pipe.zadd(where.pending, {job_id: 0})
        pipe.execute()


@contextlib.contextmanager
def _hear_and_take(queue: str) -> Iterator[Callable[[], float]]:
    """Start the least that can take a job; what the block gets enqueues one and returns its ms."""
    from emq_django import enqueue

    command = [sys.executable, "-m", "tests.bench.hear_and_take", queue]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        out = process.stdout
        assert out.readline() == "ready\n"

        def took_ms() -> float:
            at_ns = time.time_ns()
            enqueue(queue, b"{}")
            return (int(out.readline()) - at_ns) / 1e6

        try:
            yield took_ms
        finally:
            process.kill()


_SPIN = """
import os
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while True:
    pass
"""


@contextlib.contextmanager
def _awake(wanted: bool) -> Iterator[None]:
    """Keep every core busy with what gives way at once: to wake one up costs as much as a trip."""
    count = (os.cpu_count() or 1) if wanted else 0
    spinners = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range(count)]
    try:
        yield
    finally:
        for one in spinners:
            one.kill()
            one.wait()


class _popper:  # noqa: N801 - used as a function
    """A thread in BRPOP; calling what the block gets returns when the last pop came."""

    def __init__(self, server: Server) -> None:
        self._client = server.client(socket_timeout=None)
        self._came: list[int] = []
        self._more = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Callable[[], int]:
        self._thread.start()
        return self._last

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def _run(self) -> None:
        # Closed at the end, from another thread: redis-py may find its socket gone in mid-check.
        with contextlib.suppress(redis.ConnectionError, TypeError):
            while self._client.brpop(["floor"], 0):
                self._came.append(time.time_ns())
                self._more.release()

    def _last(self) -> int:
        self._more.acquire(timeout=10)
        return self._came[-1]


# What our clients send, and no script runs inside.
_CLIENTS = {
    "evalsha", "eval", "ping", "hello", "subscribe", "script|load", "client|tracking",
    "client|setname", "client|id", "client|list", "client|kill", "get", "select",
}  # fmt: skip


def _commands(client: Any) -> int:
    """Return how many commands clients have sent (what scripts run inside is not counted)."""
    stats = client.info("commandstats")
    return sum(stats[name]["calls"] for name in stats if name.removeprefix("cmdstat_") in _CLIENTS)


def _trips(server: Server, seconds: float) -> float:
    """Return how often per second a client was read from."""
    with server.client() as client:
        before = int(client.info("stats")["total_reads_processed"])
        time.sleep(seconds)
        after = int(client.info("stats")["total_reads_processed"])
        return (after - before - 1) / seconds


def _cpu_s(*pids: Any) -> float:
    total = 0.0
    for pid in _flat(pids):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def _flat(values: Any) -> Iterator[int]:
    for value in values:
        if isinstance(value, list):
            yield from value
        else:
            yield value


def _row(name: str, values: list[float], unit: str) -> None:
    ordered = sorted(values)
    parts = {
        "p50": ordered[len(ordered) // 2],
        "p95": ordered[int(len(ordered) * 0.95)],
        "p99": ordered[int(len(ordered) * 0.99)],
        "most": ordered[-1],
    }
    text = "  ".join(f"{label} {value:8.2f}" for label, value in parts.items())
    say(f"{name:28} {text}  {unit}  (n={len(values)})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figures", nargs="*", choices=[*FIGURES, []], default=list(FIGURES))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--trees", type=int, default=64)
    parser.add_argument("--awake", action="store_true", help="keep the cores from sleeping")
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()

    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    from tests.servers import start_server

    with tempfile.TemporaryDirectory(prefix="emq-bench-") as folder:
        server = start_server()
        os.environ.update(EMQ_TEST_URL=server.url, EMQ_TEST_DIR=folder, EMQ_TEST_PREFIX="b-")
        import django

        django.setup()
        from tests.worker.processes import open_bench

        for number, name in enumerate(options.figures):
            say(f"== {name}")
            place = Path(folder, name)
            place.mkdir()
            for bench in open_bench(f"bench{number}", place):
                FIGURES[name](bench, server, options)
        server.close()


if __name__ == "__main__":
    main()
