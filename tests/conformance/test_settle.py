"""How a holder ends, hands back or keeps a job. Stale holders: tests/cases/test_c25.py."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from emq_django import errors
from emq_django.errors import InvalidDuration, InvalidInput
from emq_django.protocol import claim, enqueue, ids, settle, upkeep
from emq_django.protocol.records import ClaimedJob, Verdict
from tests.conformance.test_enqueue import now_ms
from tests.queue_state import read_state
from tests.samples import KEPT

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from tests.speakers import Speaker, SyncSpeaker

LANE = "USR0KHTOWnGLuC"
MINUTE_MS = 60_000


def taken(speaker: Speaker, q: Queue, lane: str | None = None) -> ClaimedJob:
    speaker.run(enqueue.enqueue_many(q, [(ids.mint.one(), b"p")], lane))
    (job,) = speaker.run(claim.take(q, "w", MINUTE_MS)).jobs
    return job


@pytest.mark.parametrize("lane", [None, LANE])
def test_a_completed_job_leaves_only_its_count(
    speaker: Speaker, client: Any, q: Queue, lane: str | None
) -> None:
    job = taken(speaker, q, lane)
    client.rpush(q.row(job.id) + b":logs", "line")
    client.set(q.row(job.id) + b":lock", "token")

    assert speaker.run(settle.complete(q, job)) is Verdict.COMPLETED
    assert speaker.run(settle.complete(q, job)) is Verdict.GONE

    left = read_state(client, q).keys
    left.pop(b"wake", None)
    assert left == {b"metrics:completed": (b"hash", {b"count": b"1"})}


def test_finished_work_is_taken_although_a_reaper_came_first(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    job = taken(speaker, q)
    client.zadd(q.active, {job.id: 1})
    speaker.run(upkeep.reap(q))

    assert speaker.run(settle.complete(q, job)) is Verdict.COMPLETED

    assert read_state(client, q).places == {}


@pytest.mark.parametrize("lane", [None, LANE])
def test_a_failed_job_is_parked_with_its_error_and_one_try_less(
    speaker: Speaker, client: Any, q: Queue, lane: str | None
) -> None:
    job, before = taken(speaker, q, lane), now_ms(client)

    verdict = speaker.run(settle.retry(q, job, "boom \u2713", MINUTE_MS, 3))

    assert verdict is Verdict.SCHEDULED
    state = read_state(client, q)
    row = state.row(job.id)
    assert row[b"last_error"] == "boom \u2713".encode()
    assert (row[b"state"], row[b"attempts"], row[b"failures"]) == (b"scheduled", b"1", b"1")
    assert b"worker" not in row
    score = state.value(b"schedule", b"zset")[job.id.encode()]
    assert before + MINUTE_MS <= score <= now_ms(client) + MINUTE_MS
    assert speaker.run(settle.retry(q, job, "again", 0, 3)) is Verdict.STALE


@pytest.mark.parametrize("lane", [None, LANE])
def test_the_last_try_buries_the_job(
    speaker: Speaker, client: Any, q: Queue, lane: str | None
) -> None:
    job = taken(speaker, q, lane)
    client.hset(q.row(job.id), mapping={"failures": 1, "stalled": 2})

    assert speaker.run(settle.retry(q, job, "boom", 0, 5)) is Verdict.SCHEDULED
    speaker.run(upkeep.promote(q))
    (job,) = speaker.run(claim.take(q, "w", MINUTE_MS)).jobs
    assert (job.failures, job.stalled, job.tries) == (2, 2, 4)
    assert speaker.run(settle.retry(q, job, "last", 0, 5)) is Verdict.DEAD

    state = read_state(client, q)
    assert state.place(job.id) == ["dead"]
    assert state.row(job.id)[b"last_error"] == b"last"
    assert state.value(b"metrics:failed", b"hash") == {b"count": b"1"}
    assert speaker.run(settle.retry(q, job, "again", 0, 5)) is Verdict.STALE


def test_claims_that_were_handed_back_cost_no_try(speaker: Speaker, client: Any, q: Queue) -> None:
    job = taken(speaker, q)
    for _ in range(5):
        assert speaker.run(settle.release(q, job)) is Verdict.RELEASED
        (job,) = speaker.run(claim.take(q, "w", MINUTE_MS)).jobs

    assert job.attempts == 6
    assert job.tries == 0
    assert speaker.run(settle.retry(q, job, "boom", 0, 2)) is Verdict.SCHEDULED


@pytest.mark.parametrize("lane", [None, LANE])
def test_a_released_job_goes_to_the_front_of_where_it_waited(
    speaker: Speaker, client: Any, q: Queue, lane: str | None
) -> None:
    job = taken(speaker, q, lane)
    speaker.run(enqueue.enqueue_many(q, [(ids.mint.one(), b"")], lane))

    assert speaker.run(settle.release(q, job)) is Verdict.RELEASED

    state = read_state(client, q)
    assert state.row(job.id)[b"state"] == b"pending"
    assert b"worker" not in state.row(job.id)
    (again,) = speaker.run(claim.take(q, "w", MINUTE_MS)).jobs
    assert again.id == job.id


def test_an_extended_lease_ends_later_by_the_servers_clock(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    job, before = taken(speaker, q), now_ms(client)

    assert speaker.run(settle.extend(q, job, 5 * MINUTE_MS)) is Verdict.EXTENDED

    score = client.zscore(q.active, job.id)
    assert before + 5 * MINUTE_MS <= score <= now_ms(client) + 5 * MINUTE_MS


def test_a_lease_that_ended_but_was_not_swept_can_still_be_kept(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    job = taken(speaker, q)
    client.zadd(q.active, {job.id: 1})

    assert speaker.run(settle.extend(q, job, MINUTE_MS)) is Verdict.EXTENDED

    assert speaker.run(upkeep.reap(q)).seen == 0


@pytest.mark.parametrize("verb", ["complete", "retry", "release", "delay", "extend"])
def test_a_job_without_a_row_is_gone(speaker: Speaker, q: Queue, verb: str) -> None:
    job = ClaimedJob(ids.mint.one(), b"", 1, q.name)

    call: Any = {
        "complete": lambda: settle.complete(q, job),
        "retry": lambda: settle.retry(q, job, "boom", 0, 1),
        "release": lambda: settle.release(q, job),
        "delay": lambda: settle.delay(q, job, "at", 0),
        "extend": lambda: settle.extend(q, job, 1),
    }[verb]()

    assert speaker.run(call) is Verdict.GONE


@pytest.mark.parametrize(
    ("error", "stored"),
    [
        ("", b""),
        ("a\0b\r\n", b"a\0b\r\n"),
        ("lone \udcff", b"lone \\udcff"),
        ("x" * 8_192, b"x" * 8_192),
        ("x" * 8_193, b"x" * 8_192 + "…".encode()),
        ("é" * 5_000, ("é" * 4_096 + "…").encode()),
        ("x" + "é" * 5_000, ("x" + "é" * 4_095 + "…").encode()),
    ],
    ids=["empty", "controls", "surrogate", "fits", "cut", "cut at a letter", "cut in a letter"],
)
def test_the_text_of_a_failure_is_kept_as_long_as_it_is_small(
    speaker: Speaker, client: Any, q: Queue, error: str, stored: bytes
) -> None:
    job = taken(speaker, q)

    speaker.run(settle.retry(q, job, error, 0, 9))

    assert client.hget(q.row(job.id), "last_error") == stored


def test_unknown_fields_survive_every_settlement(speaker: Speaker, client: Any, q: Queue) -> None:
    job = taken(speaker, q)
    client.hset(q.row(job.id), mapping={"parent": "x", b"\xff": b"\0"})

    speaker.run(settle.extend(q, job, MINUTE_MS))
    speaker.run(settle.retry(q, job, "boom", 0, 9))
    speaker.run(upkeep.promote(q))
    (job,) = speaker.run(claim.take(q, "w", MINUTE_MS)).jobs
    speaker.run(settle.release(q, job))

    row = read_state(client, q).row(job.id)
    assert (row[b"parent"], row[b"\xff"]) == (b"x", b"\0")


def test_bad_numbers_never_reach_the_wire(q: Queue) -> None:
    job = ClaimedJob(ids.mint.one(), b"", 1, q.name)

    with pytest.raises(InvalidDuration, match="done_ms=-1"):
        settle.complete(q, job, done_ms=-1)
    with pytest.raises(InvalidDuration, match=r"delay_ms=1\.5"):
        settle.retry(q, job, "boom", 1.5, 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="max_attempts=-1"):
        settle.retry(q, job, "boom", 1, -1)
    with pytest.raises(InvalidDuration, match="lease_ms=0"):
        settle.extend(q, job, 0)


def test_jobs_that_end_together_leave_what_one_alone_leaves(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    jobs = [taken(speaker, q, LANE), taken(speaker, q), taken(speaker, q)]
    kept = KEPT._replace(payload_bytes=0, finished=2)

    assert speaker.run(settle.complete(q, jobs[0], kept=kept)) is Verdict.COMPLETED
    verdicts = speaker.run(
        settle.complete_many(
            q,
            [
                settle.Finished(jobs[1], 60_000, kept),
                settle.Finished(jobs[2]),
                settle.Finished(replace(jobs[0], attempts=2), 0, kept),
                settle.Finished(jobs[1], 0, kept),
            ],
        )
    )

    assert verdicts == [Verdict.COMPLETED, Verdict.COMPLETED, Verdict.GONE, Verdict.GONE]
    alone, together = (client.hgetall(q.row(job.id) + b":result") for job in jobs[:2])
    del alone[b"group"]
    assert all(alone.pop(time) <= together.pop(time) for time in (b"taken", b"finished"))
    assert alone == together
    assert (alone[b"value"], alone[b"errors"]) == (b"1", b"{}")
    assert b"payload" not in alone
    assert 0 < client.pttl(q.row(jobs[1].id) + b":result") <= 60_000
    assert client.get(q.row(jobs[1].id) + b":done") == b"1"
    assert not client.exists(q.row(jobs[2].id), q.row(jobs[2].id) + b":result")
    finished = client.zrange(q.base + b"dj:finished", 0, -1)
    assert finished == [job.id.encode() for job in jobs[:2]]
    assert read_state(client, q).places == {}


@pytest.mark.parametrize(
    "words",
    [
        ("id",), ("id", "1"), ("id", "1", "0"), ("id", "1", "0", "1", "9"),
        ("id", "1", "0", "2", "9", "9"), ("id", "1", "0", "5", "9", "9", "9", "", "value"),
        ("id", "1", "0", "4", "9", "9", "9"), ("id", "1", "0", "0") * 1_001,
    ],
    ids=lambda words: str(len(words)),
)  # fmt: skip
def test_ends_that_are_not_whole_are_refused(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, words: tuple[str, ...]
) -> None:
    job = taken(sync_speaker, q)
    call = settle.complete_many(q, [settle.Finished(job)])
    before = read_state(client, q)

    with pytest.raises(errors.ScriptFailed, match="EMQARG"):
        sync_speaker.run(call._replace(args=(*call.args, *words)))

    assert read_state(client, q) == before
