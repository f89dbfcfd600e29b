"""Ways in beside the plain enqueue: lanes, bulk, a due time, and a second send of the same job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emq_django.errors import InvalidDuration, InvalidInput, InvalidQueueName, KindRefused
from emq_django.protocol import claim, enqueue, ids, keyspace, settle, upkeep
from emq_django.protocol.enqueue import BULK_IDS, Readmission
from emq_django.protocol.numbers import LARGEST_MS
from emq_django.protocol.records import Verdict
from tests.queue_state import read_state

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from tests.speakers import Speaker

LANE = "USR0KHTOWnGLuC"
MINUTE_MS = 60_000


def now_ms(client: Any) -> int:
    seconds, micros = client.time()
    return int(seconds * 1_000 + micros // 1_000)


# --- A lane, a bulk -------------------------------------------------------------------------------


def test_a_lanes_job_has_four_fields_and_waits_in_its_lane(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    job_id = ids.mint.one()

    assert speaker.run(enqueue.enqueue_lane(q, job_id, b"p", LANE)) is Verdict.ENQUEUED
    assert speaker.run(enqueue.enqueue_lane(q, job_id, b"x", LANE)) is Verdict.DUPLICATE

    state = read_state(client, q)
    assert state.row(job_id) == {
        b"state": b"pending", b"attempts": b"0", b"payload": b"p", b"group": LANE.encode(),
    }  # fmt: skip
    assert state.place(job_id) == [f"g:{LANE}:pending"]
    assert state.value(b"ring", b"list") == [LANE.encode()]
    assert state.value(b"wake", b"list") == [b"1"]


@pytest.mark.parametrize("lane", [None, LANE])
def test_a_bulk_answers_in_input_order_and_keeps_what_was_there(
    speaker: Speaker, client: Any, q: Queue, lane: str | None
) -> None:
    minted = ids.mint.many(4)
    speaker.run(enqueue.enqueue(q, minted[1], b"first"))
    items = [(job_id, b"p") for job_id in (minted[2], minted[1], minted[0], minted[2], minted[3])]

    verdicts = speaker.run(enqueue.enqueue_many(q, items, lane))

    new, old = Verdict.ENQUEUED, Verdict.DUPLICATE
    assert verdicts == [new, old, new, old, new]
    state = read_state(client, q)
    assert state.row(minted[1])[b"payload"] == b"first"
    assert (b"group" in state.row(minted[0])) == (lane is not None)


@pytest.mark.parametrize("lane", [None, LANE])
def test_one_bad_id_keeps_the_whole_bulk_out(
    speaker: Speaker, client: Any, q: Queue, lane: str | None
) -> None:
    items = [(ids.mint.one(), b""), ("ORD0KHTOWnGLuC", b""), (ids.mint.one(), b"")]

    with pytest.raises(KindRefused):
        speaker.run(enqueue.enqueue_many(q, items, lane))

    assert read_state(client, q).keys == {}


def test_a_bulk_has_a_size(q: Queue) -> None:
    too_many = [(job_id, b"") for job_id in ids.mint.many(BULK_IDS + 1)]

    with pytest.raises(InvalidInput, match="101 items: one bulk script takes 1 to 100"):
        enqueue.enqueue_many(q, too_many)
    with pytest.raises(InvalidInput, match="0 items"):
        enqueue.enqueue_many(q, [])


def test_no_way_in_makes_a_queue_of_a_reserved_name() -> None:
    reserved, job_id = keyspace.queue("emq"), ids.mint.one()

    for build in (
        lambda: enqueue.enqueue(reserved, job_id, b""),
        lambda: enqueue.enqueue_lane(reserved, job_id, b"", LANE),
        lambda: enqueue.enqueue_many(reserved, [(job_id, b"")]),
        lambda: enqueue.enqueue_at(reserved, job_id, b"", 0),
        lambda: enqueue.enqueue_in(reserved, job_id, b"", 0),
        lambda: enqueue.readmit(reserved, job_id, b""),
    ):
        with pytest.raises(InvalidQueueName, match="reserve"):
            build()


# --- A due time -----------------------------------------------------------------------------------


@pytest.mark.parametrize("lane", [None, LANE])
def test_a_parked_job_waits_until_its_time_and_then_in_its_place(
    speaker: Speaker, client: Any, q: Queue, lane: str | None
) -> None:
    job_id, before = ids.mint.one(), now_ms(client)

    verdict = speaker.run(enqueue.enqueue_in(q, job_id, b"p", MINUTE_MS, lane))

    after = now_ms(client)
    assert verdict is Verdict.SCHEDULED
    state = read_state(client, q)
    assert state.row(job_id)[b"state"] == b"scheduled"
    assert state.place(job_id) == ["schedule"]
    score = state.value(b"schedule", b"zset")[job_id.encode()]
    assert before + MINUTE_MS <= score <= after + MINUTE_MS
    assert speaker.run(upkeep.promote(q)).seen == 0
    client.zadd(q.schedule, {job_id: 1})
    assert speaker.run(upkeep.promote(q)).moved == 1
    place = read_state(client, q).place(job_id)
    assert place == ([f"g:{LANE}:pending"] if lane else ["pending"])


@pytest.mark.parametrize("due_ms", [0, 1, 1_795_972_464_751, LARGEST_MS])
def test_a_due_time_is_stored_exactly(speaker: Speaker, client: Any, q: Queue, due_ms: int) -> None:
    job_id = ids.mint.one()

    speaker.run(enqueue.enqueue_at(q, job_id, b"p", due_ms))

    assert client.zscore(q.schedule, job_id) == due_ms


def test_a_parked_id_is_a_duplicate_and_keeps_its_time(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    job_id = ids.mint.one()
    speaker.run(enqueue.enqueue_at(q, job_id, b"p", 5))
    before = read_state(client, q)

    assert speaker.run(enqueue.enqueue_at(q, job_id, b"p", 9)) is Verdict.DUPLICATE
    assert speaker.run(enqueue.enqueue_in(q, job_id, b"p", 9)) is Verdict.DUPLICATE

    assert read_state(client, q) == before


@pytest.mark.parametrize("bad", [-1, 1.5, "1", None, True, LARGEST_MS + 1])
def test_a_time_that_is_no_whole_number_never_reaches_the_wire(q: Queue, bad: Any) -> None:
    with pytest.raises(InvalidDuration, match="due_ms="):
        enqueue.enqueue_at(q, ids.mint.one(), b"", bad)
    with pytest.raises(InvalidDuration, match="delay_ms="):
        enqueue.enqueue_in(q, ids.mint.one(), b"", bad)


# --- A second send --------------------------------------------------------------------------------


@pytest.mark.parametrize("lane", [None, LANE])
@pytest.mark.parametrize("mode", ["now", "at", "in"])
def test_a_job_that_never_arrived_is_admitted_as_by_its_first_send(
    speaker: Speaker, client: Any, q: Queue, mode: Any, lane: str | None
) -> None:
    job_id = ids.mint.one()

    assert speaker.run(enqueue.readmit(q, job_id, b"p", lane, mode, 7)) is Readmission.ADMITTED

    state = read_state(client, q)
    waiting = f"g:{LANE}:pending" if lane else "pending"
    assert state.place(job_id) == [waiting if mode == "now" else "schedule"]
    expected = {b"state", b"attempts", b"payload"} | ({b"group"} if lane else set())
    assert state.row(job_id).keys() == expected
    assert speaker.run(enqueue.readmit(q, job_id, b"p", lane, mode, 7)) is Readmission.SAME
    assert speaker.run(enqueue.readmit(q, job_id, b"q", lane, mode, 7)) is Readmission.OTHER
    assert read_state(client, q) == state


def test_a_job_that_is_running_is_the_same_one(speaker: Speaker, client: Any, q: Queue) -> None:
    job_id = ids.mint.one()
    speaker.run(enqueue.enqueue(q, job_id, b"p"))
    speaker.run(claim.claim(q, MINUTE_MS))
    before = read_state(client, q)

    assert speaker.run(enqueue.readmit(q, job_id, b"p")) is Readmission.SAME

    assert read_state(client, q) == before


def test_a_job_that_completed_with_a_mark_is_done_as_long_as_the_mark_lives(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    job_id = ids.mint.one()
    speaker.run(enqueue.enqueue(q, job_id, b"p"))
    job = speaker.run(claim.claim(q, MINUTE_MS))
    assert job is not None
    speaker.run(settle.complete(q, job, done_ms=MINUTE_MS))

    assert 0 < client.pttl(q.row(job_id) + b":done") <= MINUTE_MS
    assert speaker.run(enqueue.readmit(q, job_id, b"p")) is Readmission.DONE
    assert speaker.run(enqueue.readmit(q, job_id, b"other bytes")) is Readmission.DONE
    assert read_state(client, q).places == {}

    client.delete(q.row(job_id) + b":done")
    assert speaker.run(enqueue.readmit(q, job_id, b"p")) is Readmission.ADMITTED


def test_without_a_mark_a_completed_job_is_admitted_once_more(speaker: Speaker, q: Queue) -> None:
    job_id = ids.mint.one()
    speaker.run(enqueue.enqueue(q, job_id, b"p"))
    job = speaker.run(claim.claim(q, MINUTE_MS))
    assert job is not None
    speaker.run(settle.complete(q, job))

    assert speaker.run(enqueue.readmit(q, job_id, b"p")) is Readmission.ADMITTED


def test_a_row_of_another_type_belongs_to_somebody_else(
    speaker: Speaker, client: Any, bare_q: Queue
) -> None:
    job_id = ids.mint.one()
    client.set(bare_q.row(job_id), b"p")

    assert speaker.run(enqueue.readmit(bare_q, job_id, b"p")) is Readmission.OTHER


def test_the_kind_of_an_id_can_be_told_beforehand() -> None:
    assert enqueue.is_job_id("JOB0KHTOWnGLuC")
    assert not enqueue.is_job_id("ORD0KHTOWnGLuC")
