"""What both cluster clients do with answers that a healthy cluster never gives."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from redis.exceptions import ClusterDownError, ClusterError, ResponseError
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import TimeoutError as TimedOut

from emq_django.embedded import LOOPBACK
from emq_django.protocol import enqueue, keyspace
from emq_django.protocol.ids import mint
from emq_django.protocol.records import Verdict
from emq_django.wire.aio import AsyncWire
from emq_django.wire.client import NotSent
from emq_django.wire.cluster import ClusterClient
from emq_django.wire.cluster_aio import AsyncClusterClient
from emq_django.wire.sync import Wire
from emq_django.wire.topology import MOST_HOPS
from tests.servers import free_port
from tests.speakers import EXECUTORS, async_kept_client, kept_client
from tests.stub_server import StubServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from emq_django.protocol.calls import Call
    from emq_django.wire.topology import Node

KEY = b"{q}:x"
SLOTS = (b"CLUSTER", b"SLOTS")
GET = (b"GET", KEY)
NOBODY = b"*0\r\n"


def all_slots(port: int) -> bytes:
    """Return the answer to CLUSTER SLOTS of a cluster with one node, which has no name."""
    return b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:%d\r\n" % port


def moved(port: int) -> bytes:
    return b"-MOVED 11958 %s:%d\r\n" % (LOOPBACK.encode(), port)


def ask(port: int) -> bytes:
    return b"-ASK 11958 %s:%d\r\n" % (LOOPBACK.encode(), port)


class Talk:
    """A cluster client of either executor; `made` are the nodes it was given a client for."""

    def __init__(self, executor: str) -> None:
        self._runner: asyncio.Runner | None = None
        if executor == "async":
            self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.made: list[Node] = []
        self._client: Any = None

    def to(self, *ports: int) -> Talk:
        seeds = [(LOOPBACK, port) for port in ports]
        if self._runner is None:
            self._client = ClusterClient(seeds, self._make(kept_client))
        else:
            self._client = AsyncClusterClient(seeds, self._make(async_kept_client))
        return self

    def _make(self, client: Callable[..., Any]) -> Callable[[Node], Any]:
        def make(node: Node) -> Any:
            self.made.append(node)
            return client(node[1], driver_info=None)

        return make

    def _wait(self, result: Any) -> Any:
        async def awaited() -> Any:
            return await result

        return result if self._runner is None else self._runner.run(awaited())

    def execute(self, *command: bytes, timeout_s: float | None = None) -> Any:
        return self._wait(self._client.execute(command, KEY, timeout_s))

    def run(self, call: Call[Any]) -> Any:
        return self._wait((Wire if self._runner is None else AsyncWire)(self._client).run(call))

    def execute_many(self, *commands: tuple[bytes, ...]) -> list[Any]:
        replies: list[Any] = self._wait(self._client.execute_many(commands, KEY))
        return replies

    def close(self) -> None:
        if self._client is not None:
            self._wait(self._client.close())
        if self._runner is not None:
            self._runner.close()


@pytest.fixture(params=EXECUTORS)
def talk(request: pytest.FixtureRequest) -> Iterator[Talk]:
    talking = Talk(request.param)
    yield talking
    talking.close()


class Stub(StubServer):
    """A stub whose answers may name its own port."""

    def __init__(self, *replies: bytes | Callable[[int], bytes]) -> None:
        super().__init__(
            reply if isinstance(reply, bytes) else reply(self.port) for reply in replies
        )


def test_a_command_that_is_sent_in_circles_is_given_up(talk: Talk) -> None:
    with Stub(all_slots, *[moved] * MOST_HOPS) as node:
        with pytest.raises(ClusterError, match=f"sent on {MOST_HOPS} times"):
            talk.to(node.port).execute(*GET)

        assert node.commands == [SLOTS, *[GET] * MOST_HOPS]


def test_a_flush_that_is_sent_in_circles_keeps_what_was_answered(talk: Talk) -> None:
    with Stub(all_slots, b":7\r\n", *[moved] * (1 + MOST_HOPS)) as node:
        first, second = talk.to(node.port).execute_many((b"INCR", KEY), GET)

        assert first == 7
        assert isinstance(second, ClusterError)
        assert node.commands == [SLOTS, (b"INCR", KEY), *[GET] * (1 + MOST_HOPS)]


def test_after_a_move_the_topology_is_read_again(talk: Talk) -> None:
    with Stub(all_slots, moved, b"$1\r\na\r\n", all_slots, b"$1\r\nb\r\n") as node:
        talk.to(node.port)

        assert [talk.execute(*GET), talk.execute(*GET)] == [b"a", b"b"]
        assert node.commands == [SLOTS, GET, GET, SLOTS, GET]


def test_an_error_behind_asking_is_the_commands_own(talk: Talk) -> None:
    with Stub(all_slots, ask, b"+OK\r\n", b"-ERR not that\r\n") as node:
        with pytest.raises(ResponseError, match="not that"):
            talk.to(node.port).execute(*GET)

        assert node.commands == [SLOTS, GET, (b"ASKING",), GET]


def test_a_flush_asks_for_each_command_that_is_on_its_way(talk: Talk) -> None:
    answers = [b"+OK\r\n", b":1\r\n", b"+OK\r\n", b"-ERR not that\r\n"]
    with Stub(all_slots, ask, b":5\r\n", ask, *answers) as node:
        replies = talk.to(node.port).execute_many(GET, (b"INCR", KEY), GET)

        assert replies[:2] == [1, 5]
        assert str(replies[2]) == "not that"
        assert node.commands[4:] == [(b"ASKING",), GET, (b"ASKING",), GET]


def test_a_slot_that_nobody_serves_is_looked_for_anew_each_time(talk: Talk) -> None:
    with Stub(NOBODY, NOBODY, all_slots, b":1\r\n") as node:
        talk.to(node.port)
        for _ in range(2):
            with pytest.raises(ClusterDownError, match="no node serves"):
                talk.execute(*GET)

        assert talk.execute(*GET) == 1
        assert node.commands == [SLOTS, SLOTS, SLOTS, GET]


def test_the_next_seed_is_asked_when_one_does_not_know(talk: Talk) -> None:
    with Stub(b"-LOADING wait\r\n") as first, Stub(all_slots, b":1\r\n") as second:
        assert talk.to(first.port, second.port).execute(*GET) == 1
        assert (first.commands, second.commands) == ([SLOTS], [SLOTS, GET])


def test_without_any_seed_the_last_ones_reason_is_told(talk: Talk) -> None:
    with pytest.raises(NotSent) as caught:
        talk.to(free_port()).execute(*GET)

    assert isinstance(caught.value.__cause__, Disconnected)


def test_a_seed_that_hangs_up_leaves_the_queues_command_unsent(talk: Talk) -> None:
    with Stub() as node:
        with pytest.raises(NotSent) as caught:
            talk.to(node.port).execute(*GET)

        assert isinstance(caught.value.__cause__, Disconnected)
        assert node.commands == [SLOTS]


def test_a_node_that_is_away_fails_every_command_of_a_flush_and_is_asked_last(talk: Talk) -> None:
    away = free_port()
    with Stub(all_slots(away), all_slots, b":1\r\n") as node:
        talk.to(node.port)

        lost = talk.execute_many(GET, GET)

        assert [type(reply) for reply in lost] == [NotSent, NotSent]
        assert talk.execute(*GET) == 1
        assert talk.made == [(LOOPBACK, node.port), (LOOPBACK, away)]


def test_a_node_that_left_is_forgotten_and_made_anew_when_it_is_back(talk: Talk) -> None:
    with ExitStack() as stack:
        other = stack.enter_context(Stub(b"$1\r\na\r\n", b"-CLUSTERDOWN wait\r\n", b"$1\r\nc\r\n"))
        there = all_slots(other.port)
        node = stack.enter_context(Stub(there, all_slots, moved(other.port)))
        talk.to(node.port)

        assert talk.execute(*GET) == b"a"
        with pytest.raises(ClusterDownError):
            talk.execute(*GET)
        assert talk.execute(*GET) == b"c"  # the new owner by the topology sends it back there

        assert talk.made == [(LOOPBACK, one.port) for one in (node, other, other)]


def test_a_script_goes_with_its_command_to_the_node_that_a_slot_is_on_its_way_to(
    talk: Talk,
) -> None:
    """Loaded at the old node alone it would be missing at the new one each time."""
    load = b"$1\r\nx\r\n"
    missing = b"-NOSCRIPT No matching script.\r\n"
    q = keyspace.queue("q")
    with StubServer([b"+OK\r\n", missing, load, b"+OK\r\n", b":1\r\n"]) as new:
        old_answers = [ask(new.port), load, ask(new.port)]
        with Stub(all_slots, *old_answers) as old:
            call = enqueue.enqueue(q, mint.one(), b"x")

            assert talk.to(old.port).run(call) is Verdict.ENQUEUED

        assert [command[0] for command in old.commands[1:]] == [b"EVALSHA", b"SCRIPT", b"EVALSHA"]
    words = [b"ASKING", b"EVALSHA", b"SCRIPT", b"ASKING", b"EVALSHA"]
    assert [command[0] for command in new.commands] == words


def test_the_nodes_that_are_asked_for_the_topology_share_the_commands_limit(talk: Talk) -> None:
    with ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_server((LOOPBACK, 0))).getsockname()[1]
            for _ in range(4)
        ]
        began_s = time.monotonic()

        with pytest.raises(NotSent):
            talk.to(*silent).execute(*GET, timeout_s=0.3)

        assert (
            time.monotonic() - began_s < 1.5
        )  # each of them may take a second where there is time


def test_a_command_that_is_sent_on_keeps_its_limit(talk: Talk) -> None:
    with (
        socket.create_server((LOOPBACK, 0)) as silent,
        Stub(all_slots, moved(silent.getsockname()[1])) as node,
    ):
        began_s = time.monotonic()

        with pytest.raises((TimedOut, TimeoutError)):
            talk.to(node.port).execute(*GET, timeout_s=0.3)

        assert time.monotonic() - began_s < 5  # a connection's own time
