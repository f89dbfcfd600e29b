"""What an operator does to a queue and its jobs: every verdict, by both executors."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from emq_django import errors
from emq_django.protocol import claim, enqueue, ids, lanes, notes, operate, read, repeats, settle
from emq_django.protocol.operate import Drained, Obliterated, Removed, Reprocessed, Updated
from emq_django.protocol.records import JobSet, Verdict
from tests.acts import (
    LANE,
    LEASE_MS,
    OTHER_LANE,
    expire,
    kill,
    put,
    put_many,
    put_off,
    start,
    take_all,
    take_one,
)
from tests.queue_state import read_state

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from tests.speakers import Speaker

ABSENT = "JOB00000000001"

# --- Pause ----------------------------------------------------------------------------------------


def test_a_paused_queue_hands_out_nothing_and_takes_jobs_in(speaker: Speaker, q: Queue) -> None:
    assert speaker.run(operate.pause(q)) is True
    job_id, in_lane = put(speaker, q), put(speaker, q, lane=LANE)

    assert speaker.run(claim.claim(q, LEASE_MS)) is None
    assert take_all(speaker, q) == []
    assert speaker.run(operate.pause(q)) is False
    assert speaker.run(operate.resume(q)) is True
    assert {job.id for job in take_all(speaker, q)} == {job_id, in_lane}
    assert speaker.run(operate.resume(q)) is False


@pytest.mark.parametrize("value", ["1", "0", "", "false"])
def test_whatever_value_the_pause_has_it_pauses_and_resume_ends_it(
    speaker: Speaker, client: Any, q: Queue, value: str
) -> None:
    put(speaker, q)
    client.hset(q.meta, "paused", value)

    assert take_all(speaker, q) == []
    assert speaker.run(claim.claim(q, LEASE_MS)) is None
    speaker.run(operate.resume(q))
    assert len(take_all(speaker, q)) == 1


def test_a_pause_leaves_running_jobs_their_way_out(speaker: Speaker, q: Queue) -> None:
    job = start(speaker, q)
    speaker.run(operate.pause(q))

    assert speaker.run(settle.extend(q, job, LEASE_MS)) is Verdict.EXTENDED
    assert speaker.run(settle.complete(q, job)) is Verdict.COMPLETED


# --- Reprocess ------------------------------------------------------------------------------------


def test_a_dead_job_gets_all_its_tries_again_and_keeps_its_token(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    dead = kill(speaker, q)
    client.hset(q.row(dead.id), mapping={"stalled": 2, "custom": "kept"})

    assert speaker.run(operate.reprocess(q, [dead.id])) == [Reprocessed.PENDING]

    row = read_state(client, q).row(dead.id)
    row.pop(b"taken", None)
    assert row.pop(b"previous_error") == b"boom"
    assert row == {
        b"state": b"pending",
        b"attempts": b"1",
        b"payload": b"payload",
        b"custom": b"kept",
    }
    again = take_one(speaker, q)
    assert (again.attempts, again.tries) == (2, 0)
    assert speaker.run(settle.retry(q, again, "boom", 0, 2)) is Verdict.SCHEDULED


def test_a_dead_job_of_a_lane_goes_back_to_its_lane(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    dead = kill(speaker, q, LANE)

    speaker.run(operate.reprocess(q, [dead.id]))

    assert read_state(client, q).place(dead.id) == [f"g:{LANE}:pending"]
    assert take_one(speaker, q).lane == LANE


def test_only_dead_jobs_are_reprocessed(speaker: Speaker, client: Any, q: Queue) -> None:
    active = start(speaker, q).id
    waiting, parked = put(speaker, q), put_off(speaker, q)
    in_lane = put(speaker, q, lane=LANE)
    before = read_state(client, q)

    answers = speaker.run(operate.reprocess(q, [waiting, active, parked, in_lane, ABSENT]))

    assert answers == [*[Reprocessed.NOT_DEAD] * 4, Reprocessed.GONE]
    assert read_state(client, q) == before


def test_a_job_that_died_of_another_run_than_the_token_says_is_left_alone(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    first, other = kill(speaker, q), kill(speaker, q)
    speaker.run(operate.reprocess(q, [first.id], [str(first.attempts)]))
    again = take_one(speaker, q)
    speaker.run(settle.retry(q, again, "boom", 0, 1))
    before = read_state(client, q)

    stale = speaker.run(operate.reprocess(q, [first.id, ABSENT], [str(first.attempts), "1"]))
    assert stale == [Reprocessed.NOT_DEAD, Reprocessed.GONE]
    assert read_state(client, q) == before

    answers = speaker.run(operate.reprocess(q, [first.id, other.id], [str(again.attempts), ""]))
    assert answers == [Reprocessed.PENDING] * 2


def test_a_scheduled_job_that_ran_since_the_token_keeps_its_time(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    job = start(speaker, q)
    speaker.run(settle.retry(q, job, "boom", 600_000, 5))
    due = client.zscore(q.schedule, job.id)

    assert speaker.run(operate.hasten(q, [job.id], [str(job.attempts - 1)])) == [False]
    assert client.zscore(q.schedule, job.id) == due
    assert speaker.run(operate.hasten(q, [job.id], [str(job.attempts)])) == [True]
    assert client.zscore(q.schedule, job.id) < due


def test_a_ghost_among_the_dead_is_dropped(speaker: Speaker, client: Any, q: Queue) -> None:
    client.zadd(q.dead, {ABSENT: 0})

    assert speaker.run(operate.reprocess(q, [ABSENT])) == [Reprocessed.GONE]

    assert read_state(client, q).keys == {}


def test_many_are_reprocessed_in_one_step_each_with_its_answer(speaker: Speaker, q: Queue) -> None:
    put_many(speaker, q, 300)
    jobs = take_all(speaker, q, 300)
    for job in jobs:
        speaker.run(settle.retry(q, job, "boom", 0, 1))
    all_of_them = [job.id for job in jobs]

    answers = speaker.run(operate.reprocess(q, [*all_of_them, all_of_them[0]]))

    assert answers == [Reprocessed.PENDING] * 300 + [Reprocessed.NOT_DEAD]
    assert speaker.run(read.counts(q)).pending == 300


@pytest.mark.parametrize("count", [0, 1_001])
def test_no_step_takes_more_ids_than_a_script_can_handle(q: Queue, count: int) -> None:
    with pytest.raises(errors.InvalidInput, match="from 1 to 1000"):
        operate.reprocess(q, [ABSENT] * count)
    with pytest.raises(errors.InvalidInput, match="from 1 to 1000"):
        operate.remove(q, [ABSENT] * count)


# --- Remove ---------------------------------------------------------------------------------------


def test_a_job_is_removed_wherever_it_waits_with_all_that_is_its_own(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    dead = kill(speaker, q).id
    job_ids = [put(speaker, q), put(speaker, q, lane=LANE), put_off(speaker, q, LANE), dead]
    for job_id in job_ids:
        speaker.run(notes.add_log(q, job_id, "line"))
        client.set(q.row(job_id) + b":result", b"x")

    assert speaker.run(operate.remove(q, job_ids)) == [Removed.REMOVED] * 4

    assert set(read_state(client, q).keys) <= {b"metrics:failed", b"wake"}


def test_a_job_that_a_worker_holds_is_removed_only_on_request(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    job = start(speaker, q, LANE)
    speaker.run(lanes.limit_lane(q, LANE, 1))
    waiting = put(speaker, q, lane=LANE)

    assert speaker.run(operate.remove(q, [job.id])) == [Removed.ACTIVE]
    assert read_state(client, q).place(job.id) == ["active"]

    assert speaker.run(operate.remove(q, [job.id], also_active=True)) == [Removed.REMOVED]
    assert speaker.run(settle.complete(q, job)) is Verdict.GONE
    assert take_one(speaker, q).id == waiting  # the slot is free


def test_removing_the_last_job_of_a_lane_takes_the_lane_off_the_ring(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    job_id = put(speaker, q, lane=LANE)

    speaker.run(operate.remove(q, [job_id]))

    assert client.lrange(q.ring, 0, -1) == []


def test_a_missing_job_is_gone_and_its_ghosts_are_dropped(
    speaker: Speaker, client: Any, bare_q: Queue
) -> None:
    for key in (bare_q.pending, bare_q.active, bare_q.schedule, bare_q.dead):
        client.zadd(key, {ABSENT: 0})

    assert speaker.run(operate.remove(bare_q, [ABSENT])) == [Removed.GONE]

    assert read_state(client, bare_q).keys == {}


def test_another_speakers_lock_holds_a_job(speaker: Speaker, client: Any, q: Queue) -> None:
    job_id = put(speaker, q)
    client.set(q.row(job_id) + b":lock", "1", px=60_000)

    assert speaker.run(operate.remove(q, [job_id], also_active=True)) == [Removed.LOCKED]

    assert read_state(client, q).place(job_id) == ["pending"]
    client.delete(q.row(job_id) + b":lock")


def test_a_callers_dedup_key_goes_with_the_job_that_it_names(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    mine, other = put(speaker, q), put(speaker, q)
    client.set(q.base + b"de:mine", mine)
    client.set(q.base + b"de:other", other)

    speaker.run(operate.remove(q, [mine], dedup_id="other"))
    assert client.get(q.base + b"de:other") == other.encode()
    speaker.run(operate.remove(q, [other], dedup_id="other"))
    assert client.get(q.base + b"de:other") is None
    client.delete(q.base + b"de:mine")


def test_a_job_that_is_not_removed_keeps_its_dedup_key(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    job = start(speaker, q)
    client.set(q.base + b"de:key", job.id)

    assert speaker.run(operate.remove(q, [job.id], dedup_id="key")) == [Removed.ACTIVE]

    assert client.get(q.base + b"de:key") == job.id.encode()
    client.delete(q.base + b"de:key")


# --- Update payload -------------------------------------------------------------------------------


def test_a_job_that_no_worker_holds_gets_other_bytes(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    job_ids = [
        kill(speaker, q).id,
        put(speaker, q),
        put(speaker, q, lane=LANE),
        put_off(speaker, q),
    ]

    for job_id in job_ids:
        assert speaker.run(operate.update_payload(q, job_id, b"\0\r\n\xff")) is Updated.UPDATED
        assert read_state(client, q).row(job_id)[b"payload"] == b"\0\r\n\xff"


def test_a_running_job_keeps_its_bytes(speaker: Speaker, client: Any, q: Queue) -> None:
    job = start(speaker, q)

    assert speaker.run(operate.update_payload(q, job.id, b"other")) is Updated.ACTIVE
    assert speaker.run(operate.update_payload(q, ABSENT, b"other")) is Updated.GONE

    assert read_state(client, q).row(job.id)[b"payload"] == b"payload"


def test_a_payload_is_replaced_only_in_place_of_the_one_that_was_meant(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    job_id = put(speaker, q)
    digests = [hashlib.sha1(text).hexdigest() for text in (b"payload", b"another")]

    wrong = speaker.run(operate.update_payload(q, job_id, b"new", digests[1]))
    assert (wrong, read_state(client, q).row(job_id)[b"payload"]) == (Updated.CHANGED, b"payload")

    right = speaker.run(operate.update_payload(q, job_id, b"new", digests[0]))
    assert (right, read_state(client, q).row(job_id)[b"payload"]) == (Updated.UPDATED, b"new")


# --- Drain ----------------------------------------------------------------------------------------


def test_a_send_is_the_first_one_time_until_its_mark_ends(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    sends = [speaker.run(operate.once(q, send, 60_000)) for send in ("a", "a", "b", "a")]

    assert sends == [True, False, True, False]
    assert 0 < client.pttl(q.base + b"dj:once:a") <= 60_000
    client.delete(q.base + b"dj:once:a")
    assert speaker.run(operate.once(q, "a", 60_000))


@pytest.mark.parametrize("where", [JobSet.PENDING, JobSet.SCHEDULE, JobSet.DEAD, LANE])
def test_a_drain_removes_one_batch_of_one_set_and_says_what_is_left(
    speaker: Speaker, client: Any, q: Queue, where: JobSet | str
) -> None:
    makers: dict[str, Any] = {
        JobSet.PENDING: lambda: put(speaker, q),
        JobSet.SCHEDULE: lambda: put_off(speaker, q),
        JobSet.DEAD: lambda: kill(speaker, q).id,
        LANE: lambda: put(speaker, q, lane=LANE),
    }
    drained = [makers[where]() for _ in range(3)]
    kept = [make() for name, make in makers.items() if name not in {where, JobSet.DEAD}]
    speaker.run(notes.add_log(q, drained[0], "line"))

    assert speaker.run(operate.drain(q, where, batch=2)) == Drained(2, 1)
    assert speaker.run(operate.drain(q, where, batch=2)) == Drained(1, 0)
    assert speaker.run(operate.drain(q, where, batch=2)) == Drained(0, 0)

    state = read_state(client, q)
    assert set(state.rows) == {job_id.encode() for job_id in kept}
    assert not [name for name in state.keys if name.endswith(b":logs")]


def test_active_jobs_are_not_drained(q: Queue) -> None:
    with pytest.raises(errors.InvalidInput, match="active"):
        operate.drain(q, JobSet.ACTIVE)


def test_a_drained_job_frees_its_unique_key(speaker: Speaker, q: Queue) -> None:
    speaker.run(enqueue.readmit(q, ids.mint.one(), b"", unique="key"))

    speaker.run(operate.drain(q, JobSet.PENDING))

    answer = speaker.run(enqueue.readmit(q, ids.mint.one(), b"", unique="key"))
    assert answer is enqueue.Readmission.ADMITTED


# --- Obliterate -----------------------------------------------------------------------------------


def test_a_queue_is_obliterated_only_when_it_is_paused_and_idle(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    job = start(speaker, q)

    assert speaker.run(operate.obliterate(q)) is Obliterated.NOT_PAUSED
    speaker.run(operate.pause(q))
    assert speaker.run(operate.obliterate(q)) is Obliterated.ACTIVE
    assert read_state(client, q).place(job.id) == ["active"]

    assert speaker.run(operate.obliterate(q, force=True)) is Obliterated.DONE
    assert read_state(client, q).keys == {}


@pytest.mark.parametrize("batch", [1, 3, 1_000])
def test_obliterate_leaves_no_key_behind_in_steps_of_any_size(
    speaker: Speaker, client: Any, q: Queue, batch: int
) -> None:
    kill(speaker, q)
    start(speaker, q, OTHER_LANE)
    put_many(speaker, q, 4)
    put_many(speaker, q, 4, LANE)
    put_many(speaker, q, 2, OTHER_LANE)
    speaker.run(notes.add_log(q, put_off(speaker, q), "line"))
    speaker.run(lanes.limit_lane(q, OTHER_LANE, 1))
    speaker.run(lanes.pause_lane(q, LANE))
    speaker.run(lanes.weigh_lane(q, "USR00000000009", 4))
    speaker.run(repeats.register_repeat(q, "tick", 1_000, b""))
    speaker.run(enqueue.readmit(q, ids.mint.one(), b"", unique="key"))
    speaker.run(operate.limit_queue(q, 5, 5))
    speaker.run(operate.pause(q))
    steps = 1

    while speaker.run(operate.obliterate(q, force=True, batch=batch)) is Obliterated.MORE:
        steps += 1
        assert steps < 50
        assert client.hexists(q.meta, "paused")  # nobody is handed a job in between

    assert read_state(client, q).keys == {}


def test_obliterate_leaves_the_neighbours_alone(speaker: Speaker, client: Any, q: Queue) -> None:
    key = q.base[:-2] + b"2}:pending"
    client.zadd(key, {ABSENT: 0})
    speaker.run(operate.pause(q))

    speaker.run(operate.obliterate(q))

    assert client.delete(key) == 1


# --- State ----------------------------------------------------------------------------------------


def test_the_state_lookup_knows_every_place(speaker: Speaker, client: Any, q: Queue) -> None:
    active, dead = start(speaker, q).id, kill(speaker, q).id
    in_lane, parked, waiting = put(speaker, q, lane=LANE), put_off(speaker, q), put(speaker, q)

    def state_of(job_id: str) -> str:
        return speaker.run(read.state(q, job_id))

    assert [state_of(job_id) for job_id in (active, dead, in_lane, parked, waiting, ABSENT)] == [
        "active", "dead", "pending", "scheduled", "pending", "absent",
    ]  # fmt: skip


def test_a_row_in_no_set_is_unknown_or_waits_for_children(
    speaker: Speaker, client: Any, bare_q: Queue
) -> None:
    client.hset(bare_q.row(ABSENT), "state", "pending")
    assert speaker.run(read.state(bare_q, ABSENT)) == "unknown"

    client.hset(bare_q.row(ABSENT), "state", "awaiting_children")
    assert speaker.run(read.state(bare_q, ABSENT)) == "awaiting_children"


# --- Leases of several jobs, and jobs that are put off --------------------------------------------


def test_several_leases_end_later_at_one_time_and_the_lost_ones_are_named(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    put_many(speaker, q, 4)
    kept, expired, other_token, gone = take_all(speaker, q)
    expire(client, q, expired.id)
    speaker.run(settle.release(q, expired))
    speaker.run(settle.complete(q, gone))
    other_token = type(other_token)(other_token.id, b"", 9, q.name)

    lost = speaker.run(settle.extend_many(q, [kept, expired, other_token, gone], 600_000))

    assert lost == [expired.id, other_token.id, gone.id]
    state = read_state(client, q)
    assert state.place(expired.id) == ["pending"]
    assert state.value(b"active", b"zset")[kept.id.encode()] > client.time()[0] * 1000 + 590_000


def test_a_job_that_is_put_off_costs_no_try_and_comes_back_to_its_lane(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    speaker.run(lanes.limit_lane(q, LANE, 1))
    job = start(speaker, q, LANE)

    assert speaker.run(settle.delay(q, job, "at", 5)) is Verdict.SCHEDULED

    state = read_state(client, q)
    assert state.value(b"schedule", b"zset") == {job.id.encode(): 5.0}
    row = state.row(job.id)
    row.pop(b"taken", None)
    assert row == {
        b"state": b"scheduled", b"attempts": b"1", b"payload": b"payload", b"group": LANE.encode(),
    }  # fmt: skip
    put(speaker, q, lane=LANE)
    take_one(speaker, q)  # the lane's only slot was given back


def test_only_the_holder_puts_a_job_off(speaker: Speaker, client: Any, q: Queue) -> None:
    job = start(speaker, q)
    stranger = type(job)(job.id, b"", 2, q.name)
    assert speaker.run(settle.delay(q, stranger, "in", 0)) is Verdict.STALE
    speaker.run(settle.release(q, job))

    assert speaker.run(settle.delay(q, job, "in", 0)) is Verdict.STALE
    speaker.run(operate.remove(q, [job.id]))
    assert speaker.run(settle.delay(q, job, "in", 0)) is Verdict.GONE
    assert read_state(client, q).keys == {}
