"""Every kind of alias, with every option that could change bytes, against real servers."""

from __future__ import annotations

import asyncio
import os
import pickle
import zlib
from typing import TYPE_CHECKING, Any

import pytest
import redis
from django.core.cache import caches

import emq_django
from emq_django import connections
from emq_django.addresses import address_of, addresses_of, resolve
from emq_django.conf import SettingsError, keys
from emq_django.connections import admin_wire_for, async_wire_for, wire_for
from emq_django.errors import AccessRefused, TooManyClients
from emq_django.protocol.claim import claim
from emq_django.protocol.enqueue import enqueue
from emq_django.protocol.ids import mint
from emq_django.protocol.records import Verdict
from emq_django.targets import Address
from emq_django.wire.roster import name_of
from emq_django.workers import worker_for
from tests.relays import AUTHORITY, IDENTITY, tls_relay
from tests.servers import start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django.fixtures import Settings

    from tests.servers import Server

    Alias = Callable[[Server, Server], dict[str, Any]]

HOSTILE = [
    b"",
    b"\0",
    bytes(range(256)),
    b"\xff\xfe\xfd not UTF-8",
    b"$-1\r\n*0\r\n+OK\r\n",
    b"123",
    b"1e5",
    b"None",
    b"\r\n",
    "ü€\U0001f600".encode("utf-16"),
    pickle.dumps({"a": [1, 2]}),
    zlib.compress(b"x" * 1_000),
    os.urandom(100_000),
]

DJANGO_REDIS = "django_redis.cache.RedisCache"
DJANGO = "django.core.cache.backends.redis.RedisCache"
DJANGO_VALKEY = "django_valkey.cache.ValkeyCache"


def django_redis(location: str | None = None, **options: Any) -> Alias:
    return lambda server, _other: {
        "BACKEND": DJANGO_REDIS,
        "LOCATION": location or server.url,
        "KEY_PREFIX": "px",
        "VERSION": 7,
        "OPTIONS": options,
    }


def django_valkey(**options: Any) -> Alias:
    return lambda server, _other: {
        "BACKEND": DJANGO_VALKEY,
        "LOCATION": server.url.replace("redis://", "valkey://"),
        "OPTIONS": options,
    }


ALIASES: dict[str, Alias] = {
    "plain": django_redis(),
    "decoding": django_redis(CONNECTION_POOL_KWARGS={"decode_responses": True}),
    "latin": django_redis(CONNECTION_POOL_KWARGS={"encoding": "latin-1", "decode_responses": True}),
    "resp2": django_redis(CONNECTION_POOL_KWARGS={"protocol": 2}),
    "resp3": django_redis(CONNECTION_POOL_KWARGS={"protocol": 3}),
    "json": django_redis(SERIALIZER="django_redis.serializers.json.JSONSerializer"),
    "zlib": django_redis(COMPRESSOR="django_redis.compressors.zlib.ZlibCompressor"),
    "ignoring": django_redis(IGNORE_EXCEPTIONS=True),
    "python parser": django_redis(PARSER_CLASS="redis.connection._RESP2Parser"),
    "resp3 parser": django_redis(
        PARSER_CLASS="redis.connection._RESP3Parser", CONNECTION_POOL_KWARGS={"protocol": 3}
    ),
    "hiredis": django_redis(PARSER_CLASS="redis.connection._HiredisParser"),
    "small pool": django_redis(CONNECTION_POOL_KWARGS={"max_connections": 1}),
    "blocking pool": django_redis(
        CONNECTION_POOL_CLASS="redis.connection.BlockingConnectionPool",
        CONNECTION_POOL_KWARGS={"max_connections": 1, "timeout": 1},
    ),
    "retrying": django_redis(
        CONNECTION_POOL_KWARGS={"retry_on_timeout": True, "health_check_interval": 1}
    ),
    "herd": django_redis(CLIENT_CLASS="django_redis.client.HerdClient"),
    "database 3": lambda server, _: {
        "BACKEND": DJANGO_REDIS,
        "LOCATION": f"redis://127.0.0.1:{server.port}/3",
    },
    "locations": lambda server, other: {
        "BACKEND": DJANGO_REDIS,
        "LOCATION": [server.url, other.url],
    },
    "comma": lambda server, other: {
        "BACKEND": DJANGO_REDIS,
        "LOCATION": f"{server.url},{other.url}",
    },
    "unix": lambda server, _: {
        "BACKEND": DJANGO_REDIS,
        "LOCATION": f"unix://{server.socket_path}?db=2",
    },
    "shards": lambda server, other: {
        "BACKEND": DJANGO_REDIS,
        "LOCATION": [server.url, other.url],
        "OPTIONS": {"CLIENT_CLASS": "django_redis.client.ShardClient"},
    },
    "django": lambda server, _: {"BACKEND": DJANGO, "LOCATION": server.url},
    "django decoding": lambda server, other: {
        "BACKEND": DJANGO,
        "LOCATION": [server.url, other.url],
        "OPTIONS": {"decode_responses": True, "protocol": 3, "parser_class": None},
    },
    "django unix": lambda server, _: {
        "BACKEND": DJANGO,
        "LOCATION": f"unix://{server.socket_path}",
    },
    "valkey": django_valkey(),
    "valkey decoding": django_valkey(
        CONNECTION_POOL_KWARGS={"decode_responses": True, "protocol": 3}
    ),
    "valkey herd": django_valkey(CLIENT_CLASS="django_valkey.client.HerdClient"),
    "valkey shards": lambda server, other: {
        "BACKEND": DJANGO_VALKEY,
        "LOCATION": [server.url, other.url],
        "OPTIONS": {"CLIENT_CLASS": "django_valkey.client.ShardClient"},
    },
    "valkey unix": lambda server, _: {
        "BACKEND": DJANGO_VALKEY,
        "LOCATION": f"unix://{server.socket_path}?db=2",
    },
}
URLS: dict[str, Callable[[Server], str]] = {
    "redis": lambda server: server.url,
    "valkey": lambda server: server.url.replace("redis://", "valkey://"),
    "unix": lambda server: f"unix://{server.socket_path}?db=1",
    "options": lambda server: f"{server.url}?decode_responses=True&protocol=3&socket_timeout=3",
}


