"""Which lost connections are killed on the server, and what a refusal means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import redis

from emq_django.errors import Unreachable
from emq_django.wire.kept import KeptClient
from emq_django.wire.roster import Roster, kill, name_of
from tests.servers import free_port
from tests.speakers import kept_client

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers import Server

KEY = b""


def rostered(server: Server, roster: Roster, **options: Any) -> KeptClient:
    def connect() -> redis.Connection:
        return redis.Connection(port=server.port, protocol=2, socket_timeout=5, **options)  # type: ignore[no-untyped-call]

    return KeptClient(connect, roster.greet, roster.left)


def named(client: redis.Redis, name: str) -> list[int]:
    return [int(one["id"]) for one in client.client_list() if one["name"] == name]


def test_connections_are_told_when_they_open_and_close(
    server: Server, redis_client: redis.Redis
) -> None:
    opened: list[int] = []
    closed: list[int] = []
    client = rostered(server, Roster("told", opened.append, closed.append))

    client.execute(("PING",), KEY)
    assert named(redis_client, name_of("told")) == opened
    assert closed == []
    client.close()

    assert closed == opened


def test_only_the_lost_connections_that_bear_the_name_are_killed(
    server: Server, redis_client: redis.Redis
) -> None:
    roster, client = Roster("lost"), kept_client(server.port)
    mine, other = rostered(server, roster), rostered(server, Roster("other"))
    number, others = (one.execute(("CLIENT", "ID"), KEY) for one in (mine, other))
    roster.kill_lost(client, KEY)  # nothing is lost yet
    assert named(redis_client, name_of("lost")) == [number]

    for one in (number, others):
        roster.left(one, in_call=True)
    roster.kill_lost(client, KEY)

    assert named(redis_client, name_of("lost")) == []
    assert named(redis_client, name_of("other")) == [others]
    roster.kill_lost(client, KEY)  # they are gone: nothing is sent for them
    for made in (mine, other, client):
        made.close()


def test_a_server_that_refuses_is_left_in_peace(fresh_server: Callable[..., Server]) -> None:
    server = fresh_server()
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "poor", "on", "nopass", "~*", "+@all", "-client")
    opened: list[int] = []
    poor = {"username": "poor", "password": "x", "driver_info": None}
    client = rostered(server, Roster("poor", opened.append), **poor)

    assert client.execute(("PING",), KEY) in (b"PONG", "PONG")
    kill(client, KEY, "emq-poor", [1, 2])
    client.close()

    assert opened == []
    with pytest.raises(Exception, match="permission"):
        client.execute(("CLIENT", "LIST"), KEY)
    client.close()


def test_a_server_that_cannot_be_asked_is_an_error() -> None:
    with pytest.raises(Unreachable):
        kill(kept_client(free_port()), KEY, "emq-away", [1])
