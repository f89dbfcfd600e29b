"""Rare answers and moments of the clients and listeners, by both executors where there are two."""

from __future__ import annotations

import asyncio
import select
import socket
import struct
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import ReadOnlyError
from redis.sentinel import MasterNotFoundError

from emq_django.embedded import LOOPBACK
from emq_django.errors import AccessRefused, ServerBusy, Unreachable, WrongType
from emq_django.protocol import read
from emq_django.protocol.keyspace import queue as keys_of
from emq_django.wire import kept_aio, listen, listen_aio
from emq_django.wire.cluster import ClusterClient
from emq_django.wire.cluster_aio import AsyncClusterClient
from emq_django.wire.hearing import HearingClient
from emq_django.wire.kept_aio import AsyncKeptClient
from emq_django.wire.prompt_aio import PromptSSLConnection
from emq_django.wire.roster import Roster, name_of
from emq_django.wire.sentinel import afind_master, find_master
from emq_django.wire.sync import MOST_LOADS
from tests.servers import free_port
from tests.speakers import EXECUTORS, async_kept_client, kept_client, speak
from tests.stub_server import StubServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers import Server
    from tests.speakers import Executor

KEY = b"emq:{q}:x"
Q = keys_of("q")
PING = ("PING",)
SUBSCRIBED = b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"


class Interrupt(BaseException):
    """What a signal handler raises."""


def sync_connection(port: int) -> redis.Connection:
    return redis.Connection(host=LOOPBACK, port=port, protocol=2, driver_info=None)  # type: ignore[no-untyped-call]


def async_connection(port: int) -> redis.asyncio.Connection:
    return redis.asyncio.Connection(host=LOOPBACK, port=port, protocol=2, driver_info=None)


# --- Wires ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_server_that_forgets_every_script_is_busy(executor: Executor) -> None:
    refusal, loaded = b"-NOSCRIPT No matching script\r\n", b"$1\r\nx\r\n"
    replies = [refusal, *[loaded, refusal] * MOST_LOADS]
    with StubServer(replies) as stub:
        speaker = speak(executor, stub.port, driver_info=None)
        with pytest.raises(ServerBusy, match="forgets scripts"):
            speaker.run(read.counts(Q))
        speaker.close()

        sent = [command[0] for command in stub.commands]
        assert sent == [b"EVALSHA", *[b"SCRIPT", b"EVALSHA"] * MOST_LOADS]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ((b"-NOPERM no script|load\r\n", b"-NOSCRIPT No matching script\r\n"), AccessRefused),
        ((b"$1\r\nx\r\n", b"-WRONGTYPE not that\r\n"), WrongType),
    ],
    ids=["of the load", "of the command"],
)
def test_a_script_that_had_to_be_loaded_tells_the_error(
    executor: Executor, answers: tuple[bytes, bytes], error: type[Exception]
) -> None:
    with StubServer([b"-NOSCRIPT No matching script\r\n", *answers]) as stub:
        speaker = speak(executor, stub.port, driver_info=None)
        with pytest.raises(error):
            speaker.run(read.counts(Q))
        speaker.close()

        assert [command[0] for command in stub.commands] == [b"EVALSHA", b"SCRIPT", b"EVALSHA"]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_flush_to_a_server_that_is_away_tells_it_for_each_call(executor: Executor) -> None:
    speaker = speak(executor, free_port())

    results: list[Any] = speaker.run_many([read.counts(Q), read.counts(Q)])

    assert [type(one) for one in results] == [Unreachable, Unreachable]
    speaker.close()


# --- Kept connections -----------------------------------------------------------------------------


def test_a_demoted_server_is_left_after_a_flush() -> None:
    with StubServer([b":1\r\n", b"-READONLY replica\r\n", b":2\r\n"]) as stub:
        client = kept_client(stub.port, driver_info=None)
        one, two = client.execute_many([PING, PING], KEY)

        assert (one, type(two), client._idle) == (1, ReadOnlyError, [])
        assert client.execute(PING, KEY) == 2
        client.close()


async def test_a_demoted_server_is_left_after_an_awaited_flush() -> None:
    with StubServer([b":1\r\n", b"-READONLY replica\r\n", b":2\r\n"]) as stub:
        client = async_kept_client(stub.port, driver_info=None)
        one, two = await client.execute_many([PING, PING], KEY)

        assert (one, type(two), client._idle) == (1, ReadOnlyError, [])
        assert await client.execute(PING, KEY) == 2
        await client.close()


def test_a_signal_in_a_flush_drops_the_connection(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = kept_client(server.port)
    client.execute(PING, KEY)

    def interrupted(*_: object, **__: object) -> None:
        raise Interrupt

    with monkeypatch.context() as patch:
        patch.setattr(redis.Connection, "read_response", interrupted)
        with pytest.raises(Interrupt):
            client.execute_many([PING], KEY)

    assert client._idle == []
    assert client.execute_many([("ECHO", "x")], KEY) == [b"x"]
    client.close()


async def test_a_flush_that_is_cancelled_drops_its_connection() -> None:
    with StubServer([b"", b":2\r\n"]) as stub:  # nothing at all, then an answer
        client = async_kept_client(stub.port, driver_info=None)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.execute_many([PING], KEY), 0.1)

        assert client._idle == []
        assert await client.execute(PING, KEY) == 2
        await client.close()


class Raced(list[Any]):
    """Kept connections of which another thread takes the last one at the last moment."""

    def pop(self, *index: Any) -> Any:
        self.clear()
        return super().pop(*index)