@pytest.fixture(scope="module")
def other(server: Server) -> Iterator[Server]:
    """A second server, where nothing may end up that belongs to the first."""
    second = start_server(binary=str(server.binary))
    yield second
    second.close()


def use(settings: Settings, connection: str) -> None:
    settings.EMQ = {**settings.EMQ, "CONNECTION": connection}


def round_trip(queue: str) -> None:
    """Put hostile payloads through a queue, by threads' wire and by asyncio's."""
    q = keys(queue)
    wire = wire_for(q)
    for payload in HOSTILE:
        job_id = mint.one()
        assert wire.run(enqueue(q, job_id, payload)) is Verdict.ENQUEUED
        job = wire.run(claim(q, 30_000))
        assert job is not None
        assert (job.id, job.payload, job.attempts) == (job_id, payload, 1)
    asyncio.run(_async_round_trip(queue))


async def _async_round_trip(queue: str) -> None:
    q = keys(queue)
    wire = async_wire_for(q)
    for payload in HOSTILE:
        job_id = mint.one()
        assert await wire.run(enqueue(q, job_id, payload)) is Verdict.ENQUEUED
        job = await wire.run(claim(q, 30_000))
        assert job is not None
        assert (job.id, job.payload, job.attempts) == (job_id, payload, 1)


@pytest.mark.parametrize("kind", ALIASES)
def test_bytes_come_back_as_they_went_in_however_the_alias_is_configured(
    kind: str, server: Server, other: Server, settings: Settings, queue: str
) -> None:
    settings.CACHES = {"default": ALIASES[kind](server, other)}
    use(settings, "default")

    round_trip(queue)


@pytest.mark.parametrize("kind", URLS)
def test_bytes_come_back_as_they_went_in_over_a_url(
    kind: str, server: Server, settings: Settings, queue: str
) -> None:
    use(settings, URLS[kind](server))

    round_trip(queue)


def test_the_first_of_several_locations_holds_the_queues(
    server: Server, other: Server, settings: Settings, queue: str
) -> None:
    settings.CACHES = {"default": ALIASES["locations"](server, other)}
    use(settings, "default")

    round_trip(queue)

    with server.client() as first, other.client() as second:
        assert first.exists(keys(queue).active) == 1
        assert second.exists(keys(queue).active) == 0


