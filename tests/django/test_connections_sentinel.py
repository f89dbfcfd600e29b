"""A failover that real Sentinels make: the queue follows the master, nothing is sent twice."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from redis.exceptions import ReadOnlyError

from emq_django.conf import keys
from emq_django.connections import async_wire_for, close_all, wire_for
from emq_django.errors import Unreachable, WireError
from emq_django.protocol.claim import claim
from emq_django.protocol.enqueue import enqueue
from emq_django.protocol.ids import mint
from emq_django.protocol.records import Verdict
from emq_django.wire.kept import KeptClient
from emq_django.wire.kept_aio import AsyncKeptClient
from emq_django.wire.sentinel import AsyncMasterConnection, MasterConnection
from tests.topologies import Sentinels, start_sentinels, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django.fixtures import Settings

    from tests.servers import Server

pytestmark = pytest.mark.slow


@pytest.fixture
def sentinels(server: Server) -> Iterator[Sentinels]:
    group = start_sentinels(binary=str(server.binary))
    yield group
    close_all()
    group.close()


def aliases(group: Sentinels) -> dict[str, dict[str, Any]]:
    dead = ("127.0.0.1", 1)
    return {
        "django-redis": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": f"redis://{group.service}/0",
            "OPTIONS": {
                "CLIENT_CLASS": "django_redis.client.SentinelClient",
                "CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory",
                "SENTINELS": [dead, *group.addresses],
                "CONNECTION_POOL_KWARGS": {"decode_responses": True},
            },
        },
        "two locations": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": [
                f"redis://{group.service}/0?is_master=1",
                f"redis://{group.service}/0?is_master=0",
            ],
            "OPTIONS": {
                "CLIENT_CLASS": "django_redis.client.SentinelClient",
                "CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory",
                "SENTINELS": group.addresses,
            },
        },
        "valkey": {
            "BACKEND": "django_valkey.cache.ValkeyCache",
            "LOCATION": f"valkey://{group.service}/0",
            "OPTIONS": {
                "CLIENT_CLASS": "django_valkey.client.SentinelClient",
                "CONNECTION_FACTORY": "django_valkey.pool.SentinelConnectionFactory",
                "SENTINELS": group.addresses,
            },
        },
    }


def admit(queue: str) -> Verdict:
    return wire_for(keys(queue)).run(enqueue(keys(queue), mint.one(), b"\xff\r\n"))


async def aadmit(queue: str) -> Verdict:
    return await async_wire_for(keys(queue)).run(enqueue(keys(queue), mint.one(), b"\xff\r\n"))


def test_the_queue_follows_the_master_through_a_planned_failover_and_a_kill(
    sentinels: Sentinels, settings: Settings
) -> None:
    settings.CACHES = aliases(sentinels)
    for alias in settings.CACHES:
        settings.EMQ = {"CONNECTION": alias}
        assert admit("q") is Verdict.ENQUEUED
        assert asyncio.run(aadmit("q")) is Verdict.ENQUEUED
    settings.EMQ = {"CONNECTION": "django-redis"}
    assert admit("q") is Verdict.ENQUEUED
    with sentinels.master.client() as client:
        assert client.zcard("emq:{q}:pending") == 7

    sentinels.fail_over()

    with sentinels.master.client() as old:
        wait_until(lambda: old.execute_command("ROLE")[0] == b"slave", "the demotion")
    assert admit("q") is Verdict.ENQUEUED
    assert asyncio.run(aadmit("q")) is Verdict.ENQUEUED
    with sentinels.replica.client() as new, sentinels.master.client() as old:
        assert new.zcard("emq:{q}:pending") >= 9
        wait_until(
            lambda: old.zcard("emq:{q}:pending") == new.zcard("emq:{q}:pending"), "replication"
        )

    sentinels.replica.kill()
    with pytest.raises(WireError):
        admit("q")
    sentinels.wait_for(sentinels.master)

    wait_until(lambda: refusal("q") is None, "the next enqueue")
    job = wire_for(keys("q")).run(claim(keys("q"), 30_000))
    assert job is not None
    assert job.payload == b"\xff\r\n"


def refusal(queue: str) -> WireError | None:
    try:
        admit(queue)
    except WireError as exc:
        return exc
    return None


def test_a_demoted_master_that_still_answers_is_left_for_the_new_one(
    fresh_server: Callable[..., Server],
) -> None:
    servers = [fresh_server(), fresh_server()]
    master = servers[0]
    client = KeptClient(
        lambda: MasterConnection(find_master=lambda: ("127.0.0.1", master.port), protocol=2)
    )
    assert client.execute(("INCR", "n"), b"") == 1

    with servers[0].client() as old:
        old.replicaof("127.0.0.1", 1)
    master = servers[1]

    with pytest.raises(ReadOnlyError):
        client.execute(("INCR", "n"), b"")
    assert client.execute(("INCR", "n"), b"") == 1
    with servers[1].client() as new:
        assert new.get("n") == b"1"
    client.close()


async def test_asyncio_leaves_a_demoted_master_as_well(
    fresh_server: Callable[..., Server],
) -> None:
    servers = [fresh_server(), fresh_server()]
    master = servers[0]

    async def find_master() -> tuple[str, int]:
        return "127.0.0.1", master.port

    client = AsyncKeptClient(lambda: AsyncMasterConnection(find_master=find_master, protocol=2))
    assert await client.execute(("INCR", "n"), b"") == 1

    with servers[0].client() as old:
        old.replicaof("127.0.0.1", 1)
    master = servers[1]

    with pytest.raises(ReadOnlyError):
        await client.execute(("INCR", "n"), b"")
    assert await client.execute(("INCR", "n"), b"") == 1
    await client.close()


def test_no_sentinel_is_an_unreachable_server_that_says_which_service(settings: Settings) -> None:
    settings.CACHES = {
        "queue": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": "redis://lost/0",
            "OPTIONS": {
                "CLIENT_CLASS": "django_redis.client.SentinelClient",
                "CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory",
                "SENTINELS": [("127.0.0.1", 1), ("127.0.0.1", 2)],
            },
        }
    }
    settings.EMQ = {"CONNECTION": "queue"}

    with pytest.raises(Unreachable, match="'lost'"):
        admit("q")
    with pytest.raises(Unreachable, match="'lost'"):
        asyncio.run(aadmit("q"))
