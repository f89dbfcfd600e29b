"""Workers as processes, the ledger that their handlers write, and waiting for events."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import read
from emq_django.protocol.enqueue import enqueue, enqueue_lane
from emq_django.protocol.ids import mint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from emq_django.protocol.records import Counts, Row

DEADLINE_S = 30.0  # a machine under load; a passing test waits for none of it


def until(holds: Callable[[], Any], what: str, timeout_s: float = DEADLINE_S) -> None:
    """Return as soon as ``holds()`` is true; fail the test after ``timeout_s``."""
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline_s, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.005)


class Note(NamedTuple):
    event: str
    id: str
    token: int
    time_ns: int
    pid: int


class Ledger:
    """What handlers noted, in the order in which they did."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def notes(self, event: str | None = None) -> list[Note]:
        with contextlib.suppress(FileNotFoundError):
            lines = self.path.read_text().splitlines()
            notes = [self._note(line) for line in lines]
            return [note for note in notes if event in {None, note.event}]
        return []

    def count(self, event: str) -> Counter[str]:
        return Counter(note.id for note in self.notes(event))

    @staticmethod
    def _note(line: str) -> Note:
        event, job_id, token, time_ns, pid = line.split()
        return Note(event, job_id, int(token), int(time_ns), int(pid))


class WorkerProcess:
    """`manage.py emq_worker` with its log in a file."""

    def __init__(self, arguments: list[str], environment: dict[str, str], log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "django", "emq_worker", *arguments],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_until_it_serves(self) -> None:
        self.wait_for_log(" serves ")

    def wait_for_log(self, text: str) -> None:
        until(lambda: text in self.log() or self.process.poll() is not None, f"{text!r} logged")
        assert text in self.log(), self.log()

    def signal(self, signum: signal.Signals) -> None:
        self.process.send_signal(signum)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait(DEADLINE_S)

    def children(self) -> list[int]:
        """Return the worker's child processes, each as it stands in its table of processes."""
        pid = self.process.pid
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def incarnations(self) -> list[str]:
        """Return the names of the workers that this tree has had, in order."""
        return re.findall(r" worker (\w+) serves ", self.log())

    def exit_code(self, timeout_s: float = DEADLINE_S) -> int:
        return self.process.wait(timeout_s)

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()


@dataclass
class Bench:
    """One test's queue, ledger and workers."""

    queue: str
    folder: Path
    workers: list[WorkerProcess] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    handler: str = "tests.worker.zoo.work"
    url: str | None = None
    further: list[str] = field(default_factory=list)  # queues that workers serve too
    environment: dict[str, str] = field(default_factory=dict)  # of workers, beside or instead

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.folder / "ledger")

    def start(self, *arguments: str, ready: bool = True) -> WorkerProcess:
        its = {"HANDLER": self.handler, **self.settings}
        queues = dict.fromkeys([self.queue, *self.further], its)
        environment = {
            "DJANGO_SETTINGS_MODULE": "tests.worker.settings",
            "EMQ_TEST_QUEUES": json.dumps(queues),
            "EMQ_TEST_LEDGER": str(self.ledger.path),
        }
        if self.url:
            environment["EMQ_TEST_WORKER_URL"] = self.url
        log = self.folder / f"worker-{len(self.workers)}.log"
        worker = WorkerProcess(list(arguments), {**environment, **self.environment}, log)
        self.workers.append(worker)
        if ready:
            worker.wait_until_it_serves()
        return worker

    def burst(self, *arguments: str) -> WorkerProcess:
        """Run a worker until nothing is left."""
        worker = self.start("--burst", *arguments, ready=False)
        assert worker.exit_code() == 0, worker.log()
        return worker

    def add(self, *, lane: str | None = None, **order: Any) -> str:
        """Enqueue one job for ``zoo.work`` and return its id."""
        job_id, payload, where = mint.one(), json.dumps(order).encode(), keys(self.queue)
        if lane is None:
            wire_for(where).run(enqueue(where, job_id, payload))
        else:
            wire_for(where).run(enqueue_lane(where, job_id, payload, lane))
        return job_id

    def counts(self) -> Counts:
        return wire_for(keys(self.queue)).run(read.counts(keys(self.queue)))

    def row(self, job_id: str) -> Row | None:
        return wire_for(keys(self.queue)).run(read.row(keys(self.queue), job_id))

    def field(self, job_id: str, name: str) -> str | None:
        row = self.row(job_id)
        assert row is not None
        blob = row.fields.get(name)
        return None if blob is None or blob.value is None else blob.value.decode()

    def held_by(self, job_id: str) -> str | None:
        row = self.row(job_id)
        return None if row is None else row.held_by

    def started(self, times: int = 1) -> None:
        until(lambda: len(self.ledger.notes("start")) >= times, f"{times} starts")

    def empty(self) -> bool:
        """No job is left anywhere but in dead."""
        counts = self.counts()
        return not (counts.pending or counts.active or counts.scheduled or counts.lane_pending)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


def open_bench(queue: str, folder: Path) -> Iterator[Bench]:
    bench = Bench(queue, folder)
    yield bench
    bench.close()
