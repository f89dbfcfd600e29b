"""C33: leases that nobody brings back turn the health command red, and any worker heals them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.test import override_settings

from emq_django.conf import keys
from emq_django.protocol.ids import mint
from tests.operating.shell import run_here
from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.worker.processes import Bench

DAY_MS = 86_400_000


@pytest.mark.slow
def test_jobs_shown_as_running_for_a_day_alarm_and_come_back(
    bench: Bench, redis_client: Any
) -> None:
    where = keys(bench.queue)
    seconds, _ = redis_client.time()
    ids = mint.many(5)
    for job_id in ids:
        row = {"payload": "{}", "state": "active", "attempts": 1}
        redis_client.hset(where.row(job_id), mapping=row)
        redis_client.zadd(where.active, {job_id: seconds * 1_000 - DAY_MS})

    code, figure = health(bench.queue)
    assert code == 1
    assert figure >= 86_000_000

    bench.start()  # no special process: the reaper is in every worker
    until(lambda: len(bench.ledger.count("end")) == 5, "all have run")
    until(bench.empty, "nothing is left")
    assert health(bench.queue) == (0, 0)


def health(queue: str) -> tuple[int, int]:
    """Return the exit code and for how long the oldest lease has been over, in ms."""
    with override_settings(EMQ={**settings.EMQ, "QUEUES": {queue: {}}}):
        outcome = run_here("emq_health", queue, "--json")
        text = run_here("emq_health", queue)
    if outcome.code:
        assert "oldest expired lease 86" in text.out
    (said,) = json.loads(outcome.out)["queues"]
    return outcome.code, said["oldest_expired_lease_ms"]
