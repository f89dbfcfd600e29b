"""One slot, one job: the script that fires, whoever asks and however often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import claim, periodic, read
from emq_django.protocol.ids import mint
from emq_django.protocol.periodic import Fired
from tests.timetable.firing import fire, now_ms

if TYPE_CHECKING:
    pass

LANE = "USR0KHTOWnGLuC"


def test_a_slot_fires_once_and_leaves_a_trace(queue: str) -> None:
    job_id = mint.one()

    first, again, earlier = fire(queue, 5_000, job_id), fire(queue, 5_000), fire(queue, 4_000)

    assert first[:1] + first[2:] == (Fired.FIRED, 5_000, job_id)
    assert again.fired is earlier.fired is Fired.NOT_NEW
    assert again.last_ms == 5_000
    state = wire_for(keys(queue)).run(periodic.look(keys(queue), ["nightly", "other"])).states
    assert (state[0].last_ms, state[0].job_id, state[0].paused_ms) == (5_000, job_id, None)
    assert state[1] == periodic.ScheduleState()
    job = wire_for(keys(queue)).run(claim.claim(keys(queue), 1_000))
    assert job is not None
    assert (job.id, job.payload, job.attempts) == (job_id, b"payload", 1)


def test_a_slot_that_is_still_to_come_is_not_fired(queue: str) -> None:
    """A worker whose clock is ahead."""
    answer = fire(queue, now_ms(queue) + 3_000)

    assert answer.fired is Fired.TOO_EARLY
    assert answer.last_ms is None
    assert wire_for(keys(queue)).run(read.counts(keys(queue))).pending == 0


def test_a_paused_schedule_passes_slots_over_and_does_not_make_up_for_them(queue: str) -> None:
    named = keys(queue)
    wire = wire_for(named)

    assert wire.run(periodic.pause(named, "nightly")) is True
    assert wire.run(periodic.pause(named, "nightly")) is False
    assert fire(queue, 5_000).fired is Fired.PAUSED
    assert fire(queue, 5_000).fired is Fired.NOT_NEW
    assert wire.run(periodic.resume(named, "nightly")) is True
    assert wire.run(periodic.resume(named, "nightly")) is False
    assert fire(queue, now_ms(queue) - 1_000).fired is Fired.NOT_NEW
    assert wire.run(read.counts(named)).pending == 0


def test_an_id_that_is_taken_is_told_and_the_slot_is_still_owed(queue: str) -> None:
    job_id = mint.one()
    fire(queue, 5_000, job_id)

    assert fire(queue, 6_000, job_id).fired is Fired.TAKEN
    assert fire(queue, 6_000).fired is Fired.FIRED


def test_lane_and_unique_key_are_kept(queue: str) -> None:
    first = fire(queue, 5_000, lane=LANE, unique="k")
    second = fire(queue, 6_000, lane=LANE, unique="k")

    assert second.fired is Fired.STILL_LIVE
    assert second.job_id == first.job_id
    named = keys(queue)
    counts = wire_for(named).run(read.counts(named))
    assert (counts.pending, counts.lane_pending) == (0, 1)
    row = wire_for(named).run(read.row(named, first.job_id))
    assert row is not None
    assert row.held_by == "lane"
    assert row.fields["unique"].value == b"k"
