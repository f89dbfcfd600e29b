"""Events on `emq:{q}:events`: flat JSON of strings, opt-in, and only for what really happened."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.protocol import notes, recover, settle, upkeep
from emq_django.protocol.records import ClaimedJob, Verdict
from tests.acts import LANE, expire, fall_due, put, put_many, put_off, start, take_all, take_one
from tests.queue_state import read_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from emq_django.protocol.keyspace import Queue
    from tests.servers import Server
    from tests.speakers import Speaker


@contextlib.contextmanager
def listener(engine: Server, q: Queue) -> Iterator[Callable[[], list[dict[str, str]]]]:
    """Subscribe to a queue's channel; a call returns what came since the last one."""
    with engine.client() as raw, raw.pubsub() as subscription:
        subscription.subscribe(q.base + b"events")
        assert subscription.get_message(timeout=20)["type"] == "subscribe"

        def heard() -> list[dict[str, str]]:
            raw.publish(q.base + b"events", "end")
            messages: list[dict[str, str]] = []
            while (message := subscription.get_message(timeout=20)) is not None:
                if message["data"] == b"end":
                    return messages
                messages.append(json.loads(message["data"]))
            raise AssertionError("the channel is silent")

        yield heard


@pytest.fixture
def heard(engine: Server, q: Queue) -> Iterator[Callable[[], list[dict[str, str]]]]:
    with listener(engine, q) as since:
        yield since


def test_progress_is_published_with_its_value(
    speaker: Speaker, q: Queue, heard: Callable[[], list[dict[str, str]]]
) -> None:
    job_id = put(speaker, q)

    speaker.run(notes.progress(q, job_id, "40 %"))

    assert heard() == [{"event": "progress", "job": job_id, "progress": "40 %"}]


def test_each_end_of_a_run_is_published_where_it_is_asked_for(
    speaker: Speaker, client: Any, q: Queue, heard: Callable[[], list[dict[str, str]]]
) -> None:
    put_many(speaker, q, 7)
    done, also_done, failed, dead, delayed, lost, buried = take_all(speaker, q)

    speaker.run(settle.complete(q, done, events=True))
    speaker.run(settle.complete_many(q, [settle.Finished(also_done)], events=True))
    speaker.run(settle.retry(q, failed, "boom", 0, 9, events=True))
    speaker.run(settle.retry(q, dead, "boom", 0, 1, events=True))
    speaker.run(settle.delay(q, delayed, "in", 5, events=True))
    expire(client, q, lost.id)
    speaker.run(upkeep.reap(q, events=True))
    expire(client, q, buried.id)
    speaker.run(upkeep.reap(q, max_stalled=1, events=True))

    assert heard() == [
        {"event": "completed", "job": done.id},
        {"event": "completed", "job": also_done.id},
        {"event": "failed", "job": failed.id, "error": "boom", "state": "scheduled"},
        {"event": "failed", "job": dead.id, "error": "boom", "state": "dead"},
        {"event": "delayed", "job": delayed.id},
        {"event": "stalled", "job": lost.id, "stalled": "1", "state": "pending"},
        {"event": "stalled", "job": buried.id, "stalled": "1", "state": "dead"},
    ]


def test_a_job_that_no_worker_can_run_is_published(
    speaker: Speaker, q: Queue, heard: Callable[[], list[dict[str, str]]]
) -> None:
    put_many(speaker, q, 3)
    aside, dead, silent = take_all(speaker, q)

    speaker.run(settle.park(q, aside, 5, 60_000, "unknown", events=True))
    speaker.run(settle.park(q, dead, 5, 0, "unknown", events=True))
    speaker.run(settle.park(q, silent, 5, 0, "unknown"))

    assert heard() == [
        {"event": "delayed", "job": aside.id},
        {"event": "failed", "job": dead.id, "error": "unknown", "state": "dead"},
    ]


@pytest.mark.parametrize("lane", [None, LANE])
def test_each_job_that_is_handed_back_as_lost_is_published(
    speaker: Speaker,
    client: Any,
    q: Queue,
    heard: Callable[[], list[dict[str, str]]],
    lane: str | None,
) -> None:
    put_many(speaker, q, 3, lane)
    lost, not_begun, stale = take_all(speaker, q)
    held = [
        held_by(lost),
        recover.Held(not_begun.id, not_begun.attempts),
        recover.Held(stale.id, stale.attempts + 1, lost=True),
    ]

    speaker.run(recover.hand_back(q, held, events=True))
    again = next(job for job in take_all(speaker, q) if job.id == lost.id)
    speaker.run(recover.hand_back(q, [held_by(again)], pause_ms=5, events=True))
    fall_due(client, q, lost.id)
    speaker.run(upkeep.promote(q))
    speaker.run(recover.hand_back(q, [held_by(take_one(speaker, q))], 3, events=True))

    assert heard() == [
        {"event": "stalled", "job": lost.id, "stalled": "1", "state": "pending"},
        {"event": "stalled", "job": lost.id, "stalled": "2", "state": "scheduled"},
        {"event": "stalled", "job": lost.id, "stalled": "3", "state": "dead"},
    ]


def held_by(job: ClaimedJob) -> recover.Held:
    return recover.Held(job.id, job.attempts, lost=True)


