"""What a post hears of its queues, and the spots in which it could be deaf."""

from __future__ import annotations

import contextlib
import logging
import math
import select
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import redis

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import claim, lanes, operate, settle
from emq_django.protocol.enqueue import enqueue, enqueue_in, enqueue_lane
from emq_django.protocol.ids import mint
from emq_django.wire.hearing import HearingClient
from emq_django.wire.sync import Wire
from emq_django.worker import watch
from emq_django.worker.link import Link, Trouble
from emq_django.worker.options import QueueOptions
from emq_django.worker.rivals import Rivals
from emq_django.worker.sources import Source
from emq_django.worker.watch import Post, Rhythm, Watch
from tests.worker import zoo
from tests.worker.processes import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from emq_django.protocol.keyspace import Queue
    from tests.proxy import Proxy
    from tests.servers import Server

LANE = "USR00000000001"
SELDOM = Rhythm(upkeep_s=600)  # whatever is seen was heard
USUAL = Rhythm()


class Tree:
    """A watch as a parent has it: an idle child is always there."""

    def __init__(
        self,
        queue: Queue,
        rhythm: Rhythm,
        connect: Callable[[], redis.Connection],
        *,
        told: bool = False,
    ) -> None:
        self.ear = HearingClient(connect, queue.claimable_keys, [queue.trees])
        link = Link(Wire(self.ear), Trouble("here", told=told))
        source = Source(QueueOptions(keys=queue, handler=zoo.work), link)
        self.post = Post(link, [source], self.ear, rhythm=rhythm)
        self.watch = Watch(lambda: [self.post])
        self.watch.turn(idle=True)
        self.settle()

    def settle(self) -> None:
        """Deal with all that is there already, as if nothing could be taken."""
        self.waits_until_there_is_work(0.05)

    def waits_until_there_is_work(self, timeout_s: float) -> bool:
        """Wait as the parent does. True where a child would be woken."""
        deadline_s = time.monotonic() + timeout_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            self.watch.turn(idle=True)
            if self.watch.wants_take():
                self.watch.rivals.asked()
                return True
            wait_s = min(self.watch.next_in_s(idle=True), left_s)
            select.select(self.watch.filenos(), [], [], wait_s)
        return False


@contextlib.contextmanager
def waiting(
    name: str, port: int, rhythm: Rhythm = SELDOM, *, told: bool = False, **options: Any
) -> Iterator[Tree]:
    connection = {"port": port, "protocol": 2, "socket_timeout": 0.5, **options}
    tree = Tree(keys(name), rhythm, partial(redis.Connection, **connection), told=told)
    try:
        yield tree
    finally:
        tree.watch.close()


def _enqueue(q: Queue, _client: redis.Redis) -> None:
    wire_for(q).run(enqueue(q, mint.one(), b""))


def _enqueue_in_lane(q: Queue, _client: redis.Redis) -> None:
    wire_for(q).run(enqueue_lane(q, mint.one(), b"", LANE))


def _foreign(q: Queue, client: redis.Redis) -> None:
    client.hset(q.row("JOB00000000001"), mapping={"state": "pending", "attempts": 0})
    client.zadd(q.pending, {"JOB00000000001": 0})


def _foreign_script(q: Queue, client: redis.Redis) -> None:
    client.eval("redis.call('ZADD', KEYS[1], 0, ARGV[1])", 1, q.pending, "JOB00000000001")


def _foreign_lane(q: Queue, client: redis.Redis) -> None:
    client.zadd(q.lane(LANE), {"JOB00000000001": 0})
    client.rpush(q.ring, LANE)


WRITES = [_enqueue, _enqueue_in_lane, _foreign, _foreign_script, _foreign_lane]


@pytest.mark.parametrize("write", WRITES)
def test_whoever_adds_a_job_is_heard(
    queue: str, server: Server, redis_client: redis.Redis, write: Any
) -> None:
    with waiting(queue, server.port) as tree:
        write(keys(queue), redis_client)

        assert tree.waits_until_there_is_work(10)


def test_a_change_that_came_with_a_reply_is_dealt_with_at_once(queue: str, server: Server) -> None:
    q = keys(queue)
    with waiting(queue, server.port) as tree:
        # Its own writes are announced right behind the reply, mostly in the same piece.
        tree.ear.execute(("ZADD", q.pending, 0, "JOB00000000001"), q.pending)

        # As the parent waits: for as long as it is told, or until there is something to read.
        wait_s = tree.watch.next_in_s(idle=True)
        assert wait_s == 0 or select.select(tree.watch.filenos(), [], [], 10)[0]
        assert tree.waits_until_there_is_work(10)