@pytest.mark.parametrize("kind", ["shards", "valkey shards"])
def test_a_sharded_alias_keeps_a_queue_where_its_own_ring_says(
    kind: str, server: Server, other: Server, settings: Settings, queue: str
) -> None:
    settings.CACHES = {"default": ALIASES[kind](server, other)}
    use(settings, "default")
    client = caches["default"].client  # type: ignore[attr-defined]
    holders = {server.url: server, other.url: other}
    used = set()

    for number in range(12):
        q = keys(f"{queue}-{number}")
        wire_for(q).run(enqueue(q, mint.one(), b"x"))
        url = client.get_server_name(q.base.decode())
        with holders[url].client() as expected:
            assert expected.exists(q.pending) == 1
        used.add(url)

    assert used == set(holders)


def test_the_pools_of_the_cache_are_neither_made_nor_used(
    server: Server, settings: Settings, queue: str
) -> None:
    from django_redis.pool import ConnectionFactory

    settings.CACHES = {
        "default": {**django_redis()(server, server), "LOCATION": f"{server.url}?x=1"}
    }
    use(settings, "default")
    before = dict(ConnectionFactory._pools)

    round_trip(queue)

    assert before == ConnectionFactory._pools


def test_a_cache_that_connected_first_with_other_options_changes_nothing(
    server: Server, settings: Settings, queue: str
) -> None:
    settings.CACHES = {
        "default": django_redis(CONNECTION_POOL_KWARGS={"decode_responses": True})(server, server),
        "queue": django_redis(SOCKET_TIMEOUT=7)(server, server),
    }
    caches["default"].get("anything")

    round_trip(queue)

    assert resolve("queue").targets[0].options["socket_timeout"] == 7


def test_our_own_options_hold_whatever_an_alias_says(server: Server, settings: Settings) -> None:
    hostile = {
        "decode_responses": True,
        "protocol": 3,
        "retry_on_timeout": True,
        "retry_on_error": [redis.ConnectionError],
        "health_check_interval": 3,
        "socket_keepalive": False,
        "socket_timeout": None,
        "client_name": "site",
    }
    settings.CACHES = {
        "default": django_redis(CONNECTION_POOL_KWARGS=hostile)(server, server),
        "short": django_redis(SOCKET_TIMEOUT=0.5)(server, server),
        "both": django_redis(SOCKET_TIMEOUT=9, SOCKET_CONNECT_TIMEOUT=4)(server, server),
    }
    options = resolve("default").targets[0].options

    assert options["decode_responses"] is False
    assert options["protocol"] == 2
    assert options["retry"].get_retries() == 0
    assert options["health_check_interval"] == 0
    assert options["socket_keepalive"] is True
    assert options["client_name"] == "site"
    assert "retry_on_timeout" not in options
    assert "retry_on_error" not in options
    limits = {
        alias: tuple(
            resolve(alias).targets[0].options[name]
            for name in ("socket_connect_timeout", "socket_timeout")
        )
        for alias in ("default", "short", "both")
    }
    assert limits == {"default": (2.0, 5.0), "short": (0.5, 0.5), "both": (4, 9)}


def test_a_new_connection_reads_the_fence_and_sends_nothing_else(
    server: Server, settings: Settings, queue: str
) -> None:
    use(settings, server.url)
    with server.client() as client:
        before = client.info("stats")["total_commands_processed"]
        wire_for(keys(queue)).client.execute(("PING",), b"")
        after = client.info("stats")["total_commands_processed"]

    assert after - before == 3  # the fence, our PING and the second INFO


def test_a_process_is_no_worker_any_more_when_its_worker_has_ended(
    server: Server, settings: Settings, queue: str
) -> None:
    use(settings, server.url)
    settings.EMQ = {**settings.EMQ, "QUEUES": {queue: {"HANDLER": "tests.cases.handlers.nothing"}}}
    worker = worker_for([queue], burst=True)
    worker.run()
    name = name_of(worker.incarnation)

    wire_for(keys(queue)).client.execute(("PING",), b"")

    with server.client() as client:
        assert name not in {one["name"] for one in client.client_list()}