@pytest.mark.parametrize("lane", [None, LANE])
def test_what_a_take_finds_out_is_published(
    speaker: Speaker,
    client: Any,
    q: Queue,
    heard: Callable[[], list[dict[str, str]]],
    lane: str | None,
) -> None:
    """A foreign reaper brings a job back and leaves the worker's mark: the take counts the loss."""
    lost, cancelled, broken = put_many(speaker, q, 3, lane)
    waiting = q.pending if lane is None else q.lane(lane)
    client.hset(q.row(cancelled), "cancel", "1")
    client.hset(q.row(broken), "attempts", "007")
    client.hset(q.row(lost), "worker", "gone:0")
    for _ in range(2):
        job = take_one(speaker, q, max_stalled=3, events=True)
        assert job.id == lost
        speaker.run(settle.release(q, job))
        client.hset(q.row(lost), "worker", f"gone:{job.attempts}")

    assert take_all(speaker, q, max_stalled=3, events=True) == []

    assert heard() == [
        {"event": "stalled", "job": lost, "stalled": "1", "state": "active"},
        {"event": "stalled", "job": lost, "stalled": "2", "state": "active"},
        {"event": "stalled", "job": lost, "stalled": "3", "state": "dead"},
        {
            "event": "failed",
            "job": cancelled,
            "error": "cancelled: asked to end while a worker ran it",
            "state": "dead",
        },
        {"event": "failed", "job": broken, "error": DAMAGED, "state": "dead"},
    ]
    assert client.zcard(waiting) == 0


DAMAGED = "damaged row: not a hash, or attempts is no number"


def test_a_damaged_row_that_a_sweep_finds_is_published(
    speaker: Speaker, client: Any, bare_q: Queue, engine: Server
) -> None:
    expired = start(speaker, bare_q).id
    due, silent = put_off(speaker, bare_q), put_off(speaker, bare_q)
    client.hset(bare_q.row(expired), "attempts", "x")
    for job_id in (due, silent):
        client.delete(bare_q.row(job_id))
        client.set(bare_q.row(job_id), "no hash")

    with listener(engine, bare_q) as heard:
        expire(client, bare_q, expired)
        speaker.run(upkeep.reap(bare_q, events=True))
        fall_due(client, bare_q, due)
        speaker.run(upkeep.promote(bare_q, events=True))
        fall_due(client, bare_q, silent)
        speaker.run(upkeep.promote(bare_q))

        assert heard() == [
            {"event": "failed", "job": expired, "error": DAMAGED, "state": "dead"},
            {"event": "failed", "job": due, "error": DAMAGED, "state": "dead"},
        ]


def test_nothing_is_published_unless_it_is_asked_for(
    speaker: Speaker, client: Any, q: Queue, heard: Callable[[], list[dict[str, str]]]
) -> None:
    put_many(speaker, q, 4, LANE)
    done, failed, delayed, lost = take_all(speaker, q)

    speaker.run(settle.complete(q, done))
    speaker.run(settle.retry(q, failed, "boom", 0, 1))
    speaker.run(settle.delay(q, delayed, "in", 5))
    expire(client, q, lost.id)
    speaker.run(upkeep.reap(q))
    for _ in range(3):
        lost = take_one(speaker, q)
        speaker.run(recover.hand_back(q, [recover.Held(lost.id, lost.attempts, lost=True)], 4))
    assert read_state(client, q).place(lost.id) == ["dead"]

    assert heard() == []


def test_a_verdict_that_changes_nothing_publishes_nothing(
    speaker: Speaker, q: Queue, heard: Callable[[], list[dict[str, str]]]
) -> None:
    """The original's batch consumer says "completed" also for a stale job."""
    job = start(speaker, q)
    stale = ClaimedJob(job.id, b"", 9, q.name)
    gone = ClaimedJob("JOB00000000001", b"", 1, q.name)

    for held in (stale, gone):
        speaker.run(settle.complete(q, held, events=True))
        speaker.run(settle.complete_many(q, [settle.Finished(held)], events=True))
        speaker.run(settle.retry(q, held, "boom", 0, 9, events=True))
        speaker.run(settle.delay(q, held, "in", 0, events=True))
    speaker.run(notes.progress(q, gone.id, "half"))

    assert heard() == []


AWKWARD = '"\\\n\r\t\0\x1f\x7f/é日𝄞\ud800'


def test_whatever_the_text_the_event_is_valid_json(
    speaker: Speaker, q: Queue, heard: Callable[[], list[dict[str, str]]]
) -> None:
    """The original escapes quotes and backslashes only: a newline makes its JSON invalid."""
    job = start(speaker, q)
    speaker.run(notes.progress(q, job.id, AWKWARD))
    speaker.run(settle.retry(q, job, AWKWARD, 0, 9, events=True))

    progress, failed = heard()

    expected = AWKWARD.replace("\ud800", "\\ud800")
    assert progress["progress"] == failed["error"] == expected


def test_an_id_of_any_bytes_leaves_the_json_valid(
    speaker: Speaker, client: Any, bare_q: Queue, engine: Server
) -> None:
    raw_id = b'JOB\xff\xfe"\n'
    client.hset(bare_q.row_base + raw_id, mapping={"state": "pending", "payload": "x"})
    client.zadd(bare_q.pending, {raw_id: 0})
    with listener(engine, bare_q) as heard:
        (job,) = take_all(speaker, bare_q)
        speaker.run(settle.complete(bare_q, job, events=True))

        assert heard() == [{"event": "completed", "job": 'JOB??"\n'}]


@pytest.mark.parametrize("rule", ["resetchannels"])
def test_a_user_who_may_not_publish_still_settles(
    speaker: Speaker, client: Any, q: Queue, engine: Server, rule: str
) -> None:
    job = start(speaker, q)
    client.execute_command("ACL", "SETUSER", "mute", "on", ">pw", "~*", rule, "+@all")
    try:
        with engine.client(username="mute", password="pw") as mute:
            call = settle.complete(q, job, events=True)
            answer = mute.eval(call.script.text, len(call.keys), *call.keys, *call.args)
    finally:
        client.execute_command("ACL", "DELUSER", "mute")

    assert answer == 1
    assert read_state(client, q).row(job.id) == {}
    assert speaker.run(settle.complete(q, job)) is Verdict.GONE
