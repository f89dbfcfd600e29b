"""The list of workers: who is alive, what each does, and whose project it is."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from emq_django.protocol import workers
from emq_django.protocol.workers import Busy, Facts
from tests.speakers import AsyncSpeaker, SyncSpeaker

EVERYBODY = [b"\xff\x00", "x" * 70_000, "[1, [2]]", "[" * 3_000, "nothing", '{"a": 1}', ""]


@pytest.fixture
def facts(client: Any) -> Iterator[Facts]:
    """A worker of a project of this test alone."""
    unique = uuid.uuid4().hex[:12]
    yield Facts(
        incarnation=f"w{unique}",
        prefix=f"p{unique}-",
        host="mill",
        pid=42,
        version="1.2.3",
        queues=("mail", "re:ports"),
        concurrency=8,
        processes=2,
    )
    for name in client.zrange(workers.WORKERS_KEY, 0, -1):
        if unique.encode() in name:
            client.zrem(workers.WORKERS_KEY, name)
    client.delete(workers.RECORD_BASE + f"w{unique}".encode())


def test_a_beat_is_read_back(speaker: SyncSpeaker | AsyncSpeaker, facts: Facts) -> None:
    busy = [Busy("mail", "JOB1"), Busy("re:ports", "JOB2")]

    now_ms = speaker.run(workers.beat(facts, busy, up_ms=5_000))

    (seen,) = speaker.run(workers.workers(facts.prefix)).workers
    assert (seen.incarnation, seen.host, seen.pid) == (facts.incarnation, "mill", 42)
    assert (seen.queues, seen.concurrency, seen.processes) == (("mail", "re:ports"), 8, 2)
    assert (seen.busy, seen.busy_count, seen.version) == (tuple(busy), 2, "1.2.3")
    assert (seen.last_beat_ms, seen.started_ms) == (now_ms, now_ms - 5_000)


def test_other_projects_are_left_out(sync_speaker: SyncSpeaker, facts: Facts) -> None:
    sync_speaker.run(workers.beat(facts, [], 0))

    assert sync_speaker.run(workers.workers(facts.prefix[:-1])).workers == []
    assert sync_speaker.run(workers.workers("")).workers == []


def test_a_worker_is_gone_after_three_missed_beats(
    sync_speaker: SyncSpeaker, client: Any, facts: Facts
) -> None:
    now_ms = sync_speaker.run(workers.beat(facts, [Busy("mail", "JOB1")], 0))
    client.zadd(workers.WORKERS_KEY, {facts.incarnation: now_ms - 3_900})
    assert sync_speaker.run(workers.workers(facts.prefix)).alive()
    client.zadd(workers.WORKERS_KEY, {facts.incarnation: now_ms - 60_000})

    seen = sync_speaker.run(workers.workers(facts.prefix))

    assert seen.alive() == []
    assert seen.workers[0].busy == (Busy("mail", "JOB1"),)  # what it had may be looked at


def test_a_worker_that_ends_leaves_nothing(
    sync_speaker: SyncSpeaker, client: Any, facts: Facts
) -> None:
    sync_speaker.run(workers.beat(facts, [], 0))

    assert sync_speaker.run(workers.gone(facts.incarnation)) is True
    assert sync_speaker.run(workers.gone(facts.incarnation)) is False

    assert sync_speaker.run(workers.workers(facts.prefix)).workers == []
    assert not client.exists(workers.RECORD_BASE + facts.incarnation.encode())


def test_the_record_of_a_silent_worker_goes_by_itself(
    sync_speaker: SyncSpeaker, client: Any, facts: Facts
) -> None:
    now_ms = sync_speaker.run(workers.beat(facts, [], 0))
    long_gone = f"{facts.incarnation}-old"
    client.zadd(workers.WORKERS_KEY, {long_gone: now_ms - workers.KEPT_MS - 1})

    sync_speaker.run(workers.beat(facts, [], 0))

    assert client.zscore(workers.WORKERS_KEY, long_gone) is None
    life_ms = client.pttl(workers.RECORD_BASE + facts.incarnation.encode())
    assert 0 < life_ms <= workers.KEPT_MS


def test_the_last_to_beat_come_first_and_the_read_is_bounded(
    sync_speaker: SyncSpeaker, client: Any, facts: Facts
) -> None:
    names = [f"{facts.incarnation}-{number}" for number in range(5)]
    for number, name in enumerate(names):
        now_ms = sync_speaker.run(workers.beat(replace(facts, incarnation=name), [], 0))
        client.zadd(workers.WORKERS_KEY, {name: now_ms + 1_000 * number})

    seen = sync_speaker.run(workers.workers(facts.prefix, limit=3)).workers

    assert [one.incarnation for one in seen] == names[:-4:-1]
    for name in names:
        sync_speaker.run(workers.gone(name))


def test_busy_jobs_are_capped_and_counted(sync_speaker: SyncSpeaker, facts: Facts) -> None:
    busy = [Busy("mail", f"JOB{number}") for number in range(200)]

    sync_speaker.run(workers.beat(facts, busy, 0))

    (seen,) = sync_speaker.run(workers.workers(facts.prefix)).workers
    assert (len(seen.busy), seen.busy_count) == (workers.MOST_BUSY, 200)


@pytest.mark.parametrize("field", ["pid", "queues", "busy", "started_ms", "host", "beat_ms"])
def test_what_another_program_wrote_into_a_record_breaks_no_read(
    sync_speaker: SyncSpeaker, client: Any, facts: Facts, field: str
) -> None:
    sync_speaker.run(workers.beat(facts, [], 0))
    for value in EVERYBODY:
        client.hset(workers.RECORD_BASE + facts.incarnation.encode(), field, value)

        (seen,) = sync_speaker.run(workers.workers(facts.prefix)).workers

        json.dumps(seen.queues)
        assert seen.incarnation == facts.incarnation
        seen.is_gone(0)


def test_a_record_of_another_type_is_left_out(
    sync_speaker: SyncSpeaker, client: Any, facts: Facts
) -> None:
    sync_speaker.run(workers.beat(facts, [], 0))
    client.delete(workers.RECORD_BASE + facts.incarnation.encode())
    client.set(workers.RECORD_BASE + facts.incarnation.encode(), "x")

    assert sync_speaker.run(workers.workers(facts.prefix)).workers == []
