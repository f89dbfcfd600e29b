"""C61 and C51: a delayed job starts at its time, whatever stands before it in the schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol.enqueue import enqueue_in
from emq_django.protocol.ids import mint
from tests.worker.processes import until

if TYPE_CHECKING:
    import redis

    from tests.worker.processes import Bench


def _enqueue_in(bench: Bench, delay_ms: int) -> str:
    where, job_id = keys(bench.queue), mint.one()
    wire_for(where).run(enqueue_in(where, job_id, b"{}", delay_ms))
    return job_id


def test_a_delay_of_a_second_takes_a_second(bench: Bench, redis_client: redis.Redis) -> None:
    bench.start()
    seconds, micros = redis_client.time()
    enqueued_ms = seconds * 1_000 + micros // 1_000
    ids = [_enqueue_in(bench, 1_000) for _ in range(20)]

    until(bench.empty, "all jobs ended")

    starts = {note.id: note.time_ns // 1_000_000 for note in bench.ledger.notes("start")}
    assert set(starts) == set(ids)
    assert min(starts.values()) >= enqueued_ms + 1_000 - 1


def test_a_due_job_is_not_held_up_by_thousands_that_are_not_or_cannot_move(
    bench: Bench, redis_client: redis.Redis
) -> None:
    where = keys(bench.queue)
    hour_ms = redis_client.time()[0] * 1_000 + 3_600_000
    later = {f"JOB{number:011}": hour_ms for number in range(5_000)}
    ghosts = {f"JOB1{number:010}": 1 for number in range(2_000)}
    redis_client.zadd(where.schedule, {**later, **ghosts})
    job_id = _enqueue_in(bench, 500)

    bench.start()

    until(lambda: bench.ledger.count("end") == {job_id: 1}, "the due job ended")
    assert bench.counts().scheduled == 5_000
