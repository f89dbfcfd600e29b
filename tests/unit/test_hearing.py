"""A hearing client against the session's server, and against one that misbehaves."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import threading
import time
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import redis
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import ReadOnlyError, ResponseError
from redis.exceptions import TimeoutError as TimedOut

from emq_django.embedded import LOOPBACK
from emq_django.wire.client import NotSent
from emq_django.wire.hearing import ALL_KEYS, HearingClient
from tests.relays import AUTHORITY, IDENTITY
from tests.servers import free_port
from tests.stub_server import StubServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.proxy import Proxy
    from tests.servers import Server

KEY = b""
PING = ("PING",)
# To HELLO, CLIENT TRACKING and PING, which a new connection sends.
GREETED = [b"%0\r\n", b"+OK\r\n", b"+PONG\r\n"]


class Interrupt(BaseException):
    """What a signal handler raises."""


@pytest.fixture
def ear() -> Iterator[Callable[..., HearingClient]]:
    """Return a hearing client of a port; its options go to the client."""
    made: list[HearingClient] = []

    def start(port: int, prefix: bytes | None = b"p:", **options: Any) -> HearingClient:
        connection = {"host": LOOPBACK, "port": port, "protocol": 2, "socket_timeout": 5}
        prefixes = [] if prefix is None else [prefix]
        connect = partial(redis.Connection, **connection, driver_info=None)
        made.append(HearingClient(connect, prefixes, **{"timeout_s": 5.0, **options}))
        return made[-1]

    yield start
    for one in made:
        one.close()


def heard_in_time(ear: HearingClient, wanted: bytes) -> None:
    """Wait until `wanted` was announced."""
    deadline_s = time.monotonic() + 10
    while wanted not in ear.heard():
        assert time.monotonic() < deadline_s, f"{wanted!r} was not announced"
        ear.execute(PING, KEY)


def test_what_comes_right_behind_a_reply_is_heard_although_no_poll_shows_it(
    ear: Callable[..., HearingClient],
) -> None:
    change = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\np:a\r\n"
    with StubServer([*GREETED, b"+PONG\r\n" + change]) as server:
        client = ear(server.port)

        client.execute(PING, KEY)

        assert select.select([client.fileno()], [], [], 0)[0] == []
        assert client.has_heard()
        assert client.heard() == [b"p:a"]
        assert not client.has_heard()


def test_an_error_reply_is_raised_and_the_connection_stays(
    ear: Callable[..., HearingClient], server: Server
) -> None:
    client = ear(server.port)

    with pytest.raises(ResponseError):
        client.execute(("GET",), KEY)

    assert client.execute(PING, KEY) in ("PONG", b"PONG")
    assert client.connects == 1


def test_without_prefixes_the_next_change_of_what_was_read_is_heard_and_no_other(
    ear: Callable[..., HearingClient], server: Server, queue: str, redis_client: redis.Redis
) -> None:
    client = ear(server.port, prefix=None)
    read, unread = (f"emq:{{{queue}}}:{name}".encode() for name in ("read", "unread"))
    client.execute(("EXISTS", read), KEY)  # what is not there yet can be heard of as well

    redis_client.set(unread, 1)
    redis_client.set(read, 1)
    heard_in_time(client, read)
    redis_client.set(read, 2)
    client.execute(PING, KEY)
    assert client.heard() == []

    client.execute(("EXISTS", read), KEY)
    redis_client.delete(read, unread)
    heard_in_time(client, read)


def test_a_prefix_that_is_added_later_is_heard_and_asked_for_once(
    ear: Callable[..., HearingClient], server: Server, queue: str, redis_client: redis.Redis
) -> None:
    client = ear(server.port)
    later = f"emq:{{{queue}}}:later".encode()
    client.execute(PING, KEY)

    client.listen_to(later)
    client.listen_to(later)  # the server refuses a prefix that overlaps one it has
    redis_client.set(later, 1)

    heard_in_time(client, later)
    redis_client.delete(later)


def test_a_prefix_that_is_added_before_connecting_or_while_deaf_is_heard_afterwards(
    ear: Callable[..., HearingClient], server: Server, queue: str, redis_client: redis.Redis
) -> None:
    client = ear(server.port)
    early, late = (f"emq:{{{queue}}}:{name}".encode() for name in ("early", "late"))
    client.listen_to(early)
    assert client.connects == 0
    client.execute(PING, KEY)
    client.be_deaf(True)
    client.be_deaf(True)
    client.listen_to(late)
    redis_client.set(early, 1)
    client.execute(PING, KEY)
    assert client.heard() == []

    client.be_deaf(False)
    redis_client.set(early, 2)
    heard_in_time(client, early)
    redis_client.set(late, 2)
    heard_in_time(client, late)
    redis_client.delete(early, late)


def test_a_lost_connection_is_told_once_and_all_keys_may_have_changed(
    ear: Callable[..., HearingClient], proxy: Proxy
) -> None:
    client = ear(proxy.port)
    client.execute(PING, KEY)
    assert client.heard() == []

    proxy.drop_connections()
    assert select.select([client], [], [], 10)[0]
    with pytest.raises((Disconnected, OSError)):
        client.heard()

    assert client.fileno() == -1
    assert client.heard() == [ALL_KEYS]
    client.execute(PING, KEY)
    assert client.connects == 2
    assert client.fileno() >= 0


@pytest.mark.parametrize(("mode", "error"), [("silent", TimedOut), ("close", Disconnected)])
def test_a_missing_reply_costs_the_connection(
    ear: Callable[..., HearingClient], proxy: Proxy, mode: Any, error: type[Exception]
) -> None:
    client = ear(proxy.port)
    client.execute(PING, KEY)
    proxy.arm(mode, matching=b"PING")

    replies = client.execute_many([PING, PING], KEY, 0.1)

    assert [type(reply) for reply in replies] == [error, error]
    assert client.heard() == [ALL_KEYS]
    assert client.execute(PING, KEY) in ("PONG", b"PONG")
    assert client.connects == 2


def test_a_limit_that_announcements_use_up_is_kept(ear: Callable[..., HearingClient]) -> None:
    push = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\np:1\r\n"
    with StubServer([*GREETED, push]) as stub:
        client = ear(stub.port)
        client.execute_many([], KEY)

        (reply,) = client.execute_many([PING], KEY, 1e-9)

        assert isinstance(reply, TimedOut)


def test_a_demoted_server_is_left(ear: Callable[..., HearingClient]) -> None:
    with StubServer([*GREETED, b"-READONLY You can't write\r\n", *GREETED, b":1\r\n"]) as stub:
        client = ear(stub.port)

        with pytest.raises(ReadOnlyError):
            client.execute(("INCR", "k"), KEY)

        assert client.execute(("INCR", "k"), KEY) == 1
        assert client.connects == 2


def test_a_large_command_may_follow_a_look_that_did_not_wait(
    ear: Callable[..., HearingClient], server: Server, queue: str
) -> None:
    key = f"emq:{{{queue}}}:x"
    client = ear(server.port)
    client.execute(PING, KEY)
    assert client.heard() == []

    assert client.execute(("SET", key, bytes(32 << 20)), KEY) in ("OK", b"OK")
    client.execute(("UNLINK", key), KEY)


def test_announcements_over_tls_leave_nothing_where_no_poll_shows_it() -> None:
    keys = [b"p:%05d" % number for number in range(8_000)]  # several TLS records
    parts = b"".join(b"$%d\r\n%s\r\n" % (len(key), key) for key in keys)
    announced = b">2\r\n$10\r\ninvalidate\r\n*%d\r\n%s" % (len(keys), parts)
    with _over_tls([*GREETED, announced]) as connection:
        ear = HearingClient(lambda: connection, [b"p:"], timeout_s=30)
        ear.execute_many([], KEY)  # connects

        heard = ear.heard()
        while keys[-1] not in heard:
            assert select.select([ear.fileno()], [], [], 30)[0], "waits for what is here already"
            heard += ear.heard()
            assert not connection._sock.pending()

        assert heard == keys
        ear.close()


@contextlib.contextmanager
def _over_tls(says: list[bytes]) -> Iterator[Any]:
    """Yield a connection over TLS whose other end says all of this, whatever it hears."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    server.load_cert_chain(IDENTITY)
    client.load_verify_locations(AUTHORITY)
    plain, theirs = socket.socketpair()

    def speak() -> None:
        with server.wrap_socket(theirs, server_side=True) as line:
            line.sendall(b"".join(says))
            while line.recv(4_096):
                pass  # until the client closes

    thread = threading.Thread(target=speak)
    thread.start()
    with client.wrap_socket(plain, server_hostname="localhost") as line:
        yield SimpleNamespace(
            _sock=line,
            connect=lambda: None,
            disconnect=line.close,
            send_packed_command=lambda parts, check_health: line.sendall(b"".join(parts)),
        )
    thread.join()


