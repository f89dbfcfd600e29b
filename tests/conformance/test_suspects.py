"""Suspects, jobs that were lost with their worker before: handed over alone, and back in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emq_django.protocol import claim, recover, upkeep
from emq_django.protocol.records import Verdict
from tests.acts import LANE, LEASE_MS, expire, put, put_many, take_all
from tests.conformance.test_enqueue import now_ms
from tests.queue_state import check_invariants, read_state

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from tests.speakers import Speaker

PAUSE_MS = 60_000


def take(speaker: Speaker, q: Queue, limit: int = 10, **options: Any) -> list[str]:
    call = claim.take(q, "w", LEASE_MS, limit, suspects_alone=True, **options)
    return [job.id for job in speaker.run(call).jobs]


@pytest.mark.parametrize("lane", [None, LANE])
def test_a_suspect_is_never_in_a_batch(
    speaker: Speaker, client: Any, q: Queue, lane: str | None
) -> None:
    jobs = put_many(speaker, q, 6, lane)
    for number in (0, 3):
        client.hset(q.row(jobs[number]), "stalled", 1)

    batches = [take(speaker, q) for _ in range(5)]

    assert batches == [jobs[:1], jobs[1:3], jobs[3:4], jobs[4:], []]
    check_invariants(client, q)


def test_who_does_not_ask_for_it_gets_suspects_like_any_other(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    jobs = put_many(speaker, q, 3)
    client.hset(q.row(jobs[1]), "stalled", 1)

    assert [(job.id, job.stalled) for job in take_all(speaker, q)] == [
        (jobs[0], 0), (jobs[1], 1), (jobs[2], 0),
    ]  # fmt: skip


def test_a_suspect_holds_up_neither_the_set_nor_the_ring(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    flat, lane = put_many(speaker, q, 3), put_many(speaker, q, 3, LANE)
    for job_id in (flat[0], lane[0]):
        client.hset(q.row(job_id), "stalled", 1)

    batches = [take(speaker, q, ring_first=bool(number % 2)) for number in range(4)]

    assert batches[:2] == [[flat[0]], [lane[0]]]
    assert sorted(batches[2]) == sorted(flat[1:] + lane[1:])
    assert batches[3] == []


def test_a_mark_that_nobody_cleared_makes_a_suspect(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    """As another speaker's reaper leaves it."""
    first, lost, last = put_many(speaker, q, 3)
    client.hset(q.row(lost), mapping={"worker": "gone:4", "attempts": 4})

    assert [take(speaker, q) for _ in range(3)] == [[first], [lost], [last]]
    assert client.hget(q.row(lost), "stalled") == b"1"


def test_one_that_is_buried_does_not_end_a_call_with_nothing(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    lost, good = put_many(speaker, q, 2)
    client.hset(q.row(lost), mapping={"worker": "gone:4", "attempts": 4, "stalled": 2})

    assert take(speaker, q, limit=1) == [good]
    assert read_state(client, q).place(lost) == ["dead"]


@pytest.mark.parametrize("lane", [None, LANE])
@pytest.mark.parametrize("way", ["reap", "hand_back"])
def test_from_its_second_loss_a_job_returns_later(
    speaker: Speaker, client: Any, q: Queue, way: str, lane: str | None
) -> None:
    ids = [put(speaker, q, lane=lane) for _ in range(3)]
    jobs = take_all(speaker, q)
    for job_id, stalled in zip(ids, (0, 1, 1), strict=True):
        client.hset(q.row(job_id), "stalled", stalled)
    before_ms = now_ms(client)

    if way == "reap":
        expire(client, q, *ids)
        assert speaker.run(upkeep.reap(q, pause_ms=PAUSE_MS)).moved == 3
    else:
        held = [recover.Held(job.id, job.attempts, lost=True) for job in jobs]
        verdicts = speaker.run(recover.hand_back(q, held, pause_ms=PAUSE_MS))
        assert verdicts == [Verdict.RELEASED] * 3

    state = check_invariants(client, q)
    waiting = f"g:{lane}:pending" if lane else "pending"
    assert [state.place(job_id) for job_id in ids] == [[waiting], ["schedule"], ["schedule"]]
    assert [state.row(job_id)[b"state"] for job_id in ids] == [
        b"pending", b"scheduled", b"scheduled",
    ]  # fmt: skip
    dues = [client.zscore(q.schedule, job_id) for job_id in ids[1:]]
    assert before_ms + PAUSE_MS <= dues[0] < dues[1] <= now_ms(client) + 2 * PAUSE_MS
    for job_id in ids[1:]:
        client.zadd(q.schedule, {job_id: 1})
    assert speaker.run(upkeep.promote(q)).moved == 2
    assert [take(speaker, q) for _ in range(3)] == [[job_id] for job_id in ids]


def test_a_job_that_had_not_begun_returns_at_once(speaker: Speaker, client: Any, q: Queue) -> None:
    job_id = put(speaker, q)
    (job,) = take_all(speaker, q)
    client.hset(q.row(job_id), "stalled", 2)

    held = [recover.Held(job.id, job.attempts)]
    assert speaker.run(recover.hand_back(q, held, pause_ms=PAUSE_MS)) == [Verdict.RELEASED]

    assert read_state(client, q).place(job_id) == ["pending"]
