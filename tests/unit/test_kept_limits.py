"""What a limit covers besides the reply, and which replies end a connection, by both executors.

A server that hangs takes connections and bytes until its buffers are full, and says nothing.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.embedded import LOOPBACK
from emq_django.errors import EmqError, ReplyLost, ScriptFailed, ServerReadOnly, Unreachable
from emq_django.protocol import enqueue, ids
from emq_django.protocol.claim import claim
from emq_django.protocol.keyspace import queue as keys_of
from emq_django.protocol.records import Verdict
from emq_django.wire.sentinel import afind_master, find_master
from tests.speakers import EXECUTORS, AsyncSpeaker, SyncSpeaker, kept_client, speak
from tests.stub_server import StubServer
from tests.unit.test_wire_edges import async_connection, sync_connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers import Server
    from tests.speakers import Executor

Q = keys_of("q")
Speaking = SyncSpeaker | AsyncSpeaker
LARGE = bytes(32 << 20)  # more than sockets of one machine hold
OWN_S = 30  # a connection's own timeout: the limit is what ends the wait
LIMIT_S = 0.2


@contextmanager
def hung(server: Server) -> Iterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@pytest.fixture
def lone(fresh_server: Callable[..., Server]) -> Server:
    return fresh_server()


@pytest.fixture(params=EXECUTORS)
def speaker_to(request: pytest.FixtureRequest) -> Iterator[Callable[..., Speaking]]:
    started: list[Speaking] = []

    def start(port: int, **options: Any) -> Speaking:
        executor: Executor = request.param
        started.append(speak(executor, port, **{"socket_timeout": OWN_S, **options}))
        return started[-1]

    yield start
    for one in started:
        one.close()


def put(payload: bytes = b"x") -> Any:
    return enqueue.enqueue(Q, ids.mint.one(), payload)


def error_of(act: Callable[[], Any]) -> EmqError:
    began_s = time.monotonic()
    with pytest.raises(EmqError) as caught:
        act()
    assert time.monotonic() - began_s < OWN_S / 3
    return caught.value


# --- Limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"db": 1}, {"password": "secret"}], ids=str)
def test_what_is_said_before_the_command_waits_within_its_limit(
    speaker_to: Callable[..., Speaking], lone: Server, options: dict[str, Any]
) -> None:
    speaker = speaker_to(lone.port, **options)
    with hung(lone):
        assert type(error_of(lambda: speaker.run(put(), LIMIT_S))) is Unreachable


def test_a_handshake_has_a_limit_where_the_command_has_none(
    speaker_to: Callable[..., Speaking], lone: Server
) -> None:
    speaker = speaker_to(lone.port, socket_timeout=LIMIT_S)
    with hung(lone):
        assert type(error_of(lambda: speaker.run(put()))) is Unreachable


@pytest.mark.parametrize("many", [False, True])
def test_a_large_command_is_written_within_its_limit_and_not_after_it(
    speaker_to: Callable[..., Speaking], lone: Server, many: bool
) -> None:
    speaker = speaker_to(lone.port)
    speaker.run(put())
    with hung(lone):
        if many:
            (error,) = speaker.run_many([put(LARGE)], LIMIT_S)
            assert isinstance(error, ReplyLost)
        else:
            assert isinstance(error_of(lambda: speaker.run(put(LARGE), LIMIT_S)), ReplyLost)

    assert speaker.run(put()) is Verdict.ENQUEUED
    if isinstance(speaker, AsyncSpeaker):
        speaker.runner.run(asyncio.sleep(0.1))  # time to send what was still unsent
    with lone.client() as client:
        assert client.zcard(Q.pending) == 2


def test_a_limit_is_over_with_its_command(server: Server) -> None:
    """The connection waits as long as ever for the next one, which may have no limit."""
    client = kept_client(server.port, socket_timeout=OWN_S)
    client.execute(("PING",), b"", 10)
    client.execute_many([("PING",)] * 3, b"", 10)

    ((connection, _),) = client._idle
    assert connection._sock.gettimeout() == OWN_S  # type: ignore[attr-defined]
    client.close()


async def test_a_sentinel_that_hangs_is_passed_over() -> None:
    with (
        socket.create_server((LOOPBACK, 0)) as silent,
        StubServer([b"*2\r\n$8\r\n10.0.0.1\r\n$4\r\n7000\r\n"] * 2) as good,
    ):
        ports = [silent.getsockname()[1], good.port]
        sync: list[Any] = [lambda port=port: sync_connection(port) for port in ports]
        awaited: list[Any] = [lambda port=port: async_connection(port) for port in ports]

        assert find_master("emq", sync) == ("10.0.0.1", 7000)
        assert await afind_master("emq", awaited) == ("10.0.0.1", 7000)


# --- Replies that end a connection ----------------------------------------------------------------

WRAPPED = (
    b"-ERR Error running script (call to f_57): @user_script:17: @user_script: 17:"
    b" -READONLY You can't write against a read only replica.\r\n"
)


@pytest.mark.parametrize("many", [False, True])
def test_a_demoted_server_of_redis_6_2_is_left(
    speaker_to: Callable[..., Speaking], many: bool
) -> None:
    loaded = [b"$1\r\nx\r\n"] if many else []
    with StubServer([*loaded, WRAPPED]) as stub:
        speaker = speaker_to(stub.port, driver_info=None)

        if many:
            (error,) = speaker.run_many([put()])
            assert isinstance(error, ServerReadOnly)
        else:
            assert isinstance(error_of(lambda: speaker.run(put())), ServerReadOnly)

        assert speaker.client._idle == []


def test_a_connection_on_which_the_server_hangs_up_is_not_used_again(
    speaker_to: Callable[..., Speaking], lone: Server
) -> None:
    """Else the next claim would be written to it, and count as lost."""
    speaker = speaker_to(lone.port)
    with lone.client() as client:
        client.config_set("proto-max-bulk-len", 1 << 20)
    speaker.run(put())

    error = error_of(lambda: speaker.run(put(bytes(1_100_000))))

    assert isinstance(error, ScriptFailed | ReplyLost)  # the hang-up may outrun its reason
    assert speaker.run(claim(Q, 1_000)) is not None