def test_an_announcement_of_another_kind_is_no_reply_and_no_key(
    ear: Callable[..., HearingClient],
) -> None:
    pushes = b">2\r\n$5\r\nother\r\n$1\r\nx\r\n>0\r\n>2\r\n$10\r\ninvalidate\r\n_\r\n"
    with StubServer([*GREETED, pushes + b"$1\r\na\r\n:9\r\n"]) as stub:
        client = ear(stub.port)

        assert client.execute(("GET", "k"), KEY) == b"a"
        assert client.heard() == [ALL_KEYS]
        assert client.connects == 1


def test_a_server_that_does_not_let_us_subscribe_is_heard_all_the_same(
    ear: Callable[..., HearingClient],
) -> None:
    with StubServer([*GREETED, b"-NOPERM no channels\r\n", b"+PONG\r\n", b"$1\r\na\r\n"]) as stub:
        client = ear(stub.port, channels=[b"trees"])

        assert client.execute(("GET", "k"), KEY) == b"a"
        assert client.hears
        assert stub.commands[3:] == [(b"SUBSCRIBE", b"trees"), (b"PING",), (b"GET", b"k")]


def test_a_server_that_is_away_got_nothing(ear: Callable[..., HearingClient]) -> None:
    client = ear(free_port())

    with pytest.raises(NotSent) as caught:
        client.execute(PING, KEY)

    assert isinstance(caught.value.__cause__, Disconnected)
    assert client.connects == 0


