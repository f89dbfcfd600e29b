"""Unique keys: one live job per key, free as soon as that job has ended, whoever ended it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from emq_django import errors
from emq_django.protocol import enqueue, ids, lanes, operate, settle, upkeep
from emq_django.protocol.enqueue import Readmission
from emq_django.protocol.operate import Removed, Reprocessed
from emq_django.protocol.records import JobSet, Verdict
from tests.acts import LANE, expire, fall_due, kill, put, take_one
from tests.foreign import Foreign
from tests.queue_state import read_state
from tests.speakers import SyncSpeaker

if TYPE_CHECKING:
    from collections.abc import Callable

    from emq_django.protocol.keyspace import Queue
    from tests.servers import Server
    from tests.speakers import Speaker

KEY = "invoice 42"


def put_unique(speaker: Speaker, q: Queue, key: str = KEY, **options: Any) -> Readmission | str:
    return speaker.run(enqueue.readmit(q, ids.mint.one(), b"payload", unique=key, **options))


def held_keys(client: Any, q: Queue) -> dict[bytes, bytes]:
    return dict(client.hgetall(q.base + b"dj:unique"))


def test_a_second_job_with_the_key_is_told_the_first_ones_id(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    first = ids.mint.one()
    admitted = speaker.run(enqueue.readmit(q, first, b"payload", unique=KEY))
    before = read_state(client, q)

    assert admitted is Readmission.ADMITTED
    assert put_unique(speaker, q) == first
    assert put_unique(speaker, q, lane=LANE) == first
    assert put_unique(speaker, q, mode="in", number=1_000) == first
    assert read_state(client, q) == before
    assert before.row(first)[b"unique"] == KEY.encode()
    assert put_unique(speaker, q, "another") is Readmission.ADMITTED


def test_the_key_is_held_through_the_whole_life_of_its_job(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    assert put_unique(speaker, q, mode="in", number=60_000, lane=LANE) is Readmission.ADMITTED
    (holder,) = (raw.decode() for raw in held_keys(client, q).values())

    def is_held() -> bool:
        return put_unique(speaker, q) == holder

    fall_due(client, q, holder)
    assert speaker.run(upkeep.promote(q)).moved == 1
    assert is_held()
    job = take_one(speaker, q)
    assert is_held()
    speaker.run(settle.retry(q, job, "boom", 0, 9))
    assert is_held()
    fall_due(client, q, holder)
    speaker.run(upkeep.promote(q))
    job = take_one(speaker, q)
    expire(client, q, holder)
    speaker.run(upkeep.reap(q))
    assert is_held()
    speaker.run(settle.release(q, take_one(speaker, q)))
    assert is_held()


ENDS: dict[str, Callable[[Speaker, Any, Queue], Any]] = {
    "complete": lambda speaker, _, q: speaker.run(settle.complete(q, take_one(speaker, q))),
    "complete_many": lambda speaker, _, q: speaker.run(
        settle.complete_many(q, [settle.Finished(take_one(speaker, q))])
    ),
    "death": lambda speaker, _, q: speaker.run(settle.retry(q, take_one(speaker, q), "boom", 0, 1)),
    "stalled death": lambda speaker, client, q: (
        client.zadd(q.active, {take_one(speaker, q).id: 1}),
        speaker.run(upkeep.reap(q, max_stalled=1)),
    ),
    "drain": lambda speaker, _, q: speaker.run(operate.drain(q, JobSet.PENDING)),
    "remove": lambda speaker, client, q: speaker.run(
        operate.remove(q, [client.zrange(q.pending, 0, 0)[0].decode()])
    ),
    "foreign completion": lambda _, client, q: _foreign_end(client, q, most=None),
    "foreign death": lambda _, client, q: _foreign_end(client, q, most=1),
    "foreign removal": lambda _, client, q: Foreign(client, q).remove(
        client.zrange(q.pending, 0, 0)[0].decode()
    ),
    "foreign drain": lambda _, client, q: Foreign(client, q).drain(),
}


def _foreign_end(client: Any, q: Queue, most: int | None) -> None:
    foreign = Foreign(client, q)
    job = foreign.claim()
    assert job is not None
    if most is None:
        foreign.complete(job.id, job.attempts)
    else:
        foreign.retry(job.id, job.attempts, most=most)


@pytest.mark.parametrize("end", ENDS)
def test_the_key_is_free_when_its_job_has_ended(
    speaker: Speaker, client: Any, q: Queue, end: str
) -> None:
    put_unique(speaker, q)

    ENDS[end](speaker, client, q)

    if not end.startswith("foreign"):
        assert held_keys(client, q) == {}
    assert put_unique(speaker, q) is Readmission.ADMITTED


def test_a_lane_drain_and_obliterate_free_keys(speaker: Speaker, client: Any, q: Queue) -> None:
    put_unique(speaker, q, lane=LANE)
    speaker.run(operate.drain(q, LANE))
    assert held_keys(client, q) == {}

    put_unique(speaker, q)
    Foreign(client, q).drain()
    assert held_keys(client, q) != {}
    speaker.run(operate.pause(q))
    speaker.run(operate.obliterate(q))
    assert read_state(client, q).keys == {}


def test_the_key_stays_with_its_new_holder_when_an_old_one_ends(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    """A dead job gave its key up; removing it must not free the key of the one that lives."""
    put_unique(speaker, q)
    dead = take_one(speaker, q)
    speaker.run(settle.retry(q, dead, "boom", 0, 1))
    put_unique(speaker, q)
    before = held_keys(client, q)

    assert speaker.run(operate.remove(q, [dead.id])) == [Removed.REMOVED]

    assert held_keys(client, q) == before


def test_a_dead_job_lives_again_only_while_its_key_is_free(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    put_unique(speaker, q)
    dead = take_one(speaker, q)
    speaker.run(settle.retry(q, dead, "boom", 0, 1))
    put_unique(speaker, q)

    assert speaker.run(operate.reprocess(q, [dead.id])) == [Reprocessed.NOT_UNIQUE]
    assert read_state(client, q).place(dead.id) == ["dead"]

    speaker.run(settle.complete(q, take_one(speaker, q)))
    assert speaker.run(operate.reprocess(q, [dead.id])) == [Reprocessed.PENDING]
    assert put_unique(speaker, q) == dead.id


def test_of_two_dead_jobs_with_one_key_one_lives_again(speaker: Speaker, q: Queue) -> None:
    dead = []
    for _ in range(2):
        put_unique(speaker, q)
        job = take_one(speaker, q)
        speaker.run(settle.retry(q, job, "boom", 0, 1))
        dead.append(job.id)

    answers = speaker.run(operate.reprocess(q, dead))

    assert answers == [Reprocessed.PENDING, Reprocessed.NOT_UNIQUE]


def test_an_id_that_comes_back_without_the_key_does_not_hold_it(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    put_unique(speaker, q)
    foreign = Foreign(client, q)
    job = foreign.claim()
    assert job is not None
    foreign.complete(job.id, job.attempts)
    foreign.enqueue(job.id, b"another")

    assert put_unique(speaker, q) is Readmission.ADMITTED


def test_a_resend_finds_its_own_job_and_not_a_holder(speaker: Speaker, q: Queue) -> None:
    call = enqueue.readmit(q, ids.mint.one(), b"payload", unique=KEY)

    assert [speaker.run(call) for _ in range(2)] == [Readmission.ADMITTED, Readmission.SAME]


@pytest.mark.parametrize("key", ["a:b", "{q}", "\0", "ключ", "\ud800", "x" * 255])
def test_a_key_may_be_any_text(speaker: Speaker, q: Queue, key: str) -> None:
    assert put_unique(speaker, q, key) is Readmission.ADMITTED
    assert isinstance(put_unique(speaker, q, key), str)


@pytest.mark.parametrize("bad", ["x" * 256, "ю" * 128, b"bytes", 5, None])
def test_a_key_is_short_text(q: Queue, bad: Any) -> None:
    with pytest.raises(errors.InvalidInput, match="unique="):
        enqueue.readmit(q, ids.mint.one(), b"", unique=bad)


def test_jobs_without_a_key_hold_none(speaker: Speaker, client: Any, q: Queue) -> None:
    put(speaker, q)
    kill(speaker, q, LANE)
    speaker.run(lanes.pause_lane(q, LANE))

    assert held_keys(client, q) == {}


def test_of_many_that_come_at_once_one_is_admitted(engine: Server, client: Any, q: Queue) -> None:
    answers: list[Readmission | str] = []
    barrier = threading.Barrier(8)

    def rush() -> None:
        speaker = SyncSpeaker(engine.port)
        barrier.wait()
        answers.extend(put_unique(speaker, q) for _ in range(10))
        speaker.close()

    threads = [threading.Thread(target=rush) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers.count(Readmission.ADMITTED) == 1
    assert len({answer for answer in answers if isinstance(answer, str)}) == 1


def test_completion_and_admission_race_without_a_lost_key(speaker: Speaker, q: Queue) -> None:
    for _ in range(20):
        assert put_unique(speaker, q) is Readmission.ADMITTED
        assert speaker.run(settle.complete(q, take_one(speaker, q))) is Verdict.COMPLETED
