"""The kinds of server that a project may have, each as a project would name it in its settings."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.test import override_settings

from emq_django.connections import close_all
from tests.django.factories import ClusterFactory
from tests.relays import AUTHORITY, IDENTITY, tls_relay
from tests.topologies import start_cluster, start_sentinels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

    from tests.servers import Server

KINDS: Final = ("standalone", "Unix socket", "TLS", "Sentinel", "cluster")
ALIAS: Final = "kind"


@dataclass
class Kind:
    """Servers of one kind. ``client`` returns a plain client of the server that holds a key."""

    name: str
    connection: str
    client: Callable[[bytes], redis.Redis]
    caches: dict[str, Any] = field(default_factory=dict)

    def settings(self, **emq: Any) -> override_settings:
        """Return the settings of a project on it."""
        return override_settings(
            CACHES={**settings.CACHES, **self.caches}, EMQ={"CONNECTION": self.connection, **emq}
        )

    @property
    def environment(self) -> dict[str, str]:
        """Return what tells a worker process of it (tests.worker.settings)."""
        caches = {"EMQ_TEST_CACHES": json.dumps(self.caches)}
        return {**caches, "EMQ_TEST_WORKER_URL": self.connection, "EMQ_TEST_PREFIX": ""}


@contextlib.contextmanager
def open_kind(name: str, server: Server, masters: int = 3) -> Iterator[Kind]:
    """Start what is needed for a kind and stop it afterwards; ``server`` is a running one."""
    try:
        with _OPEN[name](server, masters) as kind:
            yield kind
    finally:
        close_all()


@contextlib.contextmanager
def _standalone(server: Server, _: int) -> Iterator[Kind]:
    yield Kind("standalone", server.url, lambda _: server.client())


@contextlib.contextmanager
def _unix(server: Server, _: int) -> Iterator[Kind]:
    yield Kind("Unix socket", f"unix://{server.socket_path}?db=0", lambda _: server.client())


@contextlib.contextmanager
def _tls(server: Server, _: int) -> Iterator[Kind]:
    with tls_relay(server.port) as port:
        files = {"ssl_ca_certs": AUTHORITY, "ssl_certfile": IDENTITY, "ssl_keyfile": IDENTITY}
        query = "&".join(f"{name}={path}" for name, path in files.items())
        yield Kind("TLS", f"rediss://127.0.0.1:{port}/0?{query}", lambda _: server.client())
        close_all()  # before the relay, which waits for its connections


@contextlib.contextmanager
def _sentinel(server: Server, _: int) -> Iterator[Kind]:
    group = start_sentinels(binary=str(server.binary))
    alias = {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": f"redis://{group.service}/0",
        "OPTIONS": {
            "CLIENT_CLASS": "django_redis.client.SentinelClient",
            "CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory",
            "SENTINELS": group.addresses,
        },
    }
    try:
        yield Kind("Sentinel", ALIAS, lambda _: group.master.client(), {ALIAS: alias})
    finally:
        close_all()
        group.close()


@contextlib.contextmanager
def _cluster(server: Server, masters: int) -> Iterator[Kind]:
    started = start_cluster(masters, binary=str(server.binary))
    alias = {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": started.url,
        "OPTIONS": {"CONNECTION_FACTORY": "tests.django.factories.ClusterFactory"},
    }
    try:
        yield Kind("cluster", ALIAS, started.client, {ALIAS: alias})
    finally:
        close_all()
        ClusterFactory.forget()
        started.close()


_OPEN: Final = {
    "standalone": _standalone,
    "Unix socket": _unix,
    "TLS": _tls,
    "Sentinel": _sentinel,
    "cluster": _cluster,
}
