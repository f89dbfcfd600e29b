"""Lanes: the ring, limits, pauses, weights, moves between lanes, and their figures."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from emq_django import errors
from emq_django.protocol import claim, ids, lanes, operate, read, settle, upkeep
from emq_django.protocol.lanes import Lane, Reassigned
from emq_django.protocol.records import Verdict
from tests.acts import (
    LANE,
    LEASE_MS,
    OTHER_LANE,
    expire,
    fall_due,
    kill,
    put,
    put_many,
    put_off,
    start,
    take_all,
    take_one,
)
from tests.queue_state import check_invariants, read_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from emq_django.protocol.keyspace import Queue
    from emq_django.protocol.records import ClaimedJob
    from tests.speakers import Speaker

THIRD_LANE = "USR00000000003"
ABSENT = "JOB00000000001"


def ring(client: Any, q: Queue) -> list[str]:
    return [lane.decode() for lane in client.lrange(q.ring, 0, -1)]


def in_flight(client: Any, q: Queue, lane: str = LANE) -> int:
    return int(client.hget(q.base + b"gactive", lane) or 0)


# --- Turns ----------------------------------------------------------------------------------------


def test_lanes_take_turns_whatever_the_depth_of_one(speaker: Speaker, q: Queue) -> None:
    put_many(speaker, q, 50, LANE)
    put_many(speaker, q, 3, OTHER_LANE)

    order = [take_one(speaker, q).lane for _ in range(6)]

    assert order == [LANE, OTHER_LANE] * 3


@pytest.mark.smoke
def test_a_flood_in_one_lane_delays_another_lanes_next_job_by_one_turn(
    speaker: Speaker, q: Queue
) -> None:
    put_many(speaker, q, 1_000, LANE)
    taken = take_all(speaker, q, 10)
    late = put(speaker, q, lane=OTHER_LANE)

    following = take_all(speaker, q, 2)

    assert {job.lane for job in taken} == {LANE}
    assert late in {job.id for job in following}


def test_flat_jobs_and_the_ring_take_turns(speaker: Speaker, q: Queue) -> None:
    put_many(speaker, q, 3)
    put_many(speaker, q, 3, LANE)

    lanes_of = [job.lane for job in take_all(speaker, q, 6)]

    assert lanes_of == [None, LANE] * 3


def test_the_jobs_of_a_lane_come_in_mint_order(speaker: Speaker, q: Queue) -> None:
    minted = put_many(speaker, q, 5, LANE)

    assert [job.id for job in take_all(speaker, q)] == minted


def test_one_source_alone_can_be_asked(speaker: Speaker, q: Queue) -> None:
    flat, in_lane = put(speaker, q), put(speaker, q, lane=LANE)

    assert take_one(speaker, q, sources="ring").id == in_lane
    assert take_all(speaker, q, sources="ring") == []
    assert take_one(speaker, q, sources="flat").id == flat
    assert take_all(speaker, q, sources="flat") == []


def test_a_lane_of_weight_3_is_served_3_times_as_often_in_any_size_of_take(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    put_many(speaker, q, 300, LANE)
    put_many(speaker, q, 300, OTHER_LANE)
    speaker.run(lanes.weigh_lane(q, LANE, 3))
    sizes = [1, 2, 3, 5, 7, 11, 1, 4, 6] * 4

    served = [job.lane for size in sizes for job in take_all(speaker, q, size)]

    assert len(served) == 160
    assert Counter(served) == {LANE: 120, OTHER_LANE: 40}
    for i in range(0, 160, 4):
        assert Counter(served[i : i + 4]) == {LANE: 3, OTHER_LANE: 1}


def test_a_weight_of_1_is_the_usual_one_and_leaves_no_entry(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    speaker.run(lanes.weigh_lane(q, LANE, 3))
    assert client.hgetall(q.base + b"gweight") == {LANE.encode(): b"3"}

    speaker.run(lanes.weigh_lane(q, LANE, 1))

    assert read_state(client, q).keys == {}


def test_a_weighted_lane_that_empties_in_its_turn_leaves_the_next_one_its_own(
    speaker: Speaker, q: Queue
) -> None:
    speaker.run(lanes.weigh_lane(q, LANE, 5))
    put_many(speaker, q, 2, LANE)
    put_many(speaker, q, 4, OTHER_LANE)

    assert [job.lane for job in take_all(speaker, q, 4)] == [LANE, LANE, OTHER_LANE, OTHER_LANE]
    put_many(speaker, q, 9, LANE)
    served = [job.lane for job in take_all(speaker, q, 8)]
    assert served.count(OTHER_LANE) == 2


# --- Pause ----------------------------------------------------------------------------------------


def test_a_paused_lane_is_left_out_and_takes_jobs_in(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    put(speaker, q, lane=LANE)
    assert speaker.run(lanes.pause_lane(q, LANE)) is True
    assert speaker.run(lanes.pause_lane(q, LANE)) is False
    put(speaker, q, lane=LANE)
    other = put(speaker, q, lane=OTHER_LANE)

    assert [job.id for job in take_all(speaker, q)] == [other]
    assert ring(client, q) == []
    assert speaker.run(lanes.resume_lane(q, LANE)) is True
    assert len(take_all(speaker, q)) == 2
    assert speaker.run(lanes.resume_lane(q, LANE)) is False


def test_jobs_that_come_back_to_a_paused_lane_stay_there(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    put_many(speaker, q, 4, LANE)
    released, expired, parked, dead = take_all(speaker, q)
    speaker.run(lanes.pause_lane(q, LANE))

    speaker.run(settle.release(q, released))
    expire(client, q, expired.id)
    speaker.run(upkeep.reap(q))
    speaker.run(settle.retry(q, parked, "boom", 0, 9))
    fall_due(client, q, parked.id)
    speaker.run(upkeep.promote(q))
    speaker.run(settle.retry(q, dead, "boom", 0, 1))
    speaker.run(operate.reprocess(q, [dead.id]))

    assert take_all(speaker, q) == []
    assert client.zcard(q.lane(LANE)) == 4
    speaker.run(lanes.resume_lane(q, LANE))
    assert len(take_all(speaker, q)) == 4


# --- Limits ---------------------------------------------------------------------------------------


def test_a_limit_holds_in_one_take_and_over_many(speaker: Speaker, client: Any, q: Queue) -> None:
    speaker.run(lanes.limit_lane(q, LANE, 2))
    put_many(speaker, q, 5, LANE)

    first = take_all(speaker, q)

    assert len(first) == 2
    assert take_all(speaker, q) == []
    assert ring(client, q) == []
    speaker.run(settle.complete(q, first[0]))
    assert ring(client, q) == [LANE]
    assert len(take_all(speaker, q)) == 1


def test_setting_a_limit_tells_how_many_are_in_flight(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    put_many(speaker, q, 5, LANE)
    take_all(speaker, q, 3)

    assert speaker.run(lanes.limit_lane(q, LANE, 2)) == 3
    assert ring(client, q) == []
    assert speaker.run(lanes.limit_lane(q, LANE, 4)) == 3
    assert ring(client, q) == [LANE]
    speaker.run(lanes.limit_lane(q, LANE, 3))
    assert ring(client, q) == []
    assert speaker.run(lanes.limit_lane(q, LANE, 0)) == 3
    assert ring(client, q) == [LANE]
    assert client.hgetall(q.base + b"glimit") == {}


WAYS_OUT: dict[str, Callable[[Speaker, Any, Queue, ClaimedJob], Any]] = {
    "complete": lambda speaker, _, q, job: speaker.run(settle.complete(q, job)),
    "complete_many": lambda speaker, _, q, job: speaker.run(
        settle.complete_many(q, [settle.Finished(job)])
    ),
    "retry": lambda speaker, _, q, job: speaker.run(settle.retry(q, job, "boom", 0, 9)),
    "death": lambda speaker, _, q, job: speaker.run(settle.retry(q, job, "boom", 0, 1)),
    "delay": lambda speaker, _, q, job: speaker.run(settle.delay(q, job, "in", 60_000)),
    "release": lambda speaker, _, q, job: speaker.run(settle.release(q, job)),
    "remove": lambda speaker, _, q, job: speaker.run(operate.remove(q, [job.id], also_active=True)),
    "reap": lambda speaker, client, q, job: _lose(speaker, client, q, job, 0),
    "stalled death": lambda speaker, client, q, job: _lose(speaker, client, q, job, 1),
}


def _lose(speaker: Speaker, client: Any, q: Queue, job: ClaimedJob, max_stalled: int) -> None:
    expire(client, q, job.id)
    speaker.run(upkeep.reap(q, max_stalled=max_stalled))


@pytest.mark.parametrize("way", WAYS_OUT)
def test_every_way_out_gives_the_slot_back_once(
    speaker: Speaker, client: Any, q: Queue, way: str
) -> None:
    speaker.run(lanes.limit_lane(q, LANE, 2))
    put_many(speaker, q, 4, LANE)
    first, second = take_all(speaker, q)

    WAYS_OUT[way](speaker, client, q, first)

    check_invariants(client, q)
    assert in_flight(client, q) == 1
    WAYS_OUT[way](speaker, client, q, second)
    assert in_flight(client, q) == 0
    assert len(take_all(speaker, q)) == 2


class Mix:
    """Random verbs over two limited lanes."""

    LIMITS = {LANE: 2, OTHER_LANE: 3}

    def __init__(self, speaker: Speaker, client: Any, q: Queue, seed: int) -> None:
        self.speaker, self.client, self.q = speaker, client, q
        self.dice = random.Random(seed)
        self.held: list[ClaimedJob] = []
        for lane, limit in self.LIMITS.items():
            speaker.run(lanes.limit_lane(q, lane, limit))

    def put(self) -> None:
        put(self.speaker, self.q, lane=self.dice.choice([*self.LIMITS]))

    def take(self) -> None:
        self.held += take_all(self.speaker, self.q, self.dice.randint(1, 4))

    def settle(self) -> None:
        if self.held:
            job = self.held.pop(self.dice.randrange(len(self.held)))
            WAYS_OUT[self.dice.choice([*WAYS_OUT])](self.speaker, self.client, self.q, job)

    def promote(self) -> None:
        for job_id in self.client.zrange(self.q.schedule, 0, -1):
            fall_due(self.client, self.q, job_id.decode())
        self.speaker.run(upkeep.promote(self.q))

    def reprocess(self) -> None:
        if dead := [job_id.decode() for job_id in self.client.zrange(self.q.dead, 0, -1)]:
            self.speaker.run(operate.reprocess(self.q, dead))

    def reassign(self) -> None:
        for job_id in self.client.zrange(self.q.lane(LANE), 0, 0):
            self.speaker.run(lanes.reassign(self.q, job_id.decode(), OTHER_LANE))

    def step(self) -> None:
        steps = [self.put, self.take, self.settle] * 2
        self.dice.choice([*steps, self.promote, self.reprocess, self.reassign])()


@pytest.mark.parametrize("seed", range(4))
def test_a_limit_is_never_exceeded_and_no_slot_leaks_in_any_mix(
    speaker: Speaker, client: Any, q: Queue, seed: int
) -> None:
    mix = Mix(speaker, client, q, seed)

    for _ in range(60):
        mix.step()

        state = check_invariants(client, q)
        for lane, number in state.value(b"gactive", b"hash").items():
            assert int(number) <= mix.LIMITS[lane.decode()]


# --- Reassign -------------------------------------------------------------------------------------


def test_a_waiting_job_changes_its_lane(speaker: Speaker, client: Any, q: Queue) -> None:
    job_id = put(speaker, q, lane=LANE)

    assert speaker.run(lanes.reassign(q, job_id, OTHER_LANE)) is Reassigned.MOVED

    assert read_state(client, q).place(job_id) == [f"g:{OTHER_LANE}:pending"]
    assert ring(client, q) == [OTHER_LANE]
    assert speaker.run(lanes.reassign(q, job_id, OTHER_LANE)) is Reassigned.SAME
    assert take_one(speaker, q).lane == OTHER_LANE


def test_only_a_job_that_waits_in_a_lane_changes_it(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    job = start(speaker, q, LANE)
    dead, parked = kill(speaker, q, LANE).id, put_off(speaker, q, LANE)
    flat = put(speaker, q)
    before = read_state(client, q)

    answers = [
        speaker.run(lanes.reassign(q, job_id, OTHER_LANE))
        for job_id in (job.id, dead, parked, flat, ABSENT)
    ]

    assert answers == [*[Reassigned.NOT_WAITING] * 3, *[Reassigned.NO_LANE] * 2]
    assert read_state(client, q) == before


def test_a_job_can_be_moved_to_a_paused_or_full_lane(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    speaker.run(lanes.pause_lane(q, OTHER_LANE))
    speaker.run(lanes.limit_lane(q, THIRD_LANE, 1))
    start(speaker, q, THIRD_LANE)
    first, second = put_many(speaker, q, 2, LANE)

    speaker.run(lanes.reassign(q, first, OTHER_LANE))
    speaker.run(lanes.reassign(q, second, THIRD_LANE))

    assert ring(client, q) == []
    assert take_all(speaker, q) == []


# --- Figures --------------------------------------------------------------------------------------


def test_the_figures_of_a_lane(speaker: Speaker, q: Queue) -> None:
    put_many(speaker, q, 3, LANE)
    take_one(speaker, q)
    speaker.run(lanes.limit_lane(q, LANE, 1))
    speaker.run(lanes.weigh_lane(q, LANE, 7))

    assert speaker.run(lanes.lane_depths(q, [LANE, OTHER_LANE])) == [
        Lane(LANE, waiting=2, active=1, limit=1, weight=7, paused=False, on_ring=False),
        Lane(OTHER_LANE, waiting=0, active=0, limit=None, weight=1, paused=False, on_ring=False),
    ]


def test_every_lane_that_any_key_names_is_found(speaker: Speaker, q: Queue) -> None:
    named = ids.mint.many(5, "USR")
    waiting, paused, limited, weighted, busy = named
    start(speaker, q, busy)
    put(speaker, q, lane=waiting)
    speaker.run(lanes.pause_lane(q, paused))
    speaker.run(lanes.limit_lane(q, limited, 1))
    speaker.run(lanes.weigh_lane(q, weighted, 2))

    found = speaker.run(lanes.lane_depths(q))

    assert sorted(lane.name for lane in found) == sorted(named)
    assert len(speaker.run(lanes.lane_depths(q, limit=2))) == 2
    assert speaker.run(read.counts(q)).lanes == 5


def test_jobs_that_wait_in_lanes_are_counted_apart(speaker: Speaker, q: Queue) -> None:
    put_many(speaker, q, 3, LANE)
    put_many(speaker, q, 2, OTHER_LANE)
    put(speaker, q)

    counts = speaker.run(read.counts(q))

    assert (counts.pending, counts.lane_pending, counts.lanes_counted) == (1, 5, 2)


# --- Refusals and the wake list -------------------------------------------------------------------


@pytest.mark.parametrize("bad", ["", "acme", "usr0KHTOWnGLuC", "USR-0000000000", "USRzzzzzzzzzzz"])
def test_a_lane_that_is_no_branded_id_is_refused(q: Queue, bad: str) -> None:
    for build in (
        lambda: lanes.pause_lane(q, bad),
        lambda: lanes.resume_lane(q, bad),
        lambda: lanes.limit_lane(q, bad, 1),
        lambda: lanes.weigh_lane(q, bad, 1),
        lambda: lanes.reassign(q, ABSENT, bad),
        lambda: lanes.lane_depths(q, [bad]),
    ):
        with pytest.raises(errors.InvalidLane, match="branded id"):
            build()


@pytest.mark.parametrize("bad", [-1, True, 1.5, "1", None, 2**52 + 1])
def test_limits_and_weights_are_whole_numbers(q: Queue, bad: Any) -> None:
    with pytest.raises(errors.InvalidInput, match="whole number"):
        lanes.limit_lane(q, LANE, bad)
    with pytest.raises(errors.InvalidInput, match="whole number"):
        lanes.weigh_lane(q, LANE, bad)


def test_a_lane_that_joins_the_ring_wakes_one_parked_consumer(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    for _ in range(3):
        put(speaker, q, lane=LANE)  # joins once
    assert client.lrange(q.base + b"wake", 0, -1) == [b"1"]

    for lane in ids.mint.many(80, "USR"):
        put(speaker, q, lane=lane)

    assert client.llen(q.base + b"wake") == 64


def test_a_take_that_meets_emptied_lanes_goes_on_to_the_ones_with_work(
    speaker: Speaker, client: Any, bare_q: Queue
) -> None:
    for lane in ids.mint.many(90, "USR"):
        client.rpush(bare_q.ring, lane)
    job_id = put(speaker, bare_q, lane=LANE)

    assert take_one(speaker, bare_q).id == job_id
    assert ring(client, bare_q) == []


def test_a_plain_claim_serves_flat_jobs_only(speaker: Speaker, q: Queue) -> None:
    put(speaker, q, lane=LANE)

    assert speaker.run(claim.claim(q, LEASE_MS)) is None
    assert speaker.run(settle.complete(q, take_one(speaker, q))) is Verdict.COMPLETED