def test_a_connection_that_another_thread_took_in_between_is_replaced(server: Server) -> None:
    client = kept_client(server.port)
    client._idle = Raced([(sync_connection(1), 0.0)])

    assert client.execute(("ECHO", "x"), KEY) == b"x"
    client.close()


def test_closing_while_another_thread_takes_the_last_connection_is_no_error(
    server: Server,
) -> None:
    client = kept_client(server.port)
    client._idle = Raced([(sync_connection(1), 0.0)])

    client.close()

    assert client.execute(("ECHO", "x"), KEY) == b"x"
    client.close()


async def test_an_awaited_connection_is_named_and_told_when_it_closes(server: Server) -> None:
    opened: list[int] = []
    closed: list[int] = []
    roster = Roster("awaited", opened.append, closed.append)
    client = AsyncKeptClient(lambda: async_connection(server.port), roster.greet, roster.left)

    name = await client.execute(("CLIENT", "GETNAME"), KEY)
    await client.close()

    assert name.decode() == name_of("awaited")
    assert len(opened) == 1
    assert closed == opened


async def test_an_awaited_connection_that_cannot_be_looked_at_is_replaced(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = async_kept_client(server.port)
    first = await client.execute(("CLIENT", "ID"), KEY)
    await client._idle[0][0].disconnect()
    monkeypatch.setattr(kept_aio, "FRESH_S", 0)

    async def broken(_: object) -> bool:
        raise Disconnected("closed")

    with monkeypatch.context() as patch:
        patch.setattr(redis.asyncio.Connection, "can_read", broken)
        second = await client.execute(("CLIENT", "ID"), KEY)

    assert second != first
    await client.close()


# --- Clusters, hearing, TLS, Sentinels ------------------------------------------------------------

ONE_NODE = b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n"


async def test_a_listener_of_a_cluster_connects_to_the_node_of_its_key() -> None:
    port = free_port()
    with StubServer([ONE_NODE % port] * 2) as stub:
        seeds = [(LOOPBACK, stub.port)]
        sync = ClusterClient(seeds, lambda node: kept_client(node[1], driver_info=None))
        connection: Any = sync.connector(KEY)()
        sync.close()
        awaited = AsyncClusterClient(
            seeds, lambda node: async_kept_client(node[1], driver_info=None)
        )
        twin: Any = (await awaited.connector(KEY))()
        await awaited.close()

    assert (connection.port, twin.port) == (port, port)


def test_a_connection_that_was_reset_is_told_by_heard() -> None:
    with StubServer([b"%0\r\n", b"+OK\r\n", b"+PONG\r\n"]) as stub:
        client = HearingClient(lambda: sync_connection(stub.port), [b"p:"], timeout_s=5)
        client.execute_many([], KEY)
        assert stub._open is not None
        stub._open.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client._send([PING])  # the stub has no answer left and closes: by a reset
        assert select.select([client], [], [], 10)[0]

        with pytest.raises(ConnectionResetError):
            client.heard()

        assert client.fileno() == -1


async def test_a_tls_connection_that_was_never_open_can_be_closed_at_once() -> None:
    connection = PromptSSLConnection(host=LOOPBACK, port=1)

    await connection.disconnect(nowait=True)

    assert not connection.is_connected


async def test_a_sentinel_that_does_not_know_the_service_is_passed_over() -> None:
    nobody, found = b"*-1\r\n", b"*2\r\n$8\r\n10.0.0.1\r\n$4\r\n7000\r\n"
    with StubServer([nobody] * 4) as one, StubServer([found] * 2) as two:
        ports = [one.port, two.port]
        sync: list[Any] = [lambda port=port: sync_connection(port) for port in ports]
        awaited: list[Any] = [lambda port=port: async_connection(port) for port in ports]

        assert find_master("emq", sync) == ("10.0.0.1", 7000)
        assert await afind_master("emq", awaited) == ("10.0.0.1", 7000)
        with pytest.raises(MasterNotFoundError, match="none of them knows"):
            find_master("emq", sync[:1])
        with pytest.raises(MasterNotFoundError, match="none of them knows"):
            await afind_master("emq", awaited[:1])


# --- Listening ------------------------------------------------------------------------------------


def _heard(port: int, idle_s: float, then: Callable[[], object]) -> list[bytes | None]:
    messages = listen.messages(lambda: sync_connection(port), b"c", idle_s)
    first = next(messages)
    then()
    return [first, *messages]


def _aheard(port: int, idle_s: float, then: Callable[[], object]) -> list[bytes | None]:
    async def collect() -> list[bytes | None]:
        messages = listen_aio.messages(lambda: async_connection(port), b"c", idle_s)
        first = await anext(messages)
        then()
        return [first, *[message async for message in messages]]

    return asyncio.run(collect())


@pytest.mark.parametrize("hear", [_heard, _aheard])
def test_a_server_that_stays_away_ends_listening_when_the_time_is_over(hear: Any) -> None:
    message = b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"
    stub = StubServer([SUBSCRIBED + message])
    stub.__enter__()

    assert hear(stub.port, 0.3, lambda: stub.__exit__()) == [b"m"]


async def test_a_listener_that_is_cancelled_while_it_connects_leaves_no_connection() -> None:
    made: list[redis.asyncio.Connection] = []
    with StubServer([b""]) as stub:  # a server that says nothing

        def connect() -> redis.asyncio.Connection:
            made.append(async_connection(stub.port))
            return made[-1]

        messages = listen_aio.messages(connect, b"c")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(messages), 0.1)

    assert [one.is_connected for one in made] == [False]
