"""A cluster of three real masters behind a connection factory: a queue lives where its slot is."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from emq_django import enqueue as send
from emq_django.addresses import address_of
from emq_django.conf import keys
from emq_django.connections import admin_wire_for, async_wire_for, close_all, wire_for
from emq_django.errors import EmqError, ServerBusy, Unreachable
from emq_django.protocol.claim import claim
from emq_django.protocol.enqueue import enqueue
from emq_django.protocol.ids import mint
from emq_django.protocol.keyspace import slot
from emq_django.protocol.records import Verdict
from tests.django.factories import ClusterFactory
from tests.topologies import Cluster, start_cluster, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis
    from pytest_django.fixtures import Settings

    from emq_django.protocol.keyspace import Queue
    from tests.servers import Server

pytestmark = pytest.mark.slow

PAYLOAD = bytes(range(256)) + b"\r\n$-1\r\n"


@pytest.fixture(scope="module")
def cluster(server: Server) -> Iterator[Cluster]:
    started = start_cluster(binary=str(server.binary))
    yield started
    started.close()


@pytest.fixture(params=["django-redis", "django-valkey"])
def alias(request: pytest.FixtureRequest, cluster: Cluster, settings: Settings) -> Iterator[str]:
    """The settings of a cluster alias; nothing of it is kept after the test."""
    settings.CACHES = {
        "django-redis": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": cluster.url,
            "OPTIONS": {
                "CONNECTION_FACTORY": "tests.django.factories.ClusterFactory",
                "CONNECTION_POOL_KWARGS": {"decode_responses": True, "protocol": 3},
            },
        },
        "django-valkey": {
            "BACKEND": "django_valkey.cluster_cache.cache.ClusterValkeyCache",
            "LOCATION": cluster.url.replace("redis://", "valkey://"),
            "OPTIONS": {"CLIENT_CLASS": "django_valkey.cluster_cache.client.DefaultClusterClient"},
        },
    }
    settings.EMQ = {"CONNECTION": request.param}
    yield request.param
    close_all()
    ClusterFactory.forget()


def test_queues_live_on_the_nodes_of_their_slots(alias: str, cluster: Cluster) -> None:
    used = set()
    for number in range(9):
        q = keys(f"{alias}-{number}")
        calls = [enqueue(q, mint.one(), PAYLOAD) for _ in range(50)]

        assert wire_for(q).run_many(calls) == [Verdict.ENQUEUED] * 50
        job = wire_for(q).run(claim(q, 30_000))

        assert job is not None
        assert job.payload == PAYLOAD
        with cluster.client(q.base) as node:
            assert node.zcard(q.pending) == 49
        used.add(slot(q.base) * 3 // 16_384)
    assert used == {0, 1, 2}
    assert admin_wire_for(keys(f"{alias}-0")).run(claim(keys(f"{alias}-0"), 1)) is not None


async def test_asyncio_finds_the_nodes_as_well(alias: str, cluster: Cluster) -> None:
    async def one(number: int) -> None:
        q = keys(f"async-{alias}-{number}")
        wire = async_wire_for(q)
        assert await wire.run(enqueue(q, mint.one(), PAYLOAD)) is Verdict.ENQUEUED
        job = await wire.run(claim(q, 30_000))
        assert job is not None
        assert job.payload == PAYLOAD
        results = await wire.run_many([enqueue(q, mint.one(), PAYLOAD) for _ in range(20)])
        assert results == [Verdict.ENQUEUED] * 20

    await asyncio.gather(*(one(number) for number in range(9)))


@pytest.mark.parametrize("alias", ["django-redis"], indirect=True)
def test_a_slot_that_moved_is_followed(alias: str, cluster: Cluster) -> None:
    q = keys(f"moved-{alias}")
    wire_for(q).run(claim(q, 1))  # the topology is known and the scripts are loaded
    wire_for(q).run_many([enqueue(q, mint.one(), b"x")])
    asyncio.run(_warm_then(q, lambda: None))
    home = slot(q.base) * 3 // 16_384
    source, target = cluster.nodes[home], cluster.nodes[(home + 1) % 3]
    with source.client() as client:
        client.delete(*client.keys("*moved-*"))

    async def through_the_move() -> None:
        await _warm_then(q, lambda: cluster.move_slot(slot(q.base), source, target))

    asyncio.run(through_the_move())
    assert wire_for(q).run(enqueue(q, mint.one(), PAYLOAD)) is Verdict.ENQUEUED
    calls = [enqueue(q, mint.one(), PAYLOAD) for _ in range(10)]
    assert wire_for(q).run_many(calls) == [Verdict.ENQUEUED] * 10
    with target.client() as client:
        assert client.zcard(q.pending) == 12
        client.delete(*client.keys("*moved-*"))
    cluster.move_slot(slot(q.base), target, source)


async def _warm_then(q: Queue, move: Callable[[], None]) -> None:
    wire = async_wire_for(q)
    await wire.run(claim(q, 1))
    move()
    assert await wire.run(enqueue(q, mint.one(), PAYLOAD)) is Verdict.ENQUEUED


@pytest.mark.parametrize("alias", ["django-redis"], indirect=True)
def test_a_slot_on_its_way_refuses_without_losing_a_job(alias: str, cluster: Cluster) -> None:
    q = keys(f"way-{alias}")
    wire_for(q).run(enqueue(q, mint.one(), PAYLOAD))
    home = slot(q.base) * 3 // 16_384
    source, target = cluster.nodes[home], cluster.nodes[(home + 1) % 3]
    with source.client() as old, target.client() as new:
        names = [client.execute_command("CLUSTER", "MYID").decode() for client in (old, new)]
        new.execute_command("CLUSTER", "SETSLOT", slot(q.base), "IMPORTING", names[0])
        old.execute_command("CLUSTER", "SETSLOT", slot(q.base), "MIGRATING", names[1])

        with pytest.raises(ServerBusy):
            wire_for(q).run(claim(q, 30_000))
        flushed = wire_for(q).run_many([claim(q, 30_000)] * 2)
        assert all(isinstance(one, ServerBusy) for one in flushed)
        assert old.zcard(q.pending) == 1

        # Everything is over there, the slot is not handed over yet: ASK.
        found = old.keys(f"emq:{{{q.wire_name}}}:*")
        old.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *found)
        count = ("ZCARD", q.pending)
        assert wire_for(q).client.execute(count, q.base) == 1
        assert wire_for(q).client.execute_many([count, count], q.base) == [1, 1]
        assert asyncio.run(_acount(q)) == [1, 1, 1]
        # A script with keys that are on neither side is refused until the slot has arrived.
        assert isinstance(attempt(q), ServerBusy)
        for client in (new, old):
            client.execute_command("CLUSTER", "SETSLOT", slot(q.base), "NODE", names[1])

    job = wire_for(q).run(claim(q, 30_000))
    assert job is not None
    assert job.payload == PAYLOAD
    with target.client() as client:
        client.delete(*client.keys("*way-*"))
    cluster.move_slot(slot(q.base), target, source)


async def _acount(q: Queue) -> list[int]:
    client = async_wire_for(q).client
    count = ("ZCARD", q.pending)
    one: int = await client.execute(count, q.base)
    return [one, *await client.execute_many([count, count], q.base)]


def attempt(q: Queue) -> object:
    """Admit a job; return the verdict or the error."""
    try:
        return wire_for(q).run(enqueue(q, mint.one(), PAYLOAD))
    except EmqError as exc:
        return exc


@pytest.mark.parametrize("alias", ["django-redis"], indirect=True)
def test_a_node_that_died_fails_its_own_queues_only(alias: str, cluster: Cluster) -> None:
    queues = [keys(f"dead-{alias}-{number}") for number in range(12)]
    for q in queues:
        wire_for(q).run(claim(q, 1))
    victim = cluster.nodes[2]
    dead = [q for q in queues if slot(q.base) * 3 // 16_384 == 2]
    alive = [q for q in queues if q not in dead]
    assert dead
    for node in cluster.nodes[:2]:
        with node.client() as client:
            client.config_set("cluster-require-full-coverage", "no")

    victim.kill()
    try:
        for q in dead:
            with pytest.raises((Unreachable, ServerBusy)):
                wire_for(q).run(claim(q, 1))
        for q in alive:
            assert wire_for(q).run(enqueue(q, mint.one(), b"x")) is Verdict.ENQUEUED
    finally:
        victim.start()

    for q in dead:
        wait_until(lambda q=q: attempt(q) is Verdict.ENQUEUED, "the node's return")  # type: ignore[misc]


@pytest.mark.parametrize("alias", ["django-redis"], indirect=True)
def test_an_enqueue_waits_for_a_slot_on_its_way(alias: str, cluster: Cluster) -> None:
    q = keys(f"try-{alias}")
    send(q.name, PAYLOAD)
    home = slot(q.base) * 3 // 16_384
    source, target = cluster.nodes[home], cluster.nodes[(home + 1) % 3]
    with source.client() as old, target.client() as new:
        names = [client.execute_command("CLUSTER", "MYID").decode() for client in (old, new)]
        new.execute_command("CLUSTER", "SETSLOT", slot(q.base), "IMPORTING", names[0])
        old.execute_command("CLUSTER", "SETSLOT", slot(q.base), "MIGRATING", names[1])

        def go_back() -> None:
            for client in (old, new):
                client.execute_command("CLUSTER", "SETSLOT", slot(q.base), "STABLE")

        later = threading.Timer(0.5, go_back)
        later.start()
        receipt = send(q.name, PAYLOAD)  # TRYAGAIN until then: the row is on neither side
        later.join()

        assert receipt.verdict is Verdict.ENQUEUED
        assert old.zcard(q.pending) == 2
        assert new.cluster("COUNTKEYSINSLOT", slot(q.base)) == 0
        old.delete(*old.keys("*try-*"))


@pytest.mark.parametrize("alias", ["django-redis"], indirect=True)
def test_a_cluster_that_lost_slots_is_a_busy_server_until_they_are_back(
    alias: str, cluster: Cluster, settings: Settings
) -> None:
    q = keys(f"down-{alias}")
    settings.EMQ = {**settings.EMQ, "ENQUEUE_DEADLINE_S": 1}
    send(q.name, PAYLOAD)
    home = slot(q.base) * 3 // 16_384
    owner, victim = cluster.nodes[home], cluster.nodes[(home + 1) % 3]
    with owner.client() as client:
        client.config_set("cluster-require-full-coverage", "yes")
        victim.kill()
        try:
            wait_until(lambda: is_down(client), "the cluster to notice")
            with pytest.raises(ServerBusy, match=r"(?i)cluster"):
                send(q.name, PAYLOAD)
        finally:
            victim.start()
        wait_until(lambda: all_are_up(cluster), "the cluster's return")
        settings.EMQ = {**settings.EMQ, "ENQUEUE_DEADLINE_S": 5}

        assert send(q.name, PAYLOAD).verdict is Verdict.ENQUEUED
        assert client.zcard(q.pending) == 2  # what was refused was not admitted
        client.delete(*client.keys("*down-*"))


def is_down(client: redis.Redis) -> bool:
    """Tell whether a node says that the cluster can't be used."""
    return bool(client.cluster("INFO")["cluster_state"] == "fail")