def test_a_signal_in_a_call_drops_the_connection(
    ear: Callable[..., HearingClient], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = ear(server.port)
    client.execute(PING, KEY)
    with monkeypatch.context() as patch:
        patch.setattr(client, "_receive", _interrupted)
        with pytest.raises(Interrupt):
            client.execute(PING, KEY)
        assert client.fileno() == -1
        with pytest.raises(Interrupt):  # while connecting again
            client.execute(PING, KEY)

    assert client.fileno() == -1
    assert client.execute(PING, KEY) in ("PONG", b"PONG")


def _interrupted(timeout_s: float) -> None:
    raise Interrupt(timeout_s)


def test_a_connection_is_made_elsewhere_by_the_same_recipe(
    ear: Callable[..., HearingClient], server: Server
) -> None:
    connection = ear(server.port).connector(KEY)()
    connection.connect()
    connection.disconnect()

    assert connection.port == server.port  # type: ignore[attr-defined]


def test_a_forked_child_has_a_connection_of_its_own(
    ear: Callable[..., HearingClient], server: Server
) -> None:
    client = ear(server.port)
    parents = client.execute(("CLIENT", "ID"), KEY)
    reading, writing = os.pipe()

    child = os.fork()
    if child == 0:
        os.write(writing, str(client.execute(("CLIENT", "ID"), KEY)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        childs = int(pipe.read())

    assert childs != parents
    assert client.execute(("CLIENT", "ID"), KEY) == parents