def test_a_take_that_was_sent_while_a_change_was_read_says_nothing_of_it(
    queue: str, server: Server, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    q = keys(queue)
    with waiting(queue, server.port) as tree:
        asked_s: list[float] = []
        heard = tree.ear.heard

        def slowly() -> list[bytes]:
            """The parent stands still between reading the clock and reading what was announced."""
            if not asked_s:
                asked_s.append(time.monotonic())  # a child's take, which finds nothing
                _enqueue(q, redis_client)
                select.select(tree.watch.filenos(), [], [], 10)
            return heard()

        monkeypatch.setattr(tree.ear, "heard", slowly)
        tree.watch.turn(idle=True)
        tree.watch.rivals.empty(asked_s[0], time.monotonic())

        assert tree.watch.wants_take()


def test_nothing_is_heard_where_nothing_happens(queue: str, server: Server) -> None:
    with waiting(queue, server.port) as tree:
        assert not tree.waits_until_there_is_work(0.2)


def test_takes_that_find_nothing_close_no_ear(
    queue: str, server: Server, redis_client: redis.Redis
) -> None:
    q = keys(queue)
    with waiting(queue, server.port) as tree:
        for _ in range(3):
            assert not wire_for(q).run(claim.take(q, "w", 30_000)).jobs
            _enqueue(q, redis_client)

            assert tree.waits_until_there_is_work(10)
            assert len(wire_for(q).run(claim.take(q, "w", 30_000)).jobs) == 1
            tree.settle()


def test_a_queue_that_is_resumed_is_heard(queue: str, server: Server) -> None:
    q = keys(queue)
    wire_for(q).run(operate.pause(q))
    wire_for(q).run(enqueue(q, mint.one(), b""))
    with waiting(queue, server.port) as tree:
        wire_for(q).run(operate.resume(q))

        assert tree.waits_until_there_is_work(10)


def test_a_lane_that_can_be_served_again_is_heard(queue: str, server: Server) -> None:
    q = keys(queue)
    wire_for(q).run(lanes.limit_lane(q, LANE, 1))
    for _ in range(2):
        wire_for(q).run(enqueue_lane(q, mint.one(), b"", LANE))
    (held,) = wire_for(q).run(claim.take(q, "w", 30_000, 2)).jobs
    with waiting(queue, server.port) as tree:
        wire_for(q).run(settle.complete(q, held))

        assert tree.waits_until_there_is_work(10)


def test_a_job_in_flight_that_ends_under_a_ceiling_is_heard(queue: str, server: Server) -> None:
    q = keys(queue)
    wire_for(q).run(operate.limit_queue(q, 1))
    for _ in range(2):
        wire_for(q).run(enqueue(q, mint.one(), b""))
    (held,) = wire_for(q).run(claim.take(q, "w", 30_000, 2)).jobs
    with waiting(queue, server.port) as tree:
        wire_for(q).run(settle.complete(q, held))

        assert tree.waits_until_there_is_work(10)


def test_a_used_up_rate_is_waited_for(queue: str, server: Server) -> None:
    q = keys(queue)
    wire_for(q).run(operate.limit_queue(q, None, 1))
    for _ in range(2):
        wire_for(q).run(enqueue(q, mint.one(), b""))
    assert len(wire_for(q).run(claim.take(q, "w", 30_000, 2)).jobs) == 1
    with waiting(queue, server.port) as tree:
        assert tree.waits_until_there_is_work(5)


def test_a_job_that_falls_due_is_promoted_by_this_very_connection_and_heard(
    queue: str, server: Server
) -> None:
    q = keys(queue)
    with waiting(queue, server.port) as tree:
        wire_for(q).run(enqueue_in(q, mint.one(), b"", 150))

        assert tree.waits_until_there_is_work(10)
        assert wire_for(q).run(claim.take(q, "w", 30_000)).jobs


def test_what_changes_during_a_visit_is_heard_behind_its_replies(
    queue: str, server: Server, redis_client: redis.Redis
) -> None:
    with waiting(queue, server.port) as tree:
        ear = tree.ear
        ear._send([("PING",)])
        _enqueue(keys(queue), redis_client)
        ear._read([], 1, 5)  # the reply; the announcement may stand before it or behind it

        assert tree.waits_until_there_is_work(10)


def test_a_connection_that_was_cut_is_new_at_once_and_nothing_was_missed(
    queue: str, server: Server, redis_client: redis.Redis
) -> None:
    with waiting(queue, server.port) as tree:
        number = tree.ear.execute(("CLIENT", "ID"), b"")
        redis_client.client_kill_filter(_id=str(number))
        _enqueue(keys(queue), redis_client)

        assert tree.waits_until_there_is_work(10)
        tree.settle()
        _enqueue(keys(queue), redis_client)
        assert tree.waits_until_there_is_work(10)
        assert tree.ear.connects == 2


def test_a_path_that_is_silently_dead_is_found_by_the_next_visit(
    queue: str, proxy: Proxy, redis_client: redis.Redis
) -> None:
    with waiting(queue, proxy.port, USUAL) as tree:
        proxy.mode = "blackhole"
        _enqueue(keys(queue), redis_client)
        for link in proxy._links:
            link.mode = "silent"  # nor do announcements come through
        tree.waits_until_there_is_work(2)  # the case: at least one visit that gets no answer
        proxy.mode = "forward"

        until(lambda: tree.waits_until_there_is_work(0.5), "the job is seen")


def test_a_server_that_was_emptied_is_looked_at(
    queue: str, fresh_server: Callable[..., Server]
) -> None:
    server = fresh_server()
    with waiting(queue, server.port) as tree, server.client() as client:
        client.flushall()
        _foreign(keys(queue), client)

        assert tree.waits_until_there_is_work(10)


def test_a_server_that_announces_nothing_is_looked_at_again_and_again(
    queue: str, fresh_server: Callable[..., Server], caplog: pytest.LogCaptureFixture
) -> None:
    server = fresh_server()
    with server.client() as client:
        client.execute_command(
            "ACL", "SETUSER", "poor", "on", "nopass", "~*", "&*", "+@all", "-client",
            "+client|id", "+client|setname",  # 6.2 can't take a single subcommand away
        )  # fmt: skip
        with waiting(queue, server.port, username="poor", password="x") as tree:
            assert not tree.ear.hears
            _foreign(keys(queue), client)

            assert tree.waits_until_there_is_work(10)
    assert "can't tell this worker of new jobs" in caplog.text


def test_a_child_that_watches_too_leaves_to_its_parent_to_say_how(
    queue: str, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "emq_django.worker")
    with waiting(queue, server.port), waiting(queue, server.port, told=True) as child:
        assert child.ear.hears

    assert caplog.text.count("tells this worker of new jobs as they come") == 1


def test_the_trees_of_a_queue_are_counted(queue: str, server: Server) -> None:
    with waiting(queue, server.port, USUAL) as first, waiting(queue, server.port, USUAL):
        until(
            lambda: first.waits_until_there_is_work(0.1) or first.watch.rivals.others == 1,
            "the other one is counted",
        )


@pytest.mark.parametrize("draw", [min, max])
def test_of_many_trees_the_quick_one_and_a_few_look_at_a_changed_schedule(
    queue: str, server: Server, draw: Callable[[float, float], float]
) -> None:
    with waiting(queue, server.port) as tree:
        rivals = Rivals(draw)
        rivals.others = 60
        (source,) = tree.post.sources
        plan = tree.post._look_at_s

        now_s = time.monotonic() + 1
        plan[source] = now_s + 5
        tree.post._hear(keys(queue).schedule, now_s, rivals)
        plan_of_others = plan[source]
        rivals.won(now_s)
        tree.post._hear(keys(queue).schedule, now_s, rivals)

        assert plan_of_others == (now_s + 0.005 if draw is min else math.inf)
        assert plan[source] == now_s


def test_a_flood_of_changes_is_not_listened_to(
    queue: str, server: Server, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_FLOOD", 20)
    q = keys(queue)
    with waiting(queue, server.port) as tree:
        while not tree.post._flood.on:
            redis_client.zadd(q.pending, {mint.one(): 0})
            tree.waits_until_there_is_work(0.001)
        tree.settle()
        _enqueue(q, redis_client)

        assert tree.waits_until_there_is_work(10)
        until(lambda: tree.waits_until_there_is_work(0.1) or not tree.post._flood.on, "calm")
