"""Repeats: each due time fires once, however many workers run, also beside a foreign pump."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from emq_django import errors
from emq_django.protocol import enqueue, ids, operate, repeats
from emq_django.protocol.repeats import Due, Fired, Firing
from tests.foreign import Foreign
from tests.queue_state import read_state
from tests.speakers import SyncSpeaker

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from tests.servers import Server
    from tests.speakers import Speaker

EVERY_MS = 60_000


def server_ms(client: Any) -> int:
    seconds, micros = client.time()
    return int(seconds) * 1000 + int(micros) // 1000


def due_since(client: Any, q: Queue, name: str, late_ms: int) -> int:
    """Move a repeat's next run to `late_ms` ago and return that time."""
    due_ms = server_ms(client) - late_ms
    client.zadd(q.base + b"repeat", {name: due_ms}, xx=True)
    return due_ms


def next_run(client: Any, q: Queue, name: str) -> float:
    score = client.zscore(q.base + b"repeat", name)
    assert score is not None
    return float(score)


def only_due(speaker: Speaker, q: Queue) -> Due:
    (due,) = speaker.run(repeats.due_repeats(q)).due
    return due


def test_a_repeat_starts_one_period_from_now_or_at_its_first_time(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    before = server_ms(client)

    assert speaker.run(repeats.register_repeat(q, "tick", EVERY_MS, b"\0\xff")) is True
    assert speaker.run(repeats.register_repeat(q, "then", EVERY_MS, b"", 5)) is True

    assert before <= next_run(client, q, "tick") - EVERY_MS <= server_ms(client)
    assert next_run(client, q, "then") == 5
    assert client.hgetall(q.base + b"repeat:tick") == {
        b"every_ms": b"60000",
        b"template": b"\0\xff",
    }


def test_a_name_is_taken_once(speaker: Speaker, client: Any, q: Queue) -> None:
    speaker.run(repeats.register_repeat(q, "tick", EVERY_MS, b"first"))
    before = read_state(client, q)

    assert speaker.run(repeats.register_repeat(q, "tick", 1, b"second", 1)) is False

    assert read_state(client, q) == before


def test_a_cancelled_repeat_is_gone_and_its_jobs_stay(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    speaker.run(repeats.register_repeat(q, "tick", EVERY_MS, b"job", 0))
    due = only_due(speaker, q)
    speaker.run(repeats.fire(q, due, ids.mint.one()))

    assert speaker.run(repeats.cancel_repeat(q, "tick")) is True
    assert speaker.run(repeats.cancel_repeat(q, "tick")) is False

    assert client.zcard(q.pending) == 1
    assert not [name for name in read_state(client, q).keys if name.startswith(b"repeat")]
    assert speaker.run(repeats.register_repeat(q, "tick", 1, b"second")) is True


def test_a_firing_enqueues_the_template_and_keeps_the_rhythm(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    speaker.run(repeats.register_repeat(q, "tick", EVERY_MS, b"template"))
    due_ms = due_since(client, q, "tick", 1_234)
    job_id = ids.mint.one()

    assert speaker.run(repeats.fire(q, only_due(speaker, q), job_id)) == Fired(Firing.FIRED, 0)

    assert next_run(client, q, "tick") == due_ms + EVERY_MS
    assert read_state(client, q).row(job_id) == {
        b"state": b"pending",
        b"attempts": b"0",
        b"payload": b"template",
    }
    assert speaker.run(repeats.due_repeats(q)).due == []


def test_runs_that_were_missed_are_counted_and_left_out(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    speaker.run(repeats.register_repeat(q, "tick", EVERY_MS, b""))
    due_ms = due_since(client, q, "tick", 3 * EVERY_MS + 5_000)

    fired = speaker.run(repeats.fire(q, only_due(speaker, q), ids.mint.one()))

    assert fired == Fired(Firing.FIRED, 3)
    assert next_run(client, q, "tick") == due_ms + 4 * EVERY_MS
    assert client.zcard(q.pending) == 1


def test_a_due_time_fires_once(speaker: Speaker, client: Any, q: Queue) -> None:
    speaker.run(repeats.register_repeat(q, "tick", EVERY_MS, b"", 0))
    due = only_due(speaker, q)

    answers = [speaker.run(repeats.fire(q, due, ids.mint.one())).firing for _ in range(3)]

    assert answers == [Firing.FIRED, Firing.NOT_DUE, Firing.NOT_DUE]
    assert client.zcard(q.pending) == 1


def test_an_id_that_is_taken_leaves_the_time_due(speaker: Speaker, client: Any, q: Queue) -> None:
    taken = ids.mint.one()
    speaker.run(enqueue.enqueue(q, taken, b"other"))
    speaker.run(repeats.register_repeat(q, "tick", EVERY_MS, b"", 0))
    due = only_due(speaker, q)

    assert speaker.run(repeats.fire(q, due, taken)).firing is Firing.TAKEN
    assert speaker.run(repeats.fire(q, due, ids.mint.one())).firing is Firing.FIRED


def test_a_repeat_that_was_cancelled_or_is_not_due_does_not_fire(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    speaker.run(repeats.register_repeat(q, "tick", EVERY_MS, b""))
    later = Due("tick", repr(next_run(client, q, "tick")))

    assert speaker.run(repeats.fire(q, later, ids.mint.one())).firing is Firing.NOT_DUE
    speaker.run(repeats.cancel_repeat(q, "tick"))
    assert speaker.run(repeats.fire(q, later, ids.mint.one())).firing is Firing.NOT_DUE
    assert read_state(client, q).keys == {}


def test_a_foreign_kind_of_id_is_refused_and_the_time_stays_due(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    speaker.run(repeats.register_repeat(q, "tick", EVERY_MS, b"", 0))
    due = only_due(speaker, q)

    with pytest.raises(errors.KindRefused):
        speaker.run(repeats.fire(q, due, "ORD0KHTOWnGLuC"))

    assert only_due(speaker, q) == due


def test_the_due_ones_come_in_order_and_the_next_time_is_told(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    for number in range(5):
        speaker.run(repeats.register_repeat(q, f"r{number}", EVERY_MS, b"", 10 - number))
    later_ms = server_ms(client) + EVERY_MS
    speaker.run(repeats.register_repeat(q, "later", EVERY_MS, b"", later_ms))

    seen = speaker.run(repeats.due_repeats(q, batch=3))

    assert [due.name for due in seen.due] == ["r4", "r3", "r2"]
    assert seen.next_ms == later_ms
    speaker.run(operate.pause(q))
    speaker.run(operate.obliterate(q))
    assert speaker.run(repeats.due_repeats(q)).next_ms is None


@pytest.mark.parametrize("name", ["a b", "a:b", "имя", "{q}", "x\0y", "\udcff"])
def test_names_may_hold_any_characters(speaker: Speaker, client: Any, q: Queue, name: str) -> None:
    speaker.run(repeats.register_repeat(q, name, EVERY_MS, b"", 0))
    due = only_due(speaker, q)

    assert due.name == name
    assert speaker.run(repeats.fire(q, due, ids.mint.one())).firing is Firing.FIRED
    assert speaker.run(repeats.cancel_repeat(q, name)) is True


def test_a_record_that_nobody_can_read_stops_its_repeat(
    speaker: Speaker, client: Any, bare_q: Queue
) -> None:
    for number, every in enumerate([b"0", b"abc", b"1.5", b"-1", None]):
        name = f"r{number}"
        client.zadd(bare_q.base + b"repeat", {name: 1})
        if every is not None:
            client.hset(bare_q.base + b"repeat:" + name.encode(), "every_ms", every)

        due = only_due(speaker, bare_q)

        assert speaker.run(repeats.fire(bare_q, due, ids.mint.one())).firing is Firing.NOT_DUE
        assert speaker.run(repeats.due_repeats(bare_q)).due == []
    assert client.zcard(bare_q.pending) == 0


@pytest.mark.parametrize("score", ["-inf", "-5", "1.5"])
def test_an_odd_score_fires_once_and_gets_a_sound_next_time(
    speaker: Speaker, client: Any, q: Queue, score: str
) -> None:
    speaker.run(repeats.register_repeat(q, "tick", EVERY_MS, b""))
    client.zadd(q.base + b"repeat", {"tick": float(score)})

    fired = speaker.run(repeats.fire(q, only_due(speaker, q), ids.mint.one()))

    assert fired.firing is Firing.FIRED
    assert 0 < next_run(client, q, "tick") - server_ms(client) <= EVERY_MS


@pytest.mark.parametrize(("every", "first"), [(0, None), (-1, None), (1.5, None), (1, -1)])
def test_times_are_whole_ms(q: Queue, every: Any, first: Any) -> None:
    with pytest.raises(errors.InvalidDuration, match="milliseconds"):
        repeats.register_repeat(q, "tick", every, b"", first)


@pytest.mark.parametrize("bad", ["", None, b"tick", 5, "\ud800"])
def test_a_repeat_needs_a_name_of_text(q: Queue, bad: Any) -> None:
    with pytest.raises(errors.InvalidInput, match="name="):
        repeats.register_repeat(q, bad, 1, b"")
    with pytest.raises(errors.InvalidInput, match="name="):
        repeats.cancel_repeat(q, bad)


def test_records_of_a_foreign_pump_and_ours_are_the_same(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    foreign = Foreign(client, q)
    foreign.register_repeat("theirs", EVERY_MS, b"theirs", 1)
    speaker.run(repeats.register_repeat(q, "ours", EVERY_MS, b"ours", 1))

    for due in speaker.run(repeats.due_repeats(q)).due:
        assert speaker.run(repeats.fire(q, due, ids.mint.one())).firing is Firing.FIRED
    assert foreign.due_repeats() == []
    for name in ("theirs", "ours"):
        due_since(client, q, name, 10)
    for name in foreign.due_repeats():
        foreign.fire(name, ids.mint.one())

    rows = read_state(client, q).rows.values()
    assert sorted(row[b"payload"] for row in rows if row) == [b"ours"] * 2 + [b"theirs"] * 2


@pytest.mark.slow
def test_three_workers_fire_each_due_time_once(engine: Server, client: Any, q: Queue) -> None:
    """The original's pumps fire as often as there are pumps: 600 due times became 1796 jobs."""
    names = [f"r{number}" for number in range(200)]
    with_ours = SyncSpeaker(engine.port)
    for name in names:
        with_ours.run(repeats.register_repeat(q, name, EVERY_MS, name.encode(), 1))
    fired: list[str] = []
    barrier = threading.Barrier(3)

    def pump() -> None:
        speaker = SyncSpeaker(engine.port)
        barrier.wait()
        while due := speaker.run(repeats.due_repeats(q, 50)).due:
            answers = [speaker.run(repeats.fire(q, one, ids.mint.one())) for one in due]
            fired.extend(
                one.name
                for one, answer in zip(due, answers, strict=True)
                if answer.firing is Firing.FIRED
            )
        speaker.close()

    threads = [threading.Thread(target=pump) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with_ours.close()

    assert sorted(fired) == sorted(names)
    assert client.zcard(q.pending) == 200
