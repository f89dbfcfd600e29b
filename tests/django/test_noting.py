"""Queues that the settings don't name are noted on the server once per process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest

from emq_django import noting
from emq_django.conf import keys
from emq_django.errors import ServerBusy
from emq_django.protocol.keyspace import QUEUES_KEY
from tests.faces import FACES, Face

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from pytest_django.fixtures import Settings

    from tests.monitoring import Recording

Record = Callable[[], AbstractContextManager["Recording"]]


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    one = Face(request.param)
    yield one
    one.close()


@pytest.fixture(autouse=True)
def _forgotten(queue: str, redis_client: redis.Redis) -> Iterator[None]:
    yield
    redis_client.srem(QUEUES_KEY, keys(queue).wire_name)


@pytest.mark.parametrize(
    "first",
    [
        lambda face, queue: face.enqueue(queue, b"x"),
        lambda face, queue: face.enqueue_in(queue, b"x", 5),
        lambda face, queue: face.enqueue_many(queue, [b"x"]),
    ],
    ids=["now", "in", "many"],
)
def test_the_first_enqueue_notes_the_queue_and_the_second_is_one_command(
    face: Face,
    queue: str,
    redis_client: redis.Redis,
    monitor: Record,
    first: Callable[[Face, str], Any],
) -> None:
    first(face, queue)

    assert redis_client.sismember(QUEUES_KEY, keys(queue).wire_name)

    face.enqueue(queue, b"the script is loaded")
    with monitor() as recording:
        receipt = face.enqueue(queue, b"second")

    q = keys(queue)
    (command,) = recording.commands
    assert command[0] == b"EVALSHA"
    assert command[2:] == (b"2", q.row(receipt.id), q.pending, receipt.id.encode(), b"second")


def test_a_queue_of_the_settings_is_not_noted(
    face: Face, queue: str, redis_client: redis.Redis, settings: Settings
) -> None:
    settings.EMQ = {**settings.EMQ, "QUEUES": {queue: {}}}

    face.enqueue(queue, b"x")

    assert not redis_client.sismember(QUEUES_KEY, keys(queue).wire_name)


def test_a_note_that_fails_costs_neither_the_job_nor_a_second_try(
    face: Face,
    queue: str,
    redis_client: redis.Redis,
    monitor: Record,
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept = redis_client.dump(QUEUES_KEY)
    redis_client.delete(QUEUES_KEY)
    redis_client.set(QUEUES_KEY, "another type")
    try:
        with monitor() as recording, caplog.at_level(logging.DEBUG, "emq_django.enqueue"):
            face.enqueue(queue, b"x")
            face.enqueue(queue, b"x")
    finally:
        redis_client.delete(QUEUES_KEY)
        if kept is not None:
            redis_client.restore(QUEUES_KEY, 0, kept)

    assert redis_client.zcard(keys(queue).pending) == 2
    notes = [c for c in recording.named(b"EVALSHA") if c[3] == QUEUES_KEY]
    assert len(notes) in {1, 2}  # the second one after NOSCRIPT
    assert [record.levelno for record in caplog.records] == [logging.DEBUG]


def test_a_note_never_waits_long(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float | None] = []

    class Slow:
        def run(self, call: Any, timeout_s: float | None = None) -> Any:
            waited.append(timeout_s)
            raise ServerBusy("busy")

    monkeypatch.setattr(noting, "wire_for", lambda queue: Slow())

    noting.note_queue(keys(queue))
    noting.note_queue(keys(queue))

    assert waited == [1.0]
