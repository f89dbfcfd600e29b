"""C25: a holder whose lease went to a second one can't settle, and one end is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emq_django.protocol import claim, enqueue, ids, keyspace, settle, upkeep
from emq_django.protocol.records import Verdict
from tests.queue_state import check_invariants, read_state
from tests.speakers import EXECUTORS, speak

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from emq_django.protocol.calls import Call
    from emq_django.protocol.keyspace import Queue
    from emq_django.protocol.records import ClaimedJob
    from tests.servers import Server
    from tests.speakers import Speaker

REPORTS: dict[str, Callable[[Queue, ClaimedJob], Call[Any]]] = {
    "complete": lambda q, job: settle.complete(q, job, 60_000, events=True),
    "fail": lambda q, job: settle.retry(q, job, "boom", 0, 1, events=True),
    "retry": lambda q, job: settle.retry(q, job, "boom", 0, 9, events=True),
    "delay": lambda q, job: settle.delay(q, job, "in", 0, events=True),
    "release": settle.release,
    "extend": lambda q, job: settle.extend(q, job, 60_000),
}
LANE = "USR0KHTOWnGLuC"


@pytest.fixture(params=EXECUTORS)
def speaker(request: pytest.FixtureRequest, server: Server) -> Iterator[Speaker]:
    speaking = speak(request.param, server.port)
    yield speaking
    speaking.close()


@pytest.mark.parametrize("lane", [None, LANE], ids=["flat", "lane"])
def test_every_report_of_the_first_holder_is_stale_and_changes_nothing(
    speaker: Speaker, redis_client: Any, queue: str, lane: str | None
) -> None:
    q = keyspace.queue(queue)
    job_id = ids.mint.one()
    speaker.run(enqueue.enqueue_many(q, [(job_id, b"payload")], lane))
    first = _take(speaker, q)
    _expire(redis_client, q, job_id)
    assert speaker.run(upkeep.reap(q)).moved == 1
    second = _take(speaker, q)
    assert (first.attempts, second.attempts) == (1, 2)
    before = read_state(redis_client, q)

    with redis_client.pubsub() as events:
        events.subscribe(q.base + b"events")
        assert events.get_message(timeout=20)["type"] == "subscribe"
        for name, report in REPORTS.items():
            assert speaker.run(report(q, first)) is Verdict.STALE, name
        assert speaker.run(settle.extend_many(q, [first], 60_000)) == [job_id]
        assert speaker.run(settle.complete_many(q, [settle.Finished(first)])) == [Verdict.STALE]
        assert read_state(redis_client, q) == before

        assert speaker.run(REPORTS["complete"](q, second)) is Verdict.COMPLETED

        ended = [events.get_message(timeout=20)["data"], events.get_message(timeout=0.05)]
    assert b"completed" in ended[0]
    assert ended[1] is None
    assert redis_client.hget(q.base + b"metrics:completed", "count") == b"1"
    assert [speaker.run(report(q, second)) for report in REPORTS.values()] == [Verdict.GONE] * 6
    assert redis_client.hget(q.base + b"metrics:completed", "count") == b"1"
    check_invariants(redis_client, q)


@pytest.mark.parametrize("name", ["fail", "retry", "delay", "release", "extend"])
def test_before_the_second_claim_a_lost_lease_is_stale_but_finished_work_counts(
    speaker: Speaker, redis_client: Any, queue: str, name: str
) -> None:
    q = keyspace.queue(queue)
    job_id = ids.mint.one()
    speaker.run(enqueue.enqueue(q, job_id, b"payload"))
    first = _take(speaker, q)
    _expire(redis_client, q, job_id)
    speaker.run(upkeep.reap(q))
    before = read_state(redis_client, q)

    assert speaker.run(REPORTS[name](q, first)) is Verdict.STALE

    assert read_state(redis_client, q) == before
    assert speaker.run(settle.complete(q, first)) is Verdict.COMPLETED
    assert read_state(redis_client, q).places == {}


def _take(speaker: Speaker, q: Queue) -> ClaimedJob:
    (job,) = speaker.run(claim.take(q, "w", 30_000)).jobs
    return job


def _expire(client: Any, q: Queue, job_id: str) -> None:
    assert client.zadd(q.active, {job_id: 1}, xx=True, ch=True) == 1
