"""Ids without a row and rows in no set: found, and put where they belong, while others work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emq_django.protocol import enqueue, lanes, settle, upkeep
from emq_django.protocol.claim import claim, take
from emq_django.protocol.mend import Found, mend
from tests.queue_state import read_state

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from tests.speakers import SyncSpeaker

JOB, OTHER = "JOB00000000001", "JOB00000000002"
LANE, OTHER_LANE = "USR0KHTOWnGLuC", "USR0NgWEfAEJfs"
RAW = JOB.encode()


def one(speaker: SyncSpeaker, q: Queue, lane: str = "", *, fix: bool = True) -> Found:
    (found,) = speaker.run(mend(q, [RAW], lane.encode(), fix=fix))
    return found


def test_sound_jobs_are_left_alone(sync_speaker: SyncSpeaker, client: Any, q: Queue) -> None:
    sync_speaker.run(enqueue.enqueue(q, JOB, b"x"))
    sync_speaker.run(enqueue.enqueue_lane(q, OTHER, b"x", LANE))
    before = read_state(client, q)

    found = sync_speaker.run(mend(q, [RAW, OTHER.encode(), b"JOB00000000009"], fix=True))

    assert found == [Found.FINE, Found.FINE, Found.ABSENT]
    assert read_state(client, q) == before


def test_a_look_changes_nothing(sync_speaker: SyncSpeaker, client: Any, bare_q: Queue) -> None:
    sync_speaker.run(enqueue.enqueue(bare_q, JOB, b"x"))
    client.zrem(bare_q.pending, JOB)
    client.zadd(bare_q.dead, {OTHER: 0})
    before = read_state(client, bare_q)

    found = sync_speaker.run(mend(bare_q, [RAW, OTHER.encode()]))

    assert found == [Found.ORPHAN, Found.GHOST]
    assert read_state(client, bare_q) == before


@pytest.mark.parametrize("place", ["pending", "active", "schedule", "dead"])
def test_an_id_without_a_row_leaves_its_set(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, place: str
) -> None:
    client.zadd(q.base + place.encode(), {JOB: 5})

    assert one(sync_speaker, q) is Found.GHOST

    assert read_state(client, q).keys == {}
    assert one(sync_speaker, q) is Found.ABSENT


def test_an_id_without_a_row_leaves_its_lane_and_the_lane_the_ring(
    sync_speaker: SyncSpeaker, client: Any, q: Queue
) -> None:
    client.zadd(q.lane(LANE), {JOB: 0})
    client.rpush(q.ring, LANE)

    assert one(sync_speaker, q, LANE) is Found.GHOST

    assert read_state(client, q).keys == {}


def test_what_a_foreign_sweep_left_of_a_finished_job_goes(
    sync_speaker: SyncSpeaker, client: Any, q: Queue
) -> None:
    client.hset(q.row(JOB), "state", "pending")
    assert one(sync_speaker, q) is Found.HUSK
    assert read_state(client, q).keys == {}

    client.hset(q.row(JOB), "state", "pending")
    client.zadd(q.pending, {JOB: 0})
    assert one(sync_speaker, q) is Found.GHOST
    assert read_state(client, q).keys == {}


def test_a_pending_row_in_no_set_can_be_claimed_again(
    sync_speaker: SyncSpeaker, client: Any, q: Queue
) -> None:
    sync_speaker.run(enqueue.enqueue(q, JOB, b"x"))
    client.zrem(q.pending, JOB)

    assert one(sync_speaker, q) is Found.ORPHAN

    job = sync_speaker.run(claim(q, 30_000))
    assert job is not None
    assert (job.id, job.payload) == (JOB, b"x")


def test_a_job_of_a_lane_goes_home_and_its_lane_is_served(
    sync_speaker: SyncSpeaker, client: Any, q: Queue
) -> None:
    sync_speaker.run(enqueue.enqueue_lane(q, JOB, b"x", LANE))
    client.delete(q.lane(LANE), q.ring)

    assert one(sync_speaker, q) is Found.ORPHAN

    assert [job.lane for job in sync_speaker.run(take(q, "w", 30_000, 10)).jobs] == [LANE]


def test_a_scheduled_row_whose_time_is_lost_is_due_now(
    sync_speaker: SyncSpeaker, client: Any, q: Queue
) -> None:
    sync_speaker.run(enqueue.enqueue_in(q, JOB, b"x", 60_000))
    client.delete(q.schedule)

    assert one(sync_speaker, q) is Found.ORPHAN

    assert sync_speaker.run(upkeep.promote(q)).moved == 1


def test_a_running_job_that_no_set_holds_comes_back_as_a_lost_one(
    sync_speaker: SyncSpeaker, client: Any, q: Queue
) -> None:
    sync_speaker.run(enqueue.enqueue_lane(q, JOB, b"x", LANE))
    sync_speaker.run(take(q, "w", 30_000, 1))
    client.delete(q.active)

    assert one(sync_speaker, q) is Found.ORPHAN
    assert sync_speaker.run(upkeep.reap(q)).moved == 1

    (job,) = sync_speaker.run(take(q, "w", 30_000, 1)).jobs
    assert (job.attempts, job.stalled, job.lane) == (2, 1, LANE)
    assert client.hget(q.base + b"gactive", LANE) == b"1"


def test_a_dead_row_in_no_set_is_dead_again(
    sync_speaker: SyncSpeaker, client: Any, q: Queue
) -> None:
    sync_speaker.run(enqueue.enqueue(q, JOB, b"x"))
    job = sync_speaker.run(claim(q, 30_000))
    assert job is not None
    sync_speaker.run(settle.retry(q, job, "boom", 0, 1))
    client.delete(q.dead)

    assert one(sync_speaker, q) is Found.ORPHAN

    assert read_state(client, q).place(JOB) == ["dead"]


def test_a_parent_that_waits_for_its_children_is_no_orphan(
    sync_speaker: SyncSpeaker, client: Any, bare_q: Queue
) -> None:
    row = {"payload": "x", "state": "awaiting_children", "attempts": 0}
    client.hset(bare_q.row(JOB), mapping=row)

    assert one(sync_speaker, bare_q) is Found.FINE
    assert read_state(client, bare_q).place(JOB) == []


def test_a_job_in_another_lane_than_its_row_says_is_no_orphan(
    sync_speaker: SyncSpeaker, client: Any, bare_q: Queue
) -> None:
    sync_speaker.run(enqueue.enqueue_lane(bare_q, JOB, b"x", LANE))
    client.hset(bare_q.row(JOB), "group", OTHER_LANE)

    assert one(sync_speaker, bare_q) is Found.FINE
    assert read_state(client, bare_q).place(JOB) == [f"g:{LANE}:pending"]


def test_a_paused_lane_stays_off_the_ring(sync_speaker: SyncSpeaker, client: Any, q: Queue) -> None:
    sync_speaker.run(lanes.pause_lane(q, LANE))
    sync_speaker.run(enqueue.enqueue_lane(q, JOB, b"x", LANE))
    client.delete(q.lane(LANE))

    assert one(sync_speaker, q) is Found.ORPHAN

    assert client.lrange(q.ring, 0, -1) == []


def test_what_only_a_person_can_judge_is_told_and_left(
    sync_speaker: SyncSpeaker, client: Any, bare_q: Queue
) -> None:
    sync_speaker.run(enqueue.enqueue(bare_q, JOB, b"x"))
    client.zadd(bare_q.dead, {JOB: 0})
    client.set(bare_q.row(OTHER), "a string")
    before = read_state(client, bare_q)

    found = sync_speaker.run(mend(bare_q, [RAW, OTHER.encode()], fix=True))

    assert found == [Found.DOUBLE, Found.DAMAGED]
    assert read_state(client, bare_q) == before