def test_user_names_and_passwords_reach_the_server(
    fresh_server: Callable[..., Server], settings: Settings, queue: str
) -> None:
    secret = "p@ss/wörd: %"
    protected = fresh_server()
    with protected.client() as client:
        client.acl_setuser(
            "worker",
            enabled=True,
            passwords=[f"+{secret}"],
            commands=["+@all"],
            keys=["*"],
            reset=True,
        )
        client.config_set("requirepass", secret)
    quoted = "p%40ss%2Fw%C3%B6rd%3A%20%25"
    port = protected.port
    backend = {"BACKEND": DJANGO_REDIS}
    settings.CACHES = {
        "in url": {**backend, "LOCATION": f"redis://:{quoted}@127.0.0.1:{port}/0"},
        "user in url": {**backend, "LOCATION": f"redis://worker:{quoted}@127.0.0.1:{port}/0"},
        "in options": {**backend, "LOCATION": protected.url, "OPTIONS": {"PASSWORD": secret}},
        "both in options": {
            **backend,
            "LOCATION": protected.url,
            "OPTIONS": {"USERNAME": "worker", "PASSWORD": secret},
        },
        "django": {
            "BACKEND": DJANGO,
            "LOCATION": protected.url,
            "OPTIONS": {"username": "worker", "password": secret},
        },
        "valkey": {
            "BACKEND": DJANGO_VALKEY,
            "LOCATION": protected.url,
            "OPTIONS": {"PASSWORD": secret},
        },
        "none": {**backend, "LOCATION": protected.url},
    }
    for alias in settings.CACHES:
        use(settings, alias)
        if alias != "none":
            round_trip(queue)
            continue
        with pytest.raises(AccessRefused):
            wire_for(keys(queue)).run(claim(keys(queue), 1))


def test_tls_options_reach_the_connection(server: Server, settings: Settings, queue: str) -> None:
    files = {
        "ssl_ca_certs": str(AUTHORITY),
        "ssl_certfile": str(IDENTITY),
        "ssl_keyfile": str(IDENTITY),
    }
    with tls_relay(server.port) as port:
        location = f"rediss://127.0.0.1:{port}/0"
        query = "&".join(f"{name}={value}" for name, value in files.items())
        settings.CACHES = {
            "django-redis": {
                "BACKEND": DJANGO_REDIS,
                "LOCATION": location,
                "OPTIONS": {"CONNECTION_POOL_KWARGS": files},
            },
            "django": {"BACKEND": DJANGO, "LOCATION": location, "OPTIONS": files},
            "valkey": {
                "BACKEND": DJANGO_VALKEY,
                "LOCATION": location,
                "OPTIONS": {"CONNECTION_POOL_KWARGS": files},
            },
        }
        for connection in (*settings.CACHES, f"valkeys://127.0.0.1:{port}/0?{query}"):
            use(settings, connection)
            round_trip(queue)
        connections.close_all()


def test_a_connection_class_of_the_projects_own_stays(
    server: Server, settings: Settings, queue: str
) -> None:
    settings.CACHES = {
        "default": django_redis(
            CONNECTION_POOL_KWARGS={
                "connection_class": CountedConnection,
                "region": "north",
                "decode_responses": True,
            }
        )(server, server)
    }
    use(settings, "default")
    CountedConnection.regions.clear()

    round_trip(queue)

    assert CountedConnection.regions == ["north"]


class CountedConnection(redis.Connection):
    """Takes an argument that redis-py does not know, as cloud authentication does."""

    regions: list[str] = []

    def __init__(self, *, region: str, **options: Any) -> None:
        self.regions.append(region)
        super().__init__(**options)  # type: ignore[no-untyped-call]


def test_addresses_are_told_without_secrets(settings: Settings) -> None:
    settings.CACHES = {
        "queue": {
            "BACKEND": DJANGO_REDIS,
            "LOCATION": "redis://me:secret@host:7000/3",
            "OPTIONS": {"PASSWORD": "secret"},
        },
        "shards": {
            "BACKEND": DJANGO_REDIS,
            "LOCATION": ["redis://a:1/0", "redis://b:2/0"],
            "OPTIONS": {"CLIENT_CLASS": "django_redis.client.ShardClient"},
        },
        "sentinel": {
            "BACKEND": DJANGO_REDIS,
            "LOCATION": "redis://service/4",
            "OPTIONS": {
                "CLIENT_CLASS": "django_redis.client.SentinelClient",
                "CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory",
                "SENTINELS": [("s", 26379)],
                "PASSWORD": "secret",
            },
        },
    }

    assert address_of("queue") == Address(kind="tcp", host="host", port=7000, db=3)
    assert address_of("redis://:secret@h") == Address(kind="tcp", host="h", port=6379)
    assert address_of("unix:///a/b?db=2") == Address(kind="unix", path="/a/b", db=2)
    assert [address.host for address in addresses_of("shards")] == ["a", "b"]
    assert address_of("sentinel") == Address(kind="sentinel", host="service", db=4)
    labels = [address_of(name).label for name in ("queue", "sentinel", "unix://u:secret@/a?db=2")]
    assert labels == [
        "redis://host:7000/3",
        "sentinel service 'service', database 4",
        "unix:///a?db=2",
    ]
    assert "secret" not in repr(resolve("queue").targets + resolve("sentinel").targets)


