"""Listening: every settlement is heard, by both faces, also after the connection was lost."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from emq_django import claim, complete, control, enqueue, retry
from emq_django.errors import WireError
from emq_django.events import RECONNECTED, UNKNOWN, Event, alisten, listen
from emq_django.protocol.events import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis
    from pytest_django.fixtures import Settings

Listener = "Callable[[str, float], list[Event]]"


def _sync(queue: str, idle_s: float) -> list[Event]:
    return list(listen(queue, idle_s=idle_s))


def _async(queue: str, idle_s: float) -> list[Event]:
    async def collect() -> list[Event]:
        return [event async for event in alisten(queue, idle_s=idle_s)]

    return asyncio.run(collect())


@pytest.fixture(params=[_sync, _async], ids=["sync", "async"])
def hear(request: pytest.FixtureRequest) -> Callable[[str, float], list[Event]]:
    """Collect the events of a queue until it was silent for a while."""
    return request.param  # type: ignore[no-any-return]


class Heard:
    """A listener in a thread of its own; its events are there when it has ended."""

    def __init__(
        self, hear: Callable[[str, float], list[Event]], queue: str, idle_s: float
    ) -> None:
        self.events: list[Event] = []
        self._thread = threading.Thread(target=self._run, args=(hear, queue, idle_s))
        self._thread.start()

    def _run(self, hear: Callable[[str, float], list[Event]], queue: str, idle_s: float) -> None:
        self.events = hear(queue, idle_s)

    def end(self) -> list[Event]:
        """Wait until the listener has heard enough of silence."""
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self.events


@pytest.fixture
def loud(queue: str, settings: Settings) -> str:
    """A queue that publishes."""
    settings.EMQ = {**settings.EMQ, "QUEUES": {queue: {"EVENTS": True}}}
    return queue


def channel_of(queue: str, settings: Settings) -> str:
    return f"emq:{{{settings.EMQ['QUEUE_PREFIX']}{queue}}}:events"


def wait_for_subscribers(client: redis.Redis, channel: str, count: int = 1) -> None:
    for _ in range(2_000):
        if client.pubsub_numsub(channel)[0][1] >= count:
            return
        threading.Event().wait(0.005)
    raise AssertionError("nobody subscribed")


def test_every_settlement_is_heard(
    loud: str,
    hear: Callable[[str, float], list[Event]],
    redis_client: redis.Redis,
    settings: Settings,
) -> None:
    heard = Heard(hear, loud, 1.5)
    wait_for_subscribers(redis_client, channel_of(loud, settings))

    done = enqueue(loud, b"a").id
    job = claim(loud)
    assert job is not None
    complete(job)
    failed = enqueue(loud, b"b").id
    control.progress(loud, failed, "half")
    for max_attempts in (2, 1):
        job = claim(loud)
        assert job is not None
        retry(job, error='boom \u2028 "x"', delay_ms=0, max_attempts=max_attempts)
        control.promote(loud)

    error = 'boom \u2028 "x"'
    assert heard.end() == [
        Event("completed", done),
        Event("progress", failed, {"progress": "half"}),
        Event("failed", failed, {"error": error, "state": "scheduled"}),
        Event("failed", failed, {"error": error, "state": "dead"}),
    ]


def test_a_queue_is_silent_unless_told_to_publish(
    queue: str,
    hear: Callable[[str, float], list[Event]],
    redis_client: redis.Redis,
    settings: Settings,
) -> None:
    heard = Heard(hear, queue, 0.5)
    wait_for_subscribers(redis_client, channel_of(queue, settings))

    enqueue(queue, b"a")
    job = claim(queue)
    assert job is not None
    complete(job)

    assert heard.end() == []


def test_listening_goes_on_after_a_lost_connection_and_says_so(
    loud: str,
    hear: Callable[[str, float], list[Event]],
    redis_client: redis.Redis,
    settings: Settings,
) -> None:
    heard = Heard(hear, loud, 2)
    channel = channel_of(loud, settings)
    wait_for_subscribers(redis_client, channel)

    redis_client.client_kill_filter(_type="pubsub")
    for _ in range(2_000):
        redis_client.publish(channel, '{"event":"first","job":"J"}')
        if redis_client.pubsub_numsub(channel)[0][1]:
            break
        threading.Event().wait(0.005)
    wait_for_subscribers(redis_client, channel)
    redis_client.publish(channel, '{"event":"later","job":"J"}')

    names = [event.name for event in heard.end()]
    assert names.count(RECONNECTED) == 1
    assert names[-1] == "later"


def test_a_dead_server_at_the_start_is_an_error(
    settings: Settings, hear: Callable[[str, float], list[Event]]
) -> None:
    settings.EMQ = {"CONNECTION": "redis://127.0.0.1:1/0"}

    with pytest.raises(WireError):
        hear("q", 1)


def test_closing_the_iterator_closes_its_connection(
    loud: str, redis_client: redis.Redis, settings: Settings
) -> None:
    events: Iterator[Event] = listen(loud)
    control.pause(loud)
    channel = channel_of(loud, settings)
    enough = threading.Timer(0.2, lambda: redis_client.publish(channel, '{"event":"x","job":"J"}'))
    enough.start()
    assert next(events) == Event("x", "J")
    enough.join()

    events.close()  # type: ignore[attr-defined]

    for _ in range(2_000):
        if not redis_client.pubsub_numsub(channel)[0][1]:
            return
        threading.Event().wait(0.005)
    raise AssertionError("the subscription stayed")


@pytest.mark.parametrize(
    "raw", [b"", b"nope", b"[1]", b'{"job":"J"}', b"\xff\xfe", b"[" * 100_000, b'{"event":1}']
)
def test_what_is_no_event_has_its_own_name(raw: bytes) -> None:
    event = parse(raw)

    assert event.name == UNKNOWN
    assert event.data["raw"] == raw.decode("utf-8", "replace")


def test_values_that_are_not_text_are_shown_as_json() -> None:
    assert parse(b'{"event":"e","job":7,"a":1,"b":null,"c":"x"}') == Event(
        "e", None, {"a": "1", "b": "null", "c": "x"}
    )
