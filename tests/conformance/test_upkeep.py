"""The sweeps: what is due goes on, what was lost comes back, in bounded steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emq_django.errors import InvalidInput
from emq_django.protocol import claim, enqueue, ids, upkeep
from emq_django.protocol.records import Swept
from tests.queue_state import read_state

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from tests.speakers import Speaker

LANES = ("USR0KHTOWnGLuC", "USR0NgWEfAEJfs")
HOUR_MS = 3_600_000


def leased(speaker: Speaker, client: Any, q: Queue, count: int, lane: str | None = None) -> None:
    """Put `count` jobs under leases that have ended."""
    for start in range(0, count, 100):
        minted = ids.mint.many(min(100, count - start))
        speaker.run(enqueue.enqueue_many(q, [(job_id, b"p") for job_id in minted], lane))
    speaker.run(claim.take(q, "w", HOUR_MS, count))
    client.zadd(q.active, dict.fromkeys(client.zrange(q.active, 0, -1), 1))


@pytest.mark.parametrize("lane", [None, LANES[0]])
def test_a_job_whose_lease_ended_comes_back_with_a_lost_lease_to_its_name(
    speaker: Speaker, client: Any, q: Queue, lane: str | None
) -> None:
    leased(speaker, client, q, 1, lane)

    assert speaker.run(upkeep.reap(q)) == Swept(moved=1, dead=0, dropped=0, seen=1)

    state = read_state(client, q)
    ((job_id, row),) = state.rows.items()
    assert state.places == {job_id: [f"g:{lane}:pending".encode() if lane else b"pending"]}
    assert row is not None
    assert (row[b"state"], row[b"attempts"], row[b"stalled"]) == (b"pending", b"1", b"1")
    assert b"worker" not in row
    assert state.value(b"gactive", b"hash") == {}


def test_a_lease_that_has_not_ended_is_left_alone(speaker: Speaker, client: Any, q: Queue) -> None:
    speaker.run(enqueue.enqueue(q, ids.mint.one(), b""))
    speaker.run(claim.claim(q, HOUR_MS))
    before = read_state(client, q)

    assert speaker.run(upkeep.reap(q)) == Swept(0, 0, 0, 0)

    assert read_state(client, q) == before


@pytest.mark.parametrize("sweep", ["reap", "promote"])
def test_a_sweep_is_bounded_and_says_when_nothing_is_left(
    speaker: Speaker, client: Any, q: Queue, sweep: str
) -> None:
    if sweep == "reap":
        leased(speaker, client, q, 25)
    else:
        speaker.run_many([enqueue.enqueue_at(q, job_id, b"", 1) for job_id in ids.mint.many(25)])
    call = upkeep.reap(q, 10) if sweep == "reap" else upkeep.promote(q, 10)

    answers = [speaker.run(call) for _ in range(4)]

    assert [(swept.moved, swept.seen) for swept in answers] == [(10, 10), (10, 10), (5, 5), (0, 0)]


def test_1000_jobs_of_two_lanes_come_back_in_one_sweep(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    leased(speaker, client, q, 500, LANES[0])
    leased(speaker, client, q, 400, LANES[1])
    leased(speaker, client, q, 100)

    assert speaker.run(upkeep.reap(q, 1_000)).moved == 1_000

    state = read_state(client, q)
    assert {lane: len(waiting) for lane, waiting in state.lanes.items()} == {
        LANES[0].encode(): 500, LANES[1].encode(): 400,
    }  # fmt: skip
    assert len(state.value(b"pending", b"zset")) == 100


def test_a_job_that_lost_too_many_leases_is_buried(speaker: Speaker, client: Any, q: Queue) -> None:
    leased(speaker, client, q, 2, LANES[0])
    first = client.zrange(q.active, 0, 0)[0].decode()
    client.hset(q.row(first), "stalled", 2)

    assert speaker.run(upkeep.reap(q)) == Swept(moved=1, dead=1, dropped=0, seen=2)

    state = read_state(client, q)
    assert state.place(first) == ["dead"]
    assert state.row(first)[b"last_error"] == b"stalled: the worker was lost 3 times"
    assert state.value(b"metrics:failed", b"hash") == {b"count": b"1"}


def test_nothing_is_buried_when_that_is_asked_for(speaker: Speaker, client: Any, q: Queue) -> None:
    leased(speaker, client, q, 1)
    job_id = client.zrange(q.active, 0, 0)[0].decode()
    client.hset(q.row(job_id), "stalled", 99)

    assert speaker.run(upkeep.reap(q, max_stalled=0)).moved == 1


@pytest.mark.parametrize("sweep", ["reap", "promote"])
def test_ids_without_a_job_are_dropped_and_leave_no_skeleton(
    speaker: Speaker, client: Any, q: Queue, sweep: str
) -> None:
    key = q.active if sweep == "reap" else q.schedule
    client.zadd(key, {"JOB00000000001": 1, "JOB00000000002": 1})
    client.hset(q.row("JOB00000000002"), "state", "pending")
    call = upkeep.reap(q) if sweep == "reap" else upkeep.promote(q)

    assert speaker.run(call) == Swept(moved=0, dead=0, dropped=2, seen=2)

    assert read_state(client, q).keys == {}


def test_a_due_job_joins_its_lane_and_wakes_one_parked_consumer(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    for job_id in ids.mint.many(3):
        speaker.run(enqueue.enqueue_at(q, job_id, b"", 1, LANES[0]))

    assert speaker.run(upkeep.promote(q)).moved == 3

    state = read_state(client, q)
    assert state.value(b"ring", b"list") == [LANES[0].encode()]
    assert state.value(b"wake", b"list") == [b"1"]


def test_paused_and_full_lanes_get_their_jobs_back_and_stay_off_the_ring(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    leased(speaker, client, q, 2, LANES[0])
    leased(speaker, client, q, 2, LANES[1])
    client.sadd(q.base + b"paused", LANES[0])
    client.hset(q.base + b"glimit", LANES[1], 1)
    held = client.zrange(q.active, -1, -1)[0]
    client.zadd(q.active, {held: 2**42})

    assert speaker.run(upkeep.reap(q)).moved == 3

    state = read_state(client, q)
    assert state.value(b"ring", b"list") == []
    assert state.value(b"gactive", b"hash") == {LANES[1].encode(): b"1"}


@pytest.mark.parametrize("batch", [0, -1, 1_001, True, "1", 1.5])
def test_a_batch_out_of_range_never_reaches_the_wire(q: Queue, batch: Any) -> None:
    with pytest.raises(InvalidInput, match="batch="):
        upkeep.reap(q, batch)
    with pytest.raises(InvalidInput, match="batch="):
        upkeep.promote(q, batch)
    with pytest.raises(InvalidInput, match="max_stalled="):
        upkeep.reap(q, max_stalled=-1)


def buried(client: Any, q: Queue, count: int, **fields: str) -> list[str]:
    """Put `count` jobs into dead that do not say when they died, unless `fields` do."""
    minted = ids.mint.many(count)
    row = {"state": "dead", "attempts": "1", "payload": "p", "failures": "1", **fields}
    for job_id in minted:
        client.hset(q.row(job_id), mapping=row)
        client.hset(q.row(job_id) + b":logs", "x", "y")
        client.zadd(q.dead, {job_id: 0})
    return minted


def left(client: Any, q: Queue) -> list[str]:
    return [job_id.decode() for job_id in client.zrange(q.dead, 0, -1)]


def test_dead_jobs_beyond_a_number_go_the_oldest_first_with_all_that_is_theirs(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    minted = buried(client, q, 7)

    first = speaker.run(upkeep.trim_dead(q, 2, 0, batch=3))
    second = speaker.run(upkeep.trim_dead(q, 2, 0, batch=3))
    third = speaker.run(upkeep.trim_dead(q, 2, 0, batch=3))

    assert first == upkeep.Trimmed(3, 3, True, minted[0], minted[2])
    assert second == upkeep.Trimmed(2, 3, False, minted[3], minted[4])
    assert third == upkeep.Trimmed(0, 2, False, "", "")
    assert left(client, q) == minted[5:]
    assert client.keys(q.row(minted[0]) + b"*") == []


def test_dead_jobs_go_by_the_time_of_their_death_or_else_of_their_id(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    now_ms = ids.minted_ms(ids.mint.one())
    early = [ids.first_id_at(now_ms - HOUR_MS + number) for number in range(6)]
    died = [f"{now_ms - 2 * HOUR_MS}:1", f"{now_ms}:1", f"{now_ms}:9", "", "x", f"{now_ms}:1"]
    for job_id, when in zip(early, died, strict=True):
        row = {"state": "dead", "attempts": "1", "payload": "p"} | ({"died": when} if when else {})
        client.hset(q.row(job_id), mapping=row)
        client.zadd(q.dead, {job_id: 0})
    young = buried(client, q, 1)

    trimmed = speaker.run(upkeep.trim_dead(q, 100, now_ms - HOUR_MS // 2))

    assert trimmed == upkeep.Trimmed(4, 7, False, early[0], early[4])
    assert left(client, q) == [early[1], early[5], *young]


def test_a_walk_over_dead_jobs_goes_on_behind_those_that_stay(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    now_ms = ids.minted_ms(ids.mint.one())
    minted = buried(client, q, 4, died=f"{now_ms}:1") + buried(client, q, 2)
    before_ms = now_ms - 1

    offset, more, seen = 0, True, 0
    while more:
        step = speaker.run(upkeep.trim_dead(q, 100, before_ms, offset, 2))
        offset, more, seen = offset + step.seen - step.removed, step.more, seen + step.seen

    assert seen == 2, "what was made after the moment can't have died before it"
    assert left(client, q) == minted


@pytest.mark.parametrize("place", ["active", "pending", "schedule", "lane", "lock", "revived"])
def test_a_dead_job_that_is_somebody_elses_by_now_is_left_alone(
    speaker: Speaker, client: Any, bare_q: Queue, place: str
) -> None:
    job_id, other = buried(client, bare_q, 2)
    if place == "lock":
        client.set(bare_q.row(job_id) + b":lock", "1")
    elif place == "revived":
        client.hset(bare_q.row(job_id), "state", "pending")
    elif place == "lane":
        client.hset(bare_q.row(job_id), "group", LANES[0])
        client.zadd(bare_q.lane(LANES[0]), {job_id: 0})
    else:
        client.zadd(bare_q.base + place.encode(), {job_id: 2**42})
        if place == "active":
            client.hset(bare_q.row(job_id), "state", "active")
    buried(client, bare_q, 1)

    trimmed = speaker.run(upkeep.trim_dead(bare_q, 1, 0))

    assert trimmed.removed == 1
    assert job_id in left(client, bare_q)
    assert other not in left(client, bare_q)


def test_an_entry_without_a_row_or_with_a_damaged_one_goes_too(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    ghost, damaged, kept = ids.mint.many(3)
    client.set(q.row(damaged), "no hash")
    buried_row = {"state": "dead", "attempts": "1", "payload": "p"}
    client.hset(q.row(kept), mapping=buried_row)
    client.zadd(q.dead, dict.fromkeys((ghost, damaged, kept), 0))

    assert speaker.run(upkeep.trim_dead(q, 1, 0)).removed == 2

    assert left(client, q) == [kept]
    assert not client.exists(q.row(damaged))


@pytest.mark.parametrize("kept", [0, -1, 2**31 + 1, 1.5, True, "9"])
def test_a_number_of_dead_jobs_to_keep_is_checked_before_anything_is_sent(
    q: Queue, kept: Any
) -> None:
    with pytest.raises(InvalidInput, match="kept="):
        upkeep.trim_dead(q, kept, 0)
