"""Runs Calls against a test server by either executor, so that a test is written once for both."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import redis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from emq_django.embedded import LOOPBACK
from emq_django.wire.aio import AsyncWire
from emq_django.wire.kept import KeptClient
from emq_django.wire.kept_aio import AsyncKeptClient
from emq_django.wire.prompt_aio import PromptConnection
from emq_django.wire.sync import Wire

if TYPE_CHECKING:
    from emq_django.errors import EmqError
    from emq_django.protocol.calls import Call
    from emq_django.wire.spell import WireVersion

R = TypeVar("R")
Executor = Literal["sync", "async"]
EXECUTORS: tuple[Executor, ...] = ("sync", "async")

_OPTIONS: dict[str, Any] = {"host": LOOPBACK, "protocol": 2, "socket_timeout": 5}


class Speaker(Protocol):
    """Something that runs Calls; closing it leaves no socket and no event loop behind."""

    def run(self, call: Call[R], timeout_s: float | None = None) -> R: ...

    def run_many(
        self, calls: Sequence[Call[R]], timeout_s: float | None = None
    ) -> list[R | EmqError]: ...

    def close(self) -> None: ...


class SyncSpeaker:
    """Wire over a KeptClient."""

    def __init__(self, port: int, wire: WireVersion = 4, **options: Any) -> None:
        self.client = kept_client(port, **options)
        self.wire = Wire(self.client, wire)

    def run(self, call: Call[R], timeout_s: float | None = None) -> R:
        return self.wire.run(call, timeout_s)

    def run_many(
        self, calls: Sequence[Call[R]], timeout_s: float | None = None
    ) -> list[R | EmqError]:
        return self.wire.run_many(calls, timeout_s)

    def close(self) -> None:
        self.client.close()


class AsyncSpeaker:
    """AsyncWire over an AsyncKeptClient, on an event loop of its own."""

    def __init__(self, port: int, wire: WireVersion = 4, **options: Any) -> None:
        # With a factory of its own the runner leaves the thread's current loop alone.
        self.runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.client = async_kept_client(port, **options)
        self.wire = AsyncWire(self.client, wire)

    def run(self, call: Call[R], timeout_s: float | None = None) -> R:
        return self.runner.run(self.wire.run(call, timeout_s))

    def run_many(
        self, calls: Sequence[Call[R]], timeout_s: float | None = None
    ) -> list[R | EmqError]:
        return self.runner.run(self.wire.run_many(calls, timeout_s))

    def close(self) -> None:
        self.runner.run(self.client.close())
        self.runner.close()


def speak(
    executor: Executor, port: int, wire: WireVersion = 4, **options: Any
) -> SyncSpeaker | AsyncSpeaker:
    """Return a speaker to the server at `port`; options go to its connections."""
    return (SyncSpeaker if executor == "sync" else AsyncSpeaker)(port, wire, **options)


def raw(call: Call[Any]) -> Call[Any]:
    """Return the Call with the server's reply as its result, unparsed."""
    return call._replace(parse=lambda reply: reply)


def kept_client(port: int, **options: Any) -> KeptClient:
    """Return a client whose connections reply in bytes and have no retries of their own."""
    settings = {**_OPTIONS, "port": port, "retry": Retry(NoBackoff(), 0), **options}
    return KeptClient(lambda: redis.Connection(**settings))  # type: ignore[no-untyped-call]


def async_kept_client(port: int, **options: Any) -> AsyncKeptClient:
    """Return the same for one event loop."""
    settings = {**_OPTIONS, "port": port, "retry": AsyncRetry(NoBackoff(), 0), **options}
    return AsyncKeptClient(lambda: PromptConnection(**settings))
