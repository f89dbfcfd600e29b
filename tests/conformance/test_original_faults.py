"""Faults of the original: the recipe by its own transitions, then what ours makes of it.

`theirs` is a queue that only the original touches, `q` is ours and lawful when the test ends.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
import redis

from emq_django import errors
from emq_django.protocol import claim, enqueue, ids, keyspace, lanes, operate, repeats, settle
from emq_django.protocol import upkeep as keep
from emq_django.protocol.operate import Drained, Obliterated, Removed, Reprocessed
from emq_django.protocol.records import ClaimedJob, JobSet, Swept, Verdict
from emq_django.protocol.repeats import Firing
from tests.acts import (
    LANE,
    LEASE_MS,
    OTHER_LANE,
    expire,
    fall_due,
    kill,
    put,
    put_many,
    start,
    take_all,
    take_one,
)
from tests.foreign import Foreign, ForeignJob
from tests.queue_state import read_state, remove_queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emq_django.protocol.keyspace import Queue
    from tests.speakers import SyncSpeaker


@pytest.fixture
def theirs(client: Any) -> Iterator[Foreign]:
    """The original, alone on a queue of its own."""
    keys = keyspace.queue(f"q{uuid.uuid4().hex[:12]}")
    yield Foreign(client, keys)
    remove_queue(client, keys)


@pytest.fixture
def beside(client: Any, q: Queue) -> Foreign:
    """The original beside us on our queue."""
    return Foreign(client, q)


def theirs_started(theirs: Foreign, lane: str | None = None) -> ForeignJob:
    job_id = ids.mint.one()
    if lane is None:
        theirs.enqueue(job_id, b"payload")
        job = theirs.claim()
    else:
        theirs.lane_enqueue(job_id, b"payload", lane)
        job = theirs.lane_claim()
    assert job is not None
    assert job.id == job_id
    return job


def place(client: Any, q: Queue, job_id: str) -> list[str]:
    return read_state(client, q).place(job_id)


def in_flight(client: Any, q: Queue, lane: str = LANE) -> int:
    return int(client.hget(q.base + b"gactive", lane) or 0)


def as_ours(job: ForeignJob, q: Queue) -> ClaimedJob:
    """Return a job that the original claimed as our settlements take it."""
    return ClaimedJob(job.id, job.payload or b"", job.attempts, q.name, job.lane)


def leave_ghost(foreign: Foreign) -> str:
    """Make a due id without a row: a job that was retried, then completed."""
    job = theirs_started(foreign)
    foreign.retry(job.id, job.attempts)
    foreign.complete(job.id, job.attempts)
    return job.id


# --- F1 F2: ghosts --------------------------------------------------------------------------------


@pytest.mark.parametrize("guarded", [True, False])
def test_f1_the_original_promotes_a_ghost_and_hands_it_out(theirs: Foreign, guarded: bool) -> None:
    ghost = leave_ghost(theirs)
    theirs.promote()

    assert theirs.claim(guarded=guarded) == ForeignJob(ghost, None, 1)


def test_f1_ours_drops_a_ghost_at_each_sweep(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, beside: Foreign
) -> None:
    leave_ghost(beside)
    assert sync_speaker.run(keep.promote(q)) == Swept(moved=0, dead=0, dropped=1, seen=1)
    client.zadd(q.active, {leave_ghost(beside): 1})
    assert sync_speaker.run(keep.reap(q)) == Swept(moved=0, dead=0, dropped=1, seen=1)
    sync_speaker.run(keep.promote(q))

    assert set(read_state(client, q).keys) == {b"metrics:completed"}


def test_f1_ours_hands_out_no_ghost_that_a_foreign_sweep_made(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, beside: Foreign
) -> None:
    leave_ghost(beside)
    leave_ghost(beside)
    beside.promote()
    job_id = put(sync_speaker, q)

    assert sync_speaker.run(claim.claim(q, LEASE_MS)) is None  # consumed
    assert take_one(sync_speaker, q).id == job_id


@pytest.mark.parametrize(("most", "kept_in"), [(9, "schedule"), (1, "dead")])
def test_f2_a_late_completion_leaves_the_id_behind_and_ours_does_not(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, theirs: Foreign, beside: Foreign,
    most: int, kept_in: str,
) -> None:  # fmt: skip
    job = theirs_started(theirs)
    theirs.retry(job.id, job.attempts, 60_000, most)
    assert theirs.complete(job.id, job.attempts) == 1
    state = read_state(client, theirs.queue)
    assert (state.place(job.id), state.row(job.id)) == ([kept_in], {})

    job = theirs_started(beside)
    beside.retry(job.id, job.attempts, 60_000, most)
    assert sync_speaker.run(settle.complete(q, as_ours(job, q))) is Verdict.COMPLETED
    assert place(client, q, job.id) == []


def test_f2_a_ghost_among_the_dead_is_gone_for_ever_and_ours_drops_it(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, beside: Foreign
) -> None:
    job = theirs_started(beside)
    beside.retry(job.id, job.attempts, most=1)
    beside.complete(job.id, job.attempts)
    assert [beside.reprocess(job.id) for _ in range(2)] == [-1, -1]
    assert place(client, q, job.id) == ["dead"]

    assert sync_speaker.run(operate.reprocess(q, [job.id])) == [Reprocessed.GONE]
    assert place(client, q, job.id) == []


# --- F3 F4 F5: one id in two sets -----------------------------------------------------------------


def end_lease(foreign: Foreign, job: ForeignJob, how: str) -> None:
    if how == "reap":
        expire(foreign.client, foreign.queue, job.id)
        foreign.reap()
    elif how == "retry":
        foreign.retry(job.id, job.attempts, 60_000, 9)
    else:
        foreign.retry(job.id, job.attempts, most=1)


ENDS = [("reap", "pending"), ("retry", "schedule"), ("death", "dead")]


@pytest.mark.parametrize("lane", [None, LANE])
@pytest.mark.parametrize(("how", "moved_to"), ENDS)
def test_f3_an_extend_after_the_lease_puts_the_id_into_two_sets_and_ours_is_stale(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, theirs: Foreign, beside: Foreign,
    how: str, moved_to: str, lane: str | None,
) -> None:  # fmt: skip
    if lane and moved_to == "pending":
        moved_to = f"g:{lane}:pending"
    job = theirs_started(theirs, lane)
    end_lease(theirs, job, how)
    assert theirs.extend(job.id, job.attempts) == 1
    assert sorted(place(client, theirs.queue, job.id)) == sorted(["active", moved_to])

    job = theirs_started(beside, lane)
    end_lease(beside, job, how)
    held = as_ours(job, q)
    assert sync_speaker.run(settle.extend(q, held, LEASE_MS)) is Verdict.STALE
    assert sync_speaker.run(settle.extend_many(q, [held], LEASE_MS)) == [job.id]
    assert place(client, q, job.id) == [moved_to]


def test_f3_a_dead_job_is_claimed_again(theirs: Foreign) -> None:
    job = theirs_started(theirs)
    theirs.retry(job.id, job.attempts, most=1)
    theirs.extend(job.id, job.attempts)
    expire(theirs.client, theirs.queue, job.id)
    theirs.reap()

    assert theirs.claim() == ForeignJob(job.id, b"payload", 2)


@pytest.mark.parametrize("lane", [None, LANE])
@pytest.mark.parametrize(("how", "moved_to"), ENDS)
def test_f3_ours_puts_an_id_in_two_sets_right_and_keeps_the_lanes_count(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, beside: Foreign,
    how: str, moved_to: str, lane: str | None,
) -> None:  # fmt: skip
    """Another job of the lane stays in flight: its slot must not be given away."""
    if lane:
        put(sync_speaker, q, lane=lane)
        take_one(sync_speaker, q)
    job = theirs_started(beside, lane)
    end_lease(beside, job, how)
    beside.extend(job.id, job.attempts)
    held = as_ours(job, q)

    assert sync_speaker.run(settle.extend(q, held, LEASE_MS)) is Verdict.STALE
    assert sync_speaker.run(settle.extend_many(q, [held], LEASE_MS)) == [job.id]
    assert sync_speaker.run(settle.retry(q, held, "boom", 0, 9)) is Verdict.STALE
    assert sync_speaker.run(settle.delay(q, held, "in", 0)) is Verdict.STALE
    assert sync_speaker.run(settle.release(q, held)) is Verdict.STALE
    expire(client, q, job.id)
    assert sync_speaker.run(keep.reap(q)) == Swept(moved=0, dead=0, dropped=1, seen=1)

    expected = f"g:{lane}:pending" if lane and moved_to == "pending" else moved_to
    assert place(client, q, job.id) == [expected]


@pytest.mark.parametrize("lane", [None, LANE])
@pytest.mark.parametrize("how", ["reap", "retry", "death"])
@pytest.mark.parametrize("verb", ["complete", "complete_many", "remove", "drain", "sweep"])
def test_f3_each_of_our_verbs_ends_an_id_in_two_sets(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, beside: Foreign,
    how: str, verb: str, lane: str | None,
) -> None:  # fmt: skip
    if lane:
        put(sync_speaker, q, lane=lane)
        take_one(sync_speaker, q)
    job = theirs_started(beside, lane)
    end_lease(beside, job, how)
    beside.extend(job.id, job.attempts)
    held = as_ours(job, q)

    if verb == "complete":
        assert sync_speaker.run(settle.complete(q, held)) is Verdict.COMPLETED
    elif verb == "complete_many":
        ends = [settle.Finished(held)]
        assert sync_speaker.run(settle.complete_many(q, ends)) == [Verdict.COMPLETED]
    elif verb == "remove":
        assert sync_speaker.run(operate.remove(q, [job.id])) == [Removed.REMOVED]
    elif verb == "drain":
        waiting: JobSet | str = lane or JobSet.PENDING
        drained = {"reap": waiting, "retry": JobSet.SCHEDULE, "death": JobSet.DEAD}[how]
        assert sync_speaker.run(operate.drain(q, drained)) == Drained(1, 0)
        assert place(client, q, job.id) == []
    elif how == "retry":
        fall_due(client, q, job.id)
        assert sync_speaker.run(keep.promote(q)).moved == 1
    elif how == "death":
        assert sync_speaker.run(operate.reprocess(q, [job.id])) == [Reprocessed.PENDING]
    else:
        assert take_one(sync_speaker, q).id == job.id


@pytest.mark.parametrize("lane", [None, LANE])
def test_f3_a_lease_that_its_lane_counts_no_more_gives_back_no_slot(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, beside: Foreign, lane: str | None
) -> None:
    """The foreign extend brought the lease back, and the entry that the retry made is lost."""
    if lane:
        put(sync_speaker, q, lane=lane)
        take_one(sync_speaker, q)
    job = theirs_started(beside, lane)
    end_lease(beside, job, "retry")
    beside.extend(job.id, job.attempts)
    client.zrem(q.schedule, job.id)
    expire(client, q, job.id)

    assert sync_speaker.run(keep.reap(q)).moved == 1

    assert in_flight(client, q) == (1 if lane else 0)


@pytest.mark.parametrize("lane", [None, LANE])
@pytest.mark.parametrize("leased", [False, True])
def test_a_drain_leaves_a_job_that_another_set_holds_by_right(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, beside: Foreign,
    lane: str | None, leased: bool,
) -> None:  # fmt: skip
    """A foreign delay after a reap; then, where it is leased, a foreign claim of what waits."""
    job = theirs_started(beside, lane)
    end_lease(beside, job, "reap")
    beside.delay(job.id, job.attempts, 60_000)
    if leased:
        assert (beside.lane_claim() if lane else beside.claim()) is not None
    drained = JobSet.SCHEDULE if leased else lane or JobSet.PENDING

    assert sync_speaker.run(operate.drain(q, drained)) == Drained(1, 0)

    assert place(client, q, job.id) == ["active" if leased else "schedule"]


def test_f4_a_delay_after_a_reap_makes_a_second_entry_and_ours_is_stale(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, theirs: Foreign
) -> None:
    job = theirs_started(theirs)
    end_lease(theirs, job, "reap")
    assert theirs.delay(job.id, job.attempts, 60_000) == 1
    assert sorted(place(client, theirs.queue, job.id)) == ["pending", "schedule"]

    ours = start(sync_speaker, q)
    expire(client, q, ours.id)
    sync_speaker.run(keep.reap(q))
    assert sync_speaker.run(settle.delay(q, ours, "in", 60_000)) is Verdict.STALE
    assert place(client, q, ours.id) == ["pending"]


@pytest.mark.parametrize("verb", ["claim", "take"])
@pytest.mark.parametrize("lane", [None, LANE])
def test_f4_our_next_claim_leaves_one_entry_and_one_slot(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, beside: Foreign, lane: str | None, verb: str
) -> None:
    job = theirs_started(beside, lane)
    end_lease(beside, job, "reap")
    beside.delay(job.id, job.attempts, 60_000)
    if verb == "claim" and lane is None:
        assert sync_speaker.run(claim.claim(q, LEASE_MS)) is not None
    else:
        take_one(sync_speaker, q)

    assert place(client, q, job.id) == ["active"]


CANCELLED, LOST, BROKEN = {"cancel": "1"}, {"worker": "w:1", "stalled": "2"}, {"attempts": "x"}


@pytest.mark.parametrize(
    ("verb", "lane", "why"),
    [
        *(("take", lane, why) for lane in (None, LANE) for why in (CANCELLED, LOST, BROKEN)),
        ("claim", None, CANCELLED),
        ("claim", None, BROKEN),
    ],
)
def test_f4_a_claim_that_buries_such_a_job_leaves_one_entry(
    sync_speaker: SyncSpeaker, client: Any, bare_q: Queue, verb: str, lane: str | None,
    why: dict[str, str],
) -> None:  # fmt: skip
    beside = Foreign(client, bare_q)
    job = theirs_started(beside, lane)
    end_lease(beside, job, "reap")
    beside.delay(job.id, job.attempts, 60_000)
    client.hset(bare_q.row(job.id), mapping=why)

    if verb == "claim":
        assert sync_speaker.run(claim.claim(bare_q, LEASE_MS)) is None
    else:
        assert take_all(sync_speaker, bare_q) == []

    assert place(client, bare_q, job.id) == ["dead"]


@pytest.mark.parametrize("lane", [None, LANE])
def test_f4_a_foreign_claim_of_such_a_job_leaks_nothing_when_ours_sweeps(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, beside: Foreign, lane: str | None
) -> None:
    """Active and schedule, and this time it is the lease that is real."""
    job = theirs_started(beside, lane)
    end_lease(beside, job, "reap")
    beside.delay(job.id, job.attempts, 60_000)
    again = beside.lane_claim() if lane else beside.claim()
    assert again is not None
    assert sorted(place(client, q, job.id)) == ["active", "schedule"]
    expire(client, q, job.id)

    assert sync_speaker.run(keep.reap(q)).moved == 1

    assert in_flight(client, q) == 0
    assert len(place(client, q, job.id)) == 1


def test_f5_a_second_retry_with_one_token_and_ours(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, theirs: Foreign
) -> None:
    job = theirs_started(theirs)
    assert theirs.retry(job.id, job.attempts, 60_000, 9) == "scheduled"
    assert theirs.retry(job.id, job.attempts, 60_000, 1) == "dead"
    assert sorted(place(client, theirs.queue, job.id)) == ["dead", "schedule"]

    ours = start(sync_speaker, q)
    assert sync_speaker.run(settle.retry(q, ours, "boom", 60_000, 9)) is Verdict.SCHEDULED
    assert sync_speaker.run(settle.retry(q, ours, "boom", 60_000, 1)) is Verdict.STALE
    assert place(client, q, ours.id) == ["schedule"]


def test_f5_a_job_in_schedule_and_dead_stays_dead_when_its_time_comes(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, beside: Foreign
) -> None:
    job = theirs_started(beside)
    beside.retry(job.id, job.attempts, 0, 9)
    beside.retry(job.id, job.attempts, 0, 1)

    assert sync_speaker.run(keep.promote(q)) == Swept(moved=0, dead=0, dropped=1, seen=1)

    assert place(client, q, job.id) == ["dead"]


# --- F6 F7 F8: lanes ------------------------------------------------------------------------------


def test_f6_a_delay_leaks_the_lanes_slot_and_ours_gives_it_back(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, theirs: Foreign
) -> None:
    job = theirs_started(theirs, LANE)
    theirs.delay(job.id, job.attempts, 0)
    theirs.promote()
    again = theirs.lane_claim()
    assert again is not None
    assert in_flight(client, theirs.queue) == 2
    theirs.complete(again.id, again.attempts)
    assert in_flight(client, theirs.queue) == 1  # for good

    ours = start(sync_speaker, q, LANE)
    sync_speaker.run(settle.delay(q, ours, "in", 0))
    assert in_flight(client, q) == 0


def test_f7_a_reprocessed_job_breaks_its_lanes_limit_and_ours_goes_home(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, theirs: Foreign
) -> None:
    theirs.lane_limit(LANE, 2)
    dead = theirs_started(theirs, LANE)
    theirs.retry(dead.id, dead.attempts, most=1)
    theirs.reprocess(dead.id)
    assert place(client, theirs.queue, dead.id) == ["pending"]
    running = [theirs_started(theirs, LANE) for _ in range(2)]
    flat = theirs.claim()
    assert flat is not None
    theirs.complete(flat.id, flat.attempts)
    theirs_started(theirs, LANE)
    assert client.zcard(theirs.queue.active) == len(running) + 1  # three in flight, the limit is 2

    sync_speaker.run(lanes.limit_lane(q, LANE, 2))
    ours = kill(sync_speaker, q, LANE)
    put_many(sync_speaker, q, 3, LANE)
    sync_speaker.run(operate.reprocess(q, [ours.id]))
    assert place(client, q, ours.id) == [f"g:{LANE}:pending"]
    assert len(take_all(sync_speaker, q)) == 2


@pytest.mark.parametrize("verb", ["claim", "take"])
def test_f7_a_job_that_the_original_put_into_the_flat_set_keeps_its_lanes_limit(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, beside: Foreign, verb: str
) -> None:
    dead = theirs_started(beside, LANE)
    beside.retry(dead.id, dead.attempts, most=1)
    beside.reprocess(dead.id)
    beside.lane_limit(LANE, 1)
    theirs_started(beside, LANE)

    if verb == "claim":
        assert sync_speaker.run(claim.claim(q, LEASE_MS)) is None
    else:
        assert take_all(sync_speaker, q) == []

    assert place(client, q, dead.id) == [f"g:{LANE}:pending"]
    assert in_flight(client, q) == 1


@pytest.mark.parametrize("verb", ["claim", "take"])
def test_f7_a_job_in_its_lane_and_in_the_flat_set_is_handed_out_once(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, beside: Foreign, verb: str
) -> None:
    """Retried twice with one token, promoted, then reprocessed: all of it by the original."""
    job = theirs_started(beside, LANE)
    beside.retry(job.id, job.attempts, 0, 9)
    beside.retry(job.id, job.attempts, 0, 1)
    beside.promote()
    beside.reprocess(job.id)
    assert sorted(place(client, q, job.id)) == [f"g:{LANE}:pending", "pending"]

    if verb == "claim":
        assert sync_speaker.run(claim.claim(q, LEASE_MS)) is not None
    else:
        take_one(sync_speaker, q, ring_first=True)

    assert take_all(sync_speaker, q) == []
    assert place(client, q, job.id) == ["active"]
    assert in_flight(client, q) == 1


@pytest.mark.parametrize("verb", ["claim", "take", "take ring"])
def test_f7_a_second_entry_of_a_job_that_runs_is_not_handed_out(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, beside: Foreign, verb: str
) -> None:
    job = theirs_started(beside, LANE)
    beside.retry(job.id, job.attempts, 0, 9)
    beside.retry(job.id, job.attempts, 0, 1)
    beside.promote()
    beside.reprocess(job.id)
    if verb == "take ring":
        assert beside.claim() is not None
        client.hincrby(q.base + b"gactive", LANE, 1)  # its flat claim does not count
    else:
        assert beside.lane_claim() is not None

    if verb == "claim":
        assert sync_speaker.run(claim.claim(q, LEASE_MS)) is None
    else:
        assert take_all(sync_speaker, q) == []

    assert place(client, q, job.id) == ["active"]
    assert in_flight(client, q) == 1


def test_f8_a_removed_lane_job_is_served_as_a_ghost_and_a_removed_active_one_leaks_its_slot(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, theirs: Foreign
) -> None:
    waiting = ids.mint.one()
    theirs.lane_enqueue(waiting, b"payload", LANE)
    theirs.remove(waiting)
    assert theirs.lane_claim() == ForeignJob(waiting, None, 1, LANE)
    running = theirs_started(theirs, OTHER_LANE)
    theirs.remove(running.id)
    assert in_flight(client, theirs.queue, OTHER_LANE) == 1

    waiting = put(sync_speaker, q, lane=LANE)
    sync_speaker.run(operate.remove(q, [waiting]))
    assert take_all(sync_speaker, q) == []
    running_ours = start(sync_speaker, q, OTHER_LANE)
    sync_speaker.run(operate.remove(q, [running_ours.id], also_active=True))
    assert in_flight(client, q, OTHER_LANE) == 0


def test_f8_ours_steps_over_the_ghost_of_a_foreign_removal(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, beside: Foreign
) -> None:
    ghost, behind = put_many(sync_speaker, q, 2, LANE)
    beside.remove(ghost)

    assert take_one(sync_speaker, q).id == behind


# --- F10: repeats ---------------------------------------------------------------------------------


def test_f10_each_pump_fires_a_due_repeat_and_ours_fires_it_once(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, theirs: Foreign
) -> None:
    other_pump = Foreign(client, theirs.queue)
    theirs.register_repeat("tick", 60_000, b"", 1)
    seen, seen_too = theirs.due_repeats(), other_pump.due_repeats()
    for pump, names in ((theirs, seen), (other_pump, seen_too)):
        for name in names:
            pump.fire(name, ids.mint.one())
    assert client.zcard(theirs.queue.pending) == 2

    sync_speaker.run(repeats.register_repeat(q, "tick", 60_000, b"", 1))
    looks = [sync_speaker.run(repeats.due_repeats(q)).due for _ in range(2)]
    firings = [
        sync_speaker.run(repeats.fire(q, due, ids.mint.one())).firing
        for look in looks
        for due in look
    ]
    assert firings == [Firing.FIRED, Firing.NOT_DUE]
    assert client.zcard(q.pending) == 1


# --- F12 F16 F19: what one step does --------------------------------------------------------------


def test_f12_obliterate_misses_full_lanes_and_weights_and_ours_finds_them(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, theirs: Foreign
) -> None:
    def fill(foreign: Foreign) -> None:
        foreign.lane_limit(LANE, 1)
        theirs_started(foreign, LANE)
        foreign.lane_enqueue(ids.mint.one(), b"", LANE)
        foreign.lane_weight(OTHER_LANE, 2)
        foreign.pause()

    fill(theirs)
    while theirs.obliterate(force=True) == 1:
        pass
    left = set(read_state(client, theirs.queue).keys)
    assert {b"gweight", f"g:{LANE}:pending".encode()} < left

    fill(Foreign(client, q))
    while sync_speaker.run(operate.obliterate(q, force=True)) is Obliterated.MORE:
        pass
    assert read_state(client, q).keys == {}


def test_f12_f16_a_large_budget_breaks_in_the_middle_and_ours_is_refused_before(
    client: Any, q: Queue, theirs: Foreign
) -> None:
    minted = ids.mint.many(9_500)
    client.zadd(theirs.queue.pending, dict.fromkeys(minted, 0))
    with client.pipeline(transaction=False) as pipe:
        for job_id in minted:
            pipe.hset(theirs.queue.row(job_id), "state", "pending")
        pipe.execute()
    theirs.pause()

    with pytest.raises(redis.ResponseError, match="too many results to unpack"):
        theirs.obliterate(budget=9_000)

    assert client.zcard(theirs.queue.pending) == 9_500
    assert client.exists(theirs.queue.row(minted[0])) == 0
    for build in (
        lambda: operate.obliterate(q, batch=9_000),
        lambda: operate.drain(q, JobSet.PENDING, batch=9_000),
        lambda: claim.take(q, "w", LEASE_MS, 9_000),
        lambda: keep.reap(q, 9_000),
        lambda: keep.promote(q, 9_000),
        lambda: enqueue.enqueue_many(q, [(job_id, b"") for job_id in minted]),
    ):
        with pytest.raises(errors.InvalidInput, match=r"1 to 100"):
            build()


def test_f16_a_batch_claim_answers_with_all_that_is_asked_and_ours_with_1000_at_most(
    sync_speaker: SyncSpeaker, q: Queue, theirs: Foreign
) -> None:
    for job_id in ids.mint.many(1_200):
        theirs.enqueue(job_id, b"")
    assert len(theirs.claim_batch(5_000)) == 1_200

    put_many(sync_speaker, q, 1_200)
    assert len(take_all(sync_speaker, q, 1_000)) == 1_000


def test_f19_a_reap_returns_100_and_ours_tells_whether_more_is_left(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, theirs: Foreign
) -> None:
    for job_id in ids.mint.many(250):
        theirs.enqueue(job_id, b"")
    expire(client, theirs.queue, *(job.id for job in theirs.claim_batch(250)))
    assert [theirs.reap() for _ in range(4)] == [100, 100, 50, 0]

    put_many(sync_speaker, q, 250)
    expire(client, q, *(job.id for job in take_all(sync_speaker, q, 250)))
    sweeps = [sync_speaker.run(keep.reap(q, 200)) for _ in range(2)]
    assert [(swept.moved, swept.seen) for swept in sweeps] == [(200, 200), (50, 50)]


# --- F13 F14: locks -------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["complete", "complete_many", "drain"])
def test_f13_a_lock_outlives_the_job_and_goes_with_it_in_ours(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, theirs: Foreign, beside: Foreign, verb: str
) -> None:
    job = theirs_started(theirs)
    theirs.lock(job.id, job.attempts)
    theirs.complete(job.id, job.attempts)
    assert client.exists(theirs.queue.row(job.id) + b":lock") == 1

    ours = start(sync_speaker, q)
    beside.lock(ours.id, ours.attempts)
    if verb == "complete":
        sync_speaker.run(settle.complete(q, ours))
    elif verb == "complete_many":
        sync_speaker.run(settle.complete_many(q, [settle.Finished(ours)]))
    else:
        sync_speaker.run(settle.release(q, ours))
        sync_speaker.run(operate.drain(q, JobSet.PENDING))
    assert client.exists(q.row(ours.id) + b":lock") == 0


def test_f14_a_lock_field_without_an_end_blocks_a_removal_and_ours_goes_by_the_key_that_ends(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, beside: Foreign
) -> None:
    job_id = put(sync_speaker, q)
    beside.lock(job_id, 1)
    client.delete(q.row(job_id) + b":lock")  # its time is over, the field stays
    assert beside.remove(job_id) == "locked"

    assert sync_speaker.run(operate.remove(q, [job_id])) == [Removed.REMOVED]


def test_f14_ours_writes_no_lock_and_so_leaves_no_row_of_a_lock_alone(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, theirs: Foreign
) -> None:
    late = theirs_started(theirs)
    theirs.complete(late.id, late.attempts)
    theirs.lock(late.id, late.attempts)
    assert theirs.enqueue(late.id, b"new") == 0  # "duplicate", and the payload is lost

    ours = start(sync_speaker, q)
    assert not any(b"lock" in fields for fields in read_state(client, q).rows.values() if fields)
    sync_speaker.run(settle.complete(q, ours))
    assert sync_speaker.run(settle.extend(q, ours, LEASE_MS)) is Verdict.GONE
    assert sync_speaker.run(enqueue.enqueue(q, ours.id, b"new")) is Verdict.ENQUEUED


# --- F15 F17 F18: claims --------------------------------------------------------------------------


def test_f15_an_emptied_lane_answers_empty_and_ours_goes_on(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, theirs: Foreign
) -> None:
    client.rpush(theirs.queue.ring, OTHER_LANE)
    theirs.lane_enqueue(ids.mint.one(), b"", LANE)
    assert theirs.lane_claim() is None
    assert theirs.lane_claim() is not None

    client.rpush(q.ring, OTHER_LANE)
    job_id = put(sync_speaker, q, lane=LANE)
    assert take_one(sync_speaker, q).id == job_id


def test_f17_a_pause_slips_between_the_two_trips_of_a_claim_and_ours_looks_inside(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, theirs: Foreign,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    theirs.enqueue(ids.mint.one(), b"")

    def look_then_pause() -> bool:
        theirs.pause()
        return False

    monkeypatch.setattr(theirs, "_paused", look_then_pause)
    assert theirs.claim() is not None  # although the queue is paused

    put(sync_speaker, q)
    sync_speaker.run(operate.pause(q))
    assert sync_speaker.run(claim.claim(q, LEASE_MS)) is None
    assert take_all(sync_speaker, q) == []


def test_f18_a_flat_enqueue_wakes_nobody_in_ours_either(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, theirs: Foreign
) -> None:
    """Our workers watch the pending set itself, which every speaker's enqueue changes."""
    theirs.enqueue(ids.mint.one(), b"")
    put(sync_speaker, q)

    for queue in (theirs.queue, q):
        assert client.exists(queue.base + b"wake") == 0


