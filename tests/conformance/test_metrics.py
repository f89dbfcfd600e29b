"""Counters per minute and hour: what is flushed is read back, added up and bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emq_django.errors import InvalidInput
from emq_django.protocol import claim, enqueue, metrics, operate
from emq_django.protocol.metrics import BOUNDS_MS, Durations, Figures
from emq_django.protocol.operate import Obliterated
from tests.queue_state import read_state

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from tests.speakers import AsyncSpeaker, SyncSpeaker

HOUR_MS = 3_600_000


def figures() -> Figures:
    counted = Figures(started=5, completed=3, failed=1, retried=1, lost=2)
    for ms in (0.4, 2.6, 40, 40, 99_000_000):
        counted.run.add(ms)
    counted.wait.add(7)
    return counted


def test_what_was_flushed_is_read_back(speaker: SyncSpeaker | AsyncSpeaker, q: Queue) -> None:
    now_ms = speaker.run(metrics.flush(q, figures()))

    read = speaker.run(metrics.history(q))

    (stretch,) = read.stretches
    assert stretch.start_ms == now_ms - now_ms % 60_000
    expected = figures()
    expected.run.sum_ms = round(expected.run.sum_ms)  # whole ms on the server
    assert stretch.figures == expected == read.total()


def test_flushes_of_one_minute_add_up(sync_speaker: SyncSpeaker, q: Queue) -> None:
    for _ in range(3):
        sync_speaker.run(metrics.flush(q, figures()))
    sync_speaker.run(metrics.flush(q, Figures(lost=1)))

    total = sync_speaker.run(metrics.history(q, count=2)).total()

    assert (total.started, total.completed, total.lost) == (15, 9, 7)
    assert (total.run.count, total.wait.count) == (15, 3)


def test_what_happened_before_is_counted_then(sync_speaker: SyncSpeaker, q: Queue) -> None:
    sync_speaker.run(metrics.flush(q, Figures(completed=1), ago_ms=90 * 60_000))
    now_ms = sync_speaker.run(metrics.flush(q, Figures(completed=2)))

    minutes = sync_speaker.run(metrics.history(q, "minute", 120)).stretches
    hours = sync_speaker.run(metrics.history(q, "hour", 24)).stretches

    assert [one.figures.completed for one in minutes] == [1, 2]
    assert now_ms - 91 * 60_000 < minutes[0].start_ms <= now_ms - 90 * 60_000
    assert sum(one.figures.completed for one in hours) == 3
    assert all(one.start_ms % HOUR_MS == 0 for one in hours)
    assert sync_speaker.run(metrics.history(q, "minute", 60)).total().completed == 2


def test_a_depth_is_noted_once_a_minute(speaker: SyncSpeaker | AsyncSpeaker, q: Queue) -> None:
    lane = "USR0123456789a"
    for job_id in ("JOB00000000001", "JOB00000000002"):
        speaker.run(enqueue.enqueue(q, job_id, b"x"))
    speaker.run(enqueue.enqueue_lane(q, "JOB00000000003", b"x", lane))
    speaker.run(claim.claim(q, 30_000))

    noted = [speaker.run(metrics.note_depth(q)) for _ in range(2)]

    assert noted[0]
    minute = speaker.run(metrics.depths(q, "minute", 2))[-1]
    hour = speaker.run(metrics.depths(q, "hour", 2))[-1]
    assert (minute.start_ms % 60_000, hour.start_ms % HOUR_MS) == (0, 0)
    for depth in (minute, hour):
        assert (depth.pending, depth.in_lanes, depth.waiting) == (1, 1, 2)
        assert (depth.active, depth.scheduled, depth.dead) == (1, 0, 0)


def test_an_hour_keeps_the_largest_depth_of_its_minutes(
    sync_speaker: SyncSpeaker, client: Any, q: Queue
) -> None:
    sync_speaker.run(metrics.note_depth(q))
    (hours,) = client.keys(q.base + b"dj:peaks:*")
    (hour,) = client.hkeys(hours)
    client.hset(hours, hour, "7 damaged 0 3 0 99")
    client.delete(*client.keys(q.base + b"dj:depths:*"))  # a minute later
    sync_speaker.run(enqueue.enqueue(q, "JOB00000000001", b"x"))

    sync_speaker.run(metrics.note_depth(q))

    minute = sync_speaker.run(metrics.depths(q))[-1]
    largest = sync_speaker.run(metrics.depths(q, "hour", 2))[-1]
    assert (minute.pending, minute.scheduled) == (1, 0)
    assert (largest.pending, largest.in_lanes, largest.scheduled) == (7, 0, 3)


@pytest.mark.parametrize("damage", [b"x y z", b"", b"9" * 5_000, b"1 2"])
def test_a_damaged_depth_is_zero_or_left_out(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, damage: bytes
) -> None:
    sync_speaker.run(metrics.note_depth(q))
    (minutes,) = client.keys(q.base + b"dj:depths:*")
    (minute,) = client.hkeys(minutes)
    client.hset(minutes, minute, damage)

    assert all(one.dead == 0 for one in sync_speaker.run(metrics.depths(q)))


def test_keys_go_by_themselves(sync_speaker: SyncSpeaker, client: Any, q: Queue) -> None:
    sync_speaker.run(metrics.flush(q, figures()))
    sync_speaker.run(metrics.note_depth(q))

    lives = {
        key[len(q.base) :].split(b":")[1]: client.pttl(key) for key in client.keys(q.base + b"dj:*")
    }

    assert lives.keys() == {b"minutes", b"hours", b"depths", b"peaks"}
    for minutes, hours in ((b"minutes", b"hours"), (b"depths", b"peaks")):
        assert 9 * HOUR_MS < lives[minutes] <= 10 * HOUR_MS
        assert 14 * 24 * HOUR_MS < lives[hours] <= 15 * 24 * HOUR_MS


@pytest.mark.parametrize(
    "damage", [b"x y z", b"", b"-1 1e5 nan", b"9" * 5_000, b"\xff", b"7 " * 900]
)
def test_a_damaged_record_breaks_neither_a_flush_nor_a_read(
    sync_speaker: SyncSpeaker, client: Any, q: Queue, damage: bytes
) -> None:
    sync_speaker.run(metrics.flush(q, figures()))
    for key in client.keys(q.base + b"dj:*"):
        for field in client.hkeys(key):
            client.hset(key, field, damage)
    sync_speaker.run(metrics.history(q))

    sync_speaker.run(metrics.flush(q, figures()))

    total = sync_speaker.run(metrics.history(q)).total()
    assert total.started >= 5
    assert total.run.count >= 5


def test_a_key_of_another_type_is_refused_before_anything_is_written(
    sync_speaker: SyncSpeaker, client: Any, bare_q: Queue
) -> None:
    sync_speaker.run(metrics.flush(bare_q, figures()))
    (hours,) = client.keys(bare_q.base + b"dj:hours:*")
    client.delete(hours)
    client.set(hours, "x")
    before = read_state(client, bare_q)

    with pytest.raises(Exception, match="WRONGTYPE"):
        sync_speaker.run(metrics.flush(bare_q, figures()))

    assert read_state(client, bare_q) == before
    assert sync_speaker.run(metrics.history(bare_q, "hour", 2)).stretches == []


def test_a_read_is_bounded() -> None:
    from emq_django.protocol.keyspace import queue

    for grain, count in (("minute", 541), ("hour", 337), ("minute", 0)):
        with pytest.raises(InvalidInput):
            metrics.history(queue("q"), grain, count)  # type: ignore[arg-type]


def test_obliterate_takes_the_counters_along(
    sync_speaker: SyncSpeaker, client: Any, bare_q: Queue
) -> None:
    for hours_ago in (0, 3, 9, 14):
        sync_speaker.run(metrics.flush(bare_q, figures(), ago_ms=hours_ago * HOUR_MS))
    sync_speaker.run(operate.pause(bare_q))

    assert sync_speaker.run(operate.obliterate(bare_q)) is Obliterated.DONE

    assert client.keys(bare_q.base + b"*") == []


def test_percentiles_stay_within_their_bucket() -> None:
    durations = Durations()
    assert durations.percentile_ms(0.5) is None
    assert durations.mean_ms is None
    for ms in range(1, 101):
        durations.add(ms)

    assert 30 <= (durations.percentile_ms(0.5) or 0) <= 100
    assert 90 <= (durations.percentile_ms(0.95) or 0) <= 100
    assert durations.percentile_ms(1.0) == 100
    assert durations.percentile_ms(0.0) == 0
    assert durations.mean_ms == 50.5


@pytest.mark.parametrize("ms", [0, 0.5, 1, 1.01, 30, 31, 9_999_999, 10_000_000, 10_000_001, 1e12])
def test_each_duration_falls_into_the_bucket_whose_bound_it_stays_within(ms: float) -> None:
    durations = Durations()
    durations.add(ms)

    (place,) = [i for i, count in enumerate(durations.buckets) if count]

    assert place == sum(bound < ms for bound in BOUNDS_MS)
    half = durations.percentile_ms(0.5)
    assert half is not None
    assert half <= (BOUNDS_MS[place] if place < len(BOUNDS_MS) else BOUNDS_MS[-1])
