"""A queue's ceilings: jobs in flight, and jobs started per window. A worker's take keeps both."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from emq_django import errors
from emq_django.protocol import claim, operate, read, settle
from emq_django.protocol.records import Taken
from tests.acts import LANE, LEASE_MS, put_many, take_all
from tests.queue_state import read_state
from tests.speakers import SyncSpeaker

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from tests.servers import Server
    from tests.speakers import Speaker


def test_no_more_jobs_are_in_flight_than_the_ceiling_allows(speaker: Speaker, q: Queue) -> None:
    put_many(speaker, q, 3)
    put_many(speaker, q, 3, LANE)
    speaker.run(operate.limit_queue(q, concurrency=2))

    first = take_all(speaker, q)

    assert len(first) == 2
    taken = speaker.run(claim.take(q, "w", LEASE_MS))
    assert (taken.jobs, taken.wait_ms) == ([], 0)
    speaker.run(settle.complete(q, first[0]))
    assert len(take_all(speaker, q)) == 1


def test_a_ceiling_of_0_stops_a_queue_and_none_removes_it(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    put_many(speaker, q, 3)
    speaker.run(operate.limit_queue(q, concurrency=0))
    assert take_all(speaker, q) == []
    speaker.run(operate.limit_queue(q, rate=0))
    assert speaker.run(claim.take(q, "w", LEASE_MS)) == Taken([], 0)
    outlook = speaker.run(read.look(q))
    assert (outlook.claimable, outlook.wait_ms, outlook.held_back) == (False, 0, True)

    speaker.run(operate.limit_queue(q))

    assert client.hgetall(q.meta) == {}
    assert len(take_all(speaker, q)) == 3


def test_no_more_jobs_start_in_a_window_than_the_rate_allows(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    put_many(speaker, q, 9)
    speaker.run(operate.limit_queue(q, rate=4, window_ms=60_000))

    sizes = [len(take_all(speaker, q, limit)) for limit in (1, 2, 5, 5)]

    assert sizes == [1, 2, 1, 0]
    taken = speaker.run(claim.take(q, "w", LEASE_MS))
    assert 50_000 < taken.wait_ms <= 60_000
    assert client.get(q.base + b"limiter") == b"4"
    client.delete(q.base + b"limiter")  # the window is over
    assert len(take_all(speaker, q)) == 4


def test_a_window_begins_with_its_first_job_and_does_not_move(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    put_many(speaker, q, 3)
    speaker.run(operate.limit_queue(q, rate=3, window_ms=60_000))
    take_all(speaker, q, 1)
    client.pexpire(q.base + b"limiter", 30_000)

    take_all(speaker, q, 1)

    assert 20_000 < client.pttl(q.base + b"limiter") <= 30_000


def test_the_window_ends_by_itself(speaker: Speaker, client: Any, q: Queue) -> None:
    put_many(speaker, q, 2)
    speaker.run(operate.limit_queue(q, rate=1, window_ms=20))
    assert len(take_all(speaker, q)) == 1

    while not (taken := speaker.run(claim.take(q, "w", LEASE_MS))).jobs:
        assert taken.wait_ms <= 20

    assert len(taken.jobs) == 1


def test_a_take_that_hands_out_nothing_uses_nothing_of_the_rate(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    speaker.run(operate.limit_queue(q, rate=1))

    assert take_all(speaker, q) == []

    assert client.exists(q.base + b"limiter") == 0


def test_both_ceilings_hold_together(speaker: Speaker, q: Queue) -> None:
    put_many(speaker, q, 9)
    speaker.run(operate.limit_queue(q, concurrency=2, rate=3, window_ms=60_000))

    first = take_all(speaker, q)
    for job in first:
        speaker.run(settle.complete(q, job))

    assert (len(first), len(take_all(speaker, q))) == (2, 1)


@pytest.mark.parametrize("odd", ["", "abc", "-1", "1e3", "inf", "9" * 20])
def test_a_ceiling_that_is_no_number_is_none(
    speaker: Speaker, client: Any, q: Queue, odd: str
) -> None:
    put_many(speaker, q, 3)
    client.hset(q.meta, mapping={"concurrency": odd, "max": odd, "window_ms": odd})

    assert len(take_all(speaker, q)) == 3


def test_ceilings_that_another_speaker_set_by_hand_hold(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    put_many(speaker, q, 3)
    client.hset(q.meta, "max", "2")

    assert len(take_all(speaker, q)) == 2
    assert 0 < client.pttl(q.base + b"limiter") <= 1_000  # a second where no window is set


@pytest.mark.parametrize("value", [b"abc", b"-5", b"", b"1.5"])
def test_a_damaged_count_begins_anew(speaker: Speaker, client: Any, q: Queue, value: bytes) -> None:
    put_many(speaker, q, 3)
    speaker.run(operate.limit_queue(q, rate=2, window_ms=60_000))
    client.set(q.base + b"limiter", value, px=60_000)

    assert len(take_all(speaker, q)) == 2


def test_a_count_without_an_end_does_not_stop_the_queue(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    put_many(speaker, q, 3)
    speaker.run(operate.limit_queue(q, rate=2, window_ms=60_000))
    client.set(q.base + b"limiter", 2)

    assert len(take_all(speaker, q)) == 2
    assert client.pttl(q.base + b"limiter") > 0


def test_a_plain_claim_keeps_no_ceiling_as_in_the_original(speaker: Speaker, q: Queue) -> None:
    put_many(speaker, q, 1)
    speaker.run(operate.limit_queue(q, concurrency=0, rate=0))

    assert speaker.run(claim.claim(q, LEASE_MS)) is not None


@pytest.mark.parametrize("bad", [-1, True, 1.5, "1", 2**52 + 1])
def test_ceilings_are_whole_numbers(q: Queue, bad: Any) -> None:
    for options in ({"concurrency": bad}, {"rate": bad}):
        with pytest.raises(errors.InvalidInput, match="whole number"):
            operate.limit_queue(q, **options)
    with pytest.raises(errors.InvalidInput, match="milliseconds"):
        operate.limit_queue(q, window_ms=0 if bad is True else bad)


@pytest.mark.slow
def test_the_ceilings_hold_under_eight_workers(engine: Server, client: Any, q: Queue) -> None:
    ours = SyncSpeaker(engine.port)
    put_many(ours, q, 200)
    ours.run(operate.limit_queue(q, concurrency=3, rate=120, window_ms=600_000))
    started: list[str] = []
    most = 0
    running = 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal most, running
        speaker = SyncSpeaker(engine.port)
        while len(started) < 120:
            jobs = take_all(speaker, q, 2)
            with lock:
                started.extend(job.id for job in jobs)
                running += len(jobs)
                most = max(most, running)
            for job in jobs:
                with lock:
                    running -= 1  # before the server knows: the count here is never too low
                speaker.run(settle.complete(q, job))
        speaker.close()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(started) == len(set(started)) == 120
    assert take_all(ours, q) == []
    assert read_state(client, q).value(b"metrics:completed", b"hash") == {b"count": b"120"}
    ours.close()