# --- F20 F21 F22: the dead, the gone and the stalled ----------------------------------------------


def test_f20_the_dead_stay_and_ours_can_drop_the_oldest_in_steps(
    sync_speaker: SyncSpeaker, client: Any, q: Queue
) -> None:
    dead = [kill(sync_speaker, q).id for _ in range(3)]

    assert sync_speaker.run(operate.drain(q, JobSet.DEAD, batch=2)) == (2, 1)

    assert client.zrange(q.dead, 0, -1) == [dead[2].encode()]


def test_f21_a_retry_of_a_missing_job_is_stale_and_ours_tells_gone(
    sync_speaker: SyncSpeaker, q: Queue, theirs: Foreign
) -> None:
    job = theirs_started(theirs)
    theirs.complete(job.id, job.attempts)
    assert theirs.retry(job.id, job.attempts) == "stale"

    ours = start(sync_speaker, q)
    sync_speaker.run(settle.complete(q, ours))
    assert sync_speaker.run(settle.retry(q, ours, "boom", 0, 9)) is Verdict.GONE


def test_f22_the_first_lost_lease_kills_and_ours_kills_at_the_third(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, theirs: Foreign
) -> None:
    job = theirs_started(theirs)
    expire(client, theirs.queue, job.id)
    assert theirs.stalled() == ([], [job.id])

    put(sync_speaker, q)
    fates = []
    for _ in range(3):
        ours = take_one(sync_speaker, q)
        expire(client, q, ours.id)
        swept = sync_speaker.run(keep.reap(q))
        fates.append((swept.moved, swept.dead))
    assert fates == [(1, 0), (1, 0), (0, 1)]
    assert b"worker was lost 3 times" in read_state(client, q).row(ours.id)[b"last_error"]


def test_f22_a_lease_that_a_foreign_reaper_returned_counts_as_lost(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, beside: Foreign
) -> None:
    put(sync_speaker, q)
    for losses in range(3):
        job = take_one(sync_speaker, q)
        assert job.stalled == losses
        expire(client, q, job.id)
        beside.reap()

    assert take_all(sync_speaker, q) == []
    assert place(client, q, job.id) == ["dead"]
