"""Cancel: what waits goes, what runs is asked, and nobody runs it again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.protocol import claim, lanes, notes, operate, recover, settle, upkeep
from emq_django.protocol.operate import Cancelled, Reprocessed
from emq_django.protocol.records import Verdict
from tests.acts import LANE, expire, fall_due, kill, put, put_off, start, take_one
from tests.foreign import Foreign
from tests.queue_state import read_state

ABSENT = "JOB00000000001"

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from tests.speakers import Speaker


def test_a_job_that_waits_goes_with_all_that_is_its_own(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    job_ids = [put(speaker, q), put(speaker, q, lane=LANE), put_off(speaker, q, LANE)]
    for job_id in job_ids:
        speaker.run(notes.add_log(q, job_id, "line"))

    assert speaker.run(operate.cancel(q, job_ids)) == [Cancelled.REMOVED] * 3

    assert set(read_state(client, q).keys) <= {b"wake"}


def test_a_running_job_is_asked_and_stays_its_workers(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    job, other = start(speaker, q, LANE), start(speaker, q)

    assert speaker.run(operate.cancel(q, [job.id])) == [Cancelled.ASKED]

    assert speaker.run(settle.cancelled(q, [job, other])) == [job.id]
    assert read_state(client, q).place(job.id) == ["active"]
    assert speaker.run(settle.complete(q, job)) is Verdict.COMPLETED  # its code did not give in


def test_only_the_claim_that_holds_the_job_is_asked(speaker: Speaker, q: Queue) -> None:
    job = start(speaker, q)
    speaker.run(operate.cancel(q, [job.id]))
    stale = replace(job, attempts=job.attempts + 1)

    assert speaker.run(settle.cancelled(q, [stale])) == []


@pytest.mark.parametrize("lane", [None, LANE])
@pytest.mark.parametrize("back", ["release", "reap", "hand back", "delay", "retry"])
def test_a_cancelled_job_that_comes_back_is_not_run_again(
    speaker: Speaker, client: Any, q: Queue, back: str, lane: str | None
) -> None:
    job = start(speaker, q, lane)
    speaker.run(operate.cancel(q, [job.id]))
    if back == "release":
        speaker.run(settle.release(q, job))
    elif back == "reap":
        expire(client, q, job.id)
        speaker.run(upkeep.reap(q))
    elif back == "hand back":
        speaker.run(recover.hand_back(q, [recover.Held(job.id, job.attempts, lost=True)], 3))
    elif back == "delay":
        speaker.run(settle.delay(q, job, "in", 0))
    else:
        speaker.run(settle.retry(q, job, "failed", 0, 9))
    if back in {"delay", "retry"}:
        fall_due(client, q, job.id)
    speaker.run(upkeep.promote(q))

    assert speaker.run(claim.take(q, "w", 30_000, 5)).jobs == []

    assert read_state(client, q).place(job.id) == ["dead"]
    assert client.hget(q.row(job.id), "last_error").startswith(b"cancelled")
    assert client.hget(q.base + b"gactive", LANE) is None


def test_a_plain_claim_buries_it_too(speaker: Speaker, client: Any, q: Queue) -> None:
    job = start(speaker, q)
    speaker.run(operate.cancel(q, [job.id]))
    speaker.run(settle.release(q, job))

    assert speaker.run(claim.claim(q, 30_000)) is None

    assert read_state(client, q).place(job.id) == ["dead"]


def test_a_foreign_reaper_brings_it_back_for_nobody(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    job = start(speaker, q)
    speaker.run(operate.cancel(q, [job.id]))
    expire(client, q, job.id)
    Foreign(client, q).reap()

    assert speaker.run(claim.take(q, "w", 30_000, 5)).jobs == []

    assert read_state(client, q).place(job.id) == ["dead"]


@pytest.mark.parametrize("how", ["reprocess", "foreign"])
def test_another_life_begins_without_the_request(
    speaker: Speaker, client: Any, q: Queue, how: str
) -> None:
    job = start(speaker, q)
    speaker.run(operate.cancel(q, [job.id]))
    speaker.run(settle.retry(q, job, "gave in", 0, 0))

    if how == "reprocess":
        assert speaker.run(operate.reprocess(q, [job.id])) == [Reprocessed.PENDING]
    else:
        Foreign(client, q).reprocess(job.id)

    assert take_one(speaker, q).id == job.id


def test_a_lanes_slot_is_free_when_its_waiting_job_goes(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    first, second = put(speaker, q, lane=LANE), put(speaker, q, lane=LANE)
    speaker.run(lanes.limit_lane(q, LANE, 1))

    assert speaker.run(operate.cancel(q, [first, second])) == [Cancelled.REMOVED] * 2

    assert client.lrange(q.ring, 0, -1) == []
    put(speaker, q, lane=LANE)
    assert take_one(speaker, q).lane == LANE


def test_what_runs_no_more_is_left_alone(speaker: Speaker, client: Any, q: Queue) -> None:
    dead, locked = kill(speaker, q).id, put(speaker, q)
    client.set(q.row(locked) + b":lock", "1", px=60_000)

    verdicts = speaker.run(operate.cancel(q, [dead, locked, ABSENT]))

    assert verdicts == [Cancelled.DEAD, Cancelled.LOCKED, Cancelled.GONE]
    client.delete(q.row(locked) + b":lock")