def all_are_up(cluster: Cluster) -> bool:
    """Tell whether every node says that the cluster can be used."""
    for node in cluster.nodes:
        with node.client() as client:
            if is_down(client):
                return False
    return True


def test_a_cluster_that_is_away_is_an_unreachable_server(settings: Settings) -> None:
    settings.CACHES = {
        "queue": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": "redis://127.0.0.1:1/0",
            "OPTIONS": {"CONNECTION_FACTORY": "tests.django.factories.ClusterFactory"},
        }
    }
    settings.EMQ = {"CONNECTION": "queue"}

    assert address_of("queue").kind == "factory"
    with pytest.raises(Unreachable):
        wire_for(keys("q")).run(claim(keys("q"), 1))

    async def same() -> None:
        with pytest.raises(Unreachable):
            await async_wire_for(keys("q")).run(claim(keys("q"), 1))

    asyncio.run(same())


def test_a_factory_that_makes_an_ordinary_client_gives_its_options(
    server: Server, settings: Settings, queue: str
) -> None:
    settings.CACHES = {
        "queue": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": server.url,
            "OPTIONS": {"CONNECTION_FACTORY": "tests.django.factories.PlainFactory"},
        }
    }
    q = keys(queue)
    assert wire_for(q).run(enqueue(q, mint.one(), PAYLOAD)) is Verdict.ENQUEUED

    async def take() -> bytes | None:
        job = await async_wire_for(q).run(claim(q, 30_000))
        return job.payload if job else None

    assert asyncio.run(take()) == PAYLOAD
    assert admin_wire_for(q).run(claim(q, 1)) is None
