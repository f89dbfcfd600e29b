"""C51: a due job starts in time, whatever stands before it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import operate
from emq_django.protocol.enqueue import enqueue_in
from emq_django.protocol.ids import mint
from tests.worker.processes import WorkerProcess, until

if TYPE_CHECKING:
    from tests.worker.processes import Bench

CROWD, DELAY_MS, POLL_MS = 5_000, 1_000, 500


@pytest.mark.slow
@pytest.mark.parametrize("crowd", ["not due", "without rows", "due in a paused queue"])
def test_a_due_job_passes_thousands_that_cannot_move(
    bench: Bench, redis_client: Any, crowd: str
) -> None:
    where, paused = keys(bench.queue), keys(f"{bench.queue}-paused")
    hour_ms = (redis_client.time()[0] + 3_600) * 1_000
    ids = mint.many(CROWD)
    if crowd == "due in a paused queue":
        wire_for(paused).run(operate.pause(paused))
        with redis_client.pipeline(transaction=False) as pipeline:
            for job_id in ids:
                row = {"state": "scheduled", "attempts": 0, "payload": "{}"}
                pipeline.hset(paused.row(job_id), mapping=row)
            pipeline.zadd(paused.schedule, dict.fromkeys(ids, 1))
            pipeline.execute()
    else:
        score = hour_ms if crowd == "not due" else 1
        redis_client.zadd(where.schedule, dict.fromkeys(ids, score))
    serve(bench, paused.name, bench.queue)
    job_id = mint.one()
    wire_for(where).run(enqueue_in(where, job_id, b"{}", DELAY_MS))
    due_ms = redis_client.zscore(where.schedule, job_id)

    until(lambda: bench.ledger.count("end") == {job_id: 1}, "the due job ended")

    (start,) = bench.ledger.notes("start")
    assert due_ms - 5 <= start.time_ns / 1e6 <= due_ms + POLL_MS + 1_000


def serve(bench: Bench, *names: str) -> None:
    """Start a worker for several queues."""
    environment = {
        "DJANGO_SETTINGS_MODULE": "tests.worker.settings",
        "EMQ_TEST_QUEUES": json.dumps({name: {"HANDLER": bench.handler} for name in names}),
        "EMQ_TEST_LEDGER": str(bench.ledger.path),
    }
    worker = WorkerProcess(["--processes", "0", *names], environment, bench.folder / "log")
    bench.workers.append(worker)
    worker.wait_until_it_serves()
