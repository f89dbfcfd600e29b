"""A queue of tasks for each test, and workers for it in this process and as processes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.test import override_settings

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import read
from emq_django.workers import worker_for
from tests.worker.processes import WorkerProcess, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from emq_django.protocol.records import Counts
    from emq_django.worker.ending import Ended

TASKS = {"default": {"BACKEND": "emq_django.task_backend.EmqBackend", "QUEUES": []}}


@dataclass
class Desk:
    """One test's task queue."""

    queue: str
    folder: Path
    emq: dict[str, Any] = field(default_factory=dict)
    queues: dict[str, Any] = field(default_factory=dict)
    workers: list[WorkerProcess] = field(default_factory=list)

    def set(self, **emq: Any) -> override_settings:
        """Return settings with other values in EMQ, for this process and for workers to come."""
        self.emq.update(emq)
        names = {"QUEUES": {**self.queues, self.queue: self.queues.get(self.queue, {})}}
        return override_settings(EMQ={**settings.EMQ, **names, **self.emq})

    def run(self, *queues: str, **options: Any) -> Ended:
        """Run what is there, in this process, until nothing is left."""
        return worker_for(queues or (self.queue,), burst=True, **options).run()

    def start(self, *arguments: str, ready: bool = True) -> WorkerProcess:
        """Start a worker as a process."""
        queues = {**self.queues, self.queue: self.queues.get(self.queue, {})}
        environment = {
            "DJANGO_SETTINGS_MODULE": "tests.task_backend.settings",
            "EMQ_TEST_QUEUES": json.dumps(queues),
            "EMQ_TEST_EMQ": json.dumps(self.emq),
            "EMQ_TEST_LEDGER": str(self.ledger),
        }
        log = self.folder / f"worker-{len(self.workers)}.log"
        worker = WorkerProcess([*arguments, self.queue], environment, log)
        self.workers.append(worker)
        if ready:
            worker.wait_until_it_serves()
        return worker

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger"

    def notes(self, event: str | None = None) -> list[dict[str, Any]]:
        """Return what tasks noted, in order."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return [one for one in map(json.loads, lines) if event in {None, one["event"]}]

    def noted(self, event: str, times: int = 1) -> None:
        """Wait until tasks noted an event so often."""
        until(lambda: len(self.notes(event)) >= times, f"{times} x {event}")

    def counts(self, queue: str = "") -> Counts:
        named = keys(queue or self.queue)
        return wire_for(named).run(read.counts(named))

    def field(self, result_id: str, name: str) -> bytes | None:
        """Return a field of a job's row."""
        queue, _, job_id = result_id.rpartition(":")
        row = wire_for(keys(queue)).run(read.row(keys(queue), job_id))
        assert row is not None
        blob = row.fields.get(name)
        return None if blob is None else blob.value


@pytest.fixture
def desk(queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A task queue under settings of its own; its workers are killed at the end of the test."""
    monkeypatch.setenv("EMQ_TEST_LEDGER", str(tmp_path / "ledger"))
    made = Desk(queue, tmp_path)
    with override_settings(TASKS=TASKS):
        yield made
    for worker in made.workers:
        worker.close()
