"""What a worker is handed: marked rows, in turn, ghosts skipped, poison buried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emq_django.errors import InvalidDuration, InvalidInput
from emq_django.protocol import claim, enqueue, ids, settle
from emq_django.protocol.records import ClaimedJob
from tests.queue_state import read_state

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from tests.speakers import Speaker

LANE = "USR0KHTOWnGLuC"
LEASE_MS = 30_000


def put(speaker: Speaker, q: Queue, count: int, lane: str | None = None) -> list[str]:
    minted = ids.mint.many(count)
    speaker.run(enqueue.enqueue_many(q, [(job_id, b"p") for job_id in minted], lane))
    return minted


def take(speaker: Speaker, q: Queue, limit: int = 1, **options: Any) -> list[ClaimedJob]:
    return speaker.run(claim.take(q, "host.1.ab", LEASE_MS, limit, **options)).jobs


def test_a_taken_job_is_marked_with_its_worker_and_token(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    (job_id,) = put(speaker, q, 1)

    assert take(speaker, q) == [ClaimedJob(job_id, b"p", 1, q.name)]

    row = read_state(client, q).row(job_id)
    assert (row[b"state"], row[b"attempts"], row[b"payload"]) == (b"active", b"1", b"p")
    assert row[b"worker"] == b"host.1.ab:1"


def test_without_an_incarnation_there_is_no_mark(speaker: Speaker, client: Any, q: Queue) -> None:
    (job_id,) = put(speaker, q, 1)

    assert len(speaker.run(claim.take(q, "", LEASE_MS)).jobs) == 1

    assert b"worker" not in read_state(client, q).row(job_id)


def test_one_take_has_one_deadline(speaker: Speaker, client: Any, q: Queue) -> None:
    put(speaker, q, 3)
    put(speaker, q, 3, LANE)

    assert len(take(speaker, q, 10)) == 6

    assert len(set(read_state(client, q).value(b"active", b"zset").values())) == 1


@pytest.mark.parametrize("ring_first", [False, True])
def test_single_takes_alternate_when_the_caller_says_whose_turn_it_is(
    speaker: Speaker, q: Queue, *, ring_first: bool
) -> None:
    put(speaker, q, 2)
    put(speaker, q, 2, LANE)

    (job,) = take(speaker, q, ring_first=ring_first)

    assert (job.lane == LANE) == ring_first


def test_the_limit_is_kept_and_an_empty_side_gives_its_turn_away(
    speaker: Speaker, q: Queue
) -> None:
    flat, in_lane = put(speaker, q, 1), put(speaker, q, 5, LANE)

    assert {job.id for job in take(speaker, q, 4)} == {*flat, *in_lane[:3]}
    assert [job.id for job in take(speaker, q, 4)] == in_lane[3:]
    assert take(speaker, q, 4) == []


def test_ghosts_are_skipped_and_leave_nothing(speaker: Speaker, client: Any, q: Queue) -> None:
    client.zadd(q.pending, {f"JOB{n:011}": 0 for n in range(50)})
    client.hset(q.row("JOB00000000007"), "state", "pending")  # a skeleton of another's sweep
    minted = put(speaker, q, 2)

    assert [job.id for job in take(speaker, q, 2)] == minted

    assert read_state(client, q).rows.keys() == {job_id.encode() for job_id in minted}


def test_a_take_gives_up_after_100_looks_and_the_next_one_goes_on(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    client.zadd(q.pending, {f"JOB{n:011}": 0 for n in range(250)})
    (job_id,) = put(speaker, q, 1)

    answers = [take(speaker, q) for _ in range(3)]

    assert [[job.id for job in answer] for answer in answers] == [[], [], [job_id]]


def test_a_job_whose_token_cannot_rise_is_buried_with_the_reason(
    speaker: Speaker, client: Any, bare_q: Queue
) -> None:
    bad, good = put(speaker, bare_q, 2)
    client.hset(bare_q.row(bad), "attempts", "007")

    assert [job.id for job in take(speaker, bare_q)] == [good]

    state = read_state(client, bare_q)
    assert state.place(bad) == ["dead"]
    assert state.row(bad)[b"last_error"].startswith(b"damaged row")
    assert state.row(bad)[b"payload"] == b"p"
    assert state.value(b"metrics:failed", b"hash") == {b"count": b"1"}


@pytest.mark.parametrize("max_stalled", [0, 1, 2])
def test_a_mark_that_nobody_cleared_counts_as_a_lost_lease(
    speaker: Speaker, client: Any, q: Queue, max_stalled: int
) -> None:
    """Another speaker's reaper brings the job back and knows no marks."""
    (job_id,) = put(speaker, q, 1)
    take(speaker, q)
    client.zrem(q.active, job_id)
    client.hset(q.row(job_id), "state", "pending")
    client.zadd(q.pending, {job_id: 0})

    taken = take(speaker, q, max_stalled=max_stalled)

    row = read_state(client, q).row(job_id)
    assert row[b"stalled"] == b"1"
    if max_stalled == 1:
        assert taken == []
        assert row[b"state"] == b"dead"
        assert b"worker" not in row
    else:
        assert [(job.attempts, job.stalled, job.tries) for job in taken] == [(2, 1, 1)]


def test_a_mark_of_an_older_token_counts_for_nothing(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    (job_id,) = put(speaker, q, 1)
    (job,) = take(speaker, q)
    speaker.run(settle.release(q, job))
    client.hset(q.row(job_id), "worker", "other:0")

    (again,) = take(speaker, q)

    assert again.stalled == 0


def test_a_lanes_job_that_stands_in_the_flat_set_goes_home(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    (job_id,) = put(speaker, q, 1, LANE)
    client.zrem(q.lane(LANE), job_id)
    client.delete(q.ring)
    client.zadd(q.pending, {job_id: 0})
    client.hset(q.base + b"glimit", LANE, 1)

    (job,) = take(speaker, q)

    assert (job.id, job.lane) == (job_id, LANE)
    assert read_state(client, q).value(b"gactive", b"hash") == {LANE.encode(): b"1"}


@pytest.mark.parametrize("lane", ["", "\udcff", "x"])
def test_a_lane_of_any_name_that_another_speaker_made_up_is_served(
    speaker: Speaker, client: Any, q: Queue, lane: str
) -> None:
    job_id, raw = ids.mint.one(), lane.encode("utf-8", "surrogateescape")
    row = {"state": "pending", "attempts": "0", "payload": b"p", "group": raw}
    client.hset(q.row(job_id), mapping=row)
    client.zadd(q.lane(lane), {job_id: 0})
    client.rpush(q.ring, raw)

    (job,) = take(speaker, q)

    assert (job.id, job.lane) == (job_id, lane or None)


@pytest.mark.parametrize(("limit", "max_stalled"), [(0, 3), (1_001, 3), (1, -1), (1, 1_001)])
def test_counts_out_of_range_never_reach_the_wire(q: Queue, limit: int, max_stalled: int) -> None:
    with pytest.raises(InvalidInput):
        claim.take(q, "w", LEASE_MS, limit, max_stalled=max_stalled)


def test_a_lease_of_nothing_never_reaches_the_wire(q: Queue) -> None:
    with pytest.raises(InvalidDuration):
        claim.take(q, "w", 0)
