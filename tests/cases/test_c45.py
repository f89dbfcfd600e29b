"""C45: a waiting job never expires, and no expiry of 0 is ever sent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.api import enqueue, enqueue_in, retry
from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import operate, read, upkeep
from emq_django.protocol.claim import take
from emq_django.protocol.records import ClaimedJob, Verdict
from tests.task_backend import zoo

if TYPE_CHECKING:
    from tests.servers import Server
    from tests.task_backend.conftest import Desk

DAY_MS = 86_400_000
ENDS_AT_ONCE = re.compile(r"P?EXPIRE \S+ 0\b|P?SETEX \S+ 0\b|SET .* [EP]X 0\b")


def _take(queue: str) -> ClaimedJob:
    (job,) = wire_for(keys(queue)).run(take(keys(queue), "w", 60_000)).jobs
    return job


def test_no_row_of_a_living_job_has_an_end(queue: str, redis_client: Any) -> None:
    where = keys(queue)
    ends = {}
    job_id = enqueue(queue, b"x").id
    ends["pending"] = redis_client.ttl(where.row(job_id))
    job = _take(queue)
    ends["active"] = redis_client.ttl(where.row(job_id))
    assert retry(job, error="boom", delay_ms=400 * DAY_MS) is Verdict.SCHEDULED
    ends["retried"] = redis_client.ttl(where.row(job_id))
    later = enqueue_in(queue, b"x", 400 * DAY_MS).id
    ends["scheduled"] = redis_client.ttl(where.row(later))

    assert ends == dict.fromkeys(ends, -1)


@pytest.mark.parametrize("days", [10, 400])
def test_the_figures_of_a_job_are_intact_when_its_long_pause_ends(queue: str, days: int) -> None:
    where, wire = keys(queue), wire_for(keys(queue))
    job_id = enqueue(queue, b"x").id
    retry(_take(queue), error="first", delay_ms=0)
    assert wire.run(upkeep.promote(where)).moved == 1
    retry(_take(queue), error="second", delay_ms=days * DAY_MS)
    row = wire.run(read.row(where, job_id))
    assert row is not None
    assert row.score is not None
    assert abs(row.score - row.now_ms - days * DAY_MS) < 60_000

    wire.run(operate.hasten(where, [job_id]))
    assert wire.run(upkeep.promote(where)).moved == 1

    job = _take(queue)
    assert (job.id, job.attempts, job.failures) == (job_id, 3, 2)


@pytest.mark.parametrize("kept", [0, 1, None])
def test_no_option_makes_an_expiry_of_0(
    desk: Desk, server: Server, redis_client: Any, kept: int | None
) -> None:
    with desk.set(RESULT_TTL_S=kept, FINISHED_KEPT=kept):
        result = zoo.add.using(queue_name=desk.queue).enqueue(1)
        with server.client() as client, client.monitor() as monitor:
            desk.run()
            client.echo(desk.queue)
            # MONITOR also shows what scripts run inside.
            seen: list[str] = []
            while not seen or not seen[-1].startswith("ECHO"):
                seen.append(monitor.next_command()["command"].upper())

    assert any(one.startswith("HINCRBY") for one in seen), "nothing was seen of the scripts"
    assert not [one for one in seen if ENDS_AT_ONCE.match(one)]
    where, job_id = keys(desk.queue), result.id.rpartition(":")[2]
    left = redis_client.pttl(where.row(job_id) + b":result")
    most_ms = DAY_MS if kept is None else kept * 1_000
    assert left <= most_ms
    assert (left > 0) is (kept != 0)