@pytest.mark.parametrize(
    ("connection", "words"),
    [
        ("quue", ["'quue'", "Did you mean 'queue'?", "'default', 'queue'"]),
        ("http://h", ["'http://h'", "neither a URL nor a cache alias"]),
        ("redis://h:port/0", ["URL", "port"]),
        ("redis://h?db=x", ["URL", "'x'", "give its number"]),
        ("redis://h/abc", ["URL", "'abc'", "give its number"]),
        ("rediss://:s3cret@h/1/2", ["URL", "'1/2'", "give its number"]),
        ("valkey://h/%2d1", ["URL", "'-1'", "give its number"]),
        ("unix:///run/x.sock?db=one", ["URL", "'one'", "give its number"]),
    ],
)
def test_a_connection_that_names_nothing_is_refused(
    connection: str, words: list[str], settings: Settings
) -> None:
    use(settings, connection)

    with pytest.raises(SettingsError) as caught:
        wire_for(keys("q"))

    assert all(word in str(caught.value) for word in words), caught.value
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "alias",
    [
        {"BACKEND": DJANGO_REDIS},
        {"BACKEND": "no.such.Backend"},
        {"BACKEND": DJANGO_REDIS, "LOCATION": "redis://h", "OPTIONS": {"PARSER_CLASS": "no.such"}},
        {"BACKEND": DJANGO_REDIS, "LOCATION": "redis://h", "OPTIONS": {"SOCKET_TIMEOUT": "5"}},
        {"BACKEND": DJANGO_REDIS, "LOCATION": "nonsense"},
        {"BACKEND": DJANGO, "LOCATION": "nonsense"},
        {"BACKEND": DJANGO_VALKEY, "LOCATION": "nonsense"},
    ],
)
def test_an_alias_that_cannot_work_is_refused_by_name(
    alias: dict[str, Any], settings: Settings
) -> None:
    settings.CACHES = {"broken": alias}
    use(settings, "broken")

    with pytest.raises(SettingsError, match="'broken'"):
        wire_for(keys("q"))


def test_the_admin_has_connections_of_its_own_with_short_timeouts(
    server: Server, settings: Settings, queue: str
) -> None:
    settings.EMQ = {**settings.EMQ, "ADMIN": {"READ_TIMEOUT_S": 0.2}}
    q = keys(queue)

    assert admin_wire_for(q) is admin_wire_for(q)
    assert admin_wire_for(q) is not wire_for(q)
    assert admin_wire_for(q).run(claim(q, 1)) is None


def test_a_changed_setting_takes_effect_at_once(
    server: Server, other: Server, settings: Settings, queue: str
) -> None:
    use(settings, server.url)
    first = wire_for(keys(queue))

    use(settings, other.url)
    second = wire_for(keys(queue))
    second.run(enqueue(keys(queue), mint.one(), b"x"))

    assert first is not second
    with other.client() as client:
        assert client.zcard(keys(queue).pending) == 1


def test_a_server_without_a_connection_left_is_not_called_away(
    settings: Settings, fresh_server: Callable[..., Server], queue: str
) -> None:
    full = fresh_server("--maxclients", "1")
    settings.EMQ = {**settings.EMQ, "CONNECTION": full.url, "ENQUEUE_DEADLINE_S": 0}
    with full.client() as only:
        only.ping()
        with pytest.raises(TooManyClients, match="max number of clients") as refused:
            emq_django.enqueue(queue, b"x")

    assert "maxclients" in TooManyClients.remedy
    assert isinstance(refused.value.__cause__, redis.ConnectionError)
