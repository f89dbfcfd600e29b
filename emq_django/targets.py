"""One server and how to connect to it: values for ``dialing``. No Django, no I/O.

From a pool, whoever configured it, come its address, its credentials, its TLS options and its
timeouts. Everything else about a connection is ours (``_OURS``), so that bytes come back as they
went in and nothing is sent twice however a cache is configured.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import redis
from redis.backoff import NoBackoff
from redis.connection import AbstractConnection, SSLConnection, UnixDomainSocketConnection
from redis.retry import Retry

from emq_django.protocol.keyspace import Queue

_READ_TIMEOUT_S: Final = 5.0
# A lost SYN is sent again after one second: two seconds let one such connect succeed.
_CONNECT_TIMEOUT_S: Final = 2.0

# What an alias may say about a connection. The rest of its options is about caching (decoding,
# parsers, pools, retries) and would change what a queue reads or how often it sends.
_TAKEN: Final = frozenset({
    "client_name", "credential_provider", "db", "host", "password", "path", "port",
    "socket_keepalive_options", "socket_read_size", "socket_type", "username",
})  # fmt: skip
_DROPPED_FROM_CUSTOM: Final = frozenset({
    "cache", "cache_config", "connection_pool", "decode_responses", "encoding", "encoding_errors",
    "event_dispatcher", "himport_registry", "lib_name", "lib_version", "parser_class",
    "retry_on_error", "retry_on_timeout",
})  # fmt: skip


def _no_handshake_extras() -> dict[str, Any]:
    """Return the arguments that keep redis-py from introducing itself: two trips per connect."""
    if "driver_info" in inspect.signature(AbstractConnection.__init__).parameters:
        return {"driver_info": None}
    return {"lib_name": None, "lib_version": None}


_OURS: Final[dict[str, Any]] = {
    "protocol": 2,
    "decode_responses": False,
    "retry": Retry(NoBackoff(), 0),
    "health_check_interval": 0,
    **_no_handshake_extras(),
}

Kind = Literal["tcp", "unix", "sentinel", "factory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server is, without secrets. ``label`` is for people.

    ``host`` is the name of the service for a Sentinel address. A connection factory of the
    project's own (a cluster) is known by the URL that it is given.
    """

    kind: Kind
    host: str = ""
    port: int = 0
    db: int = 0
    path: str = ""

    @property
    def place(self) -> tuple[str, str, int, int]:
        """Return what two addresses of one database have in common, as far as names tell."""
        if self.kind == "unix":
            return "unix", self.path, 0, self.db
        local = self.host.lower() in {"localhost", "127.0.0.1", "::1"}
        kind = "sentinel" if self.kind == "sentinel" else "tcp"
        return kind, "localhost" if local else self.host.lower(), self.port, self.db

    @property
    def label(self) -> str:
        """Return a URL without user and password."""
        if self.kind == "unix":
            return f"unix://{self.path}?db={self.db}"
        if self.kind == "sentinel":
            return f"sentinel service {self.host!r}, database {self.db}"
        return f"redis://{self.host}:{self.port}/{self.db}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One server (or cluster) and how to connect to it.

    Attributes:
        address: where it is.
        connection_class: a redis-py class; a project's own subclass stays.
        options: its arguments, complete.
        sentinels: the servers to ask for the address of the master, in order.
        late: for a connection factory of the project's own: asks it for its client.
        limits: connect and read timeout that stand for the alias's own.
    """

    address: Address
    connection_class: type[AbstractConnection] = redis.Connection
    options: Mapping[str, Any] = field(repr=False)
    sentinels: tuple[Target, ...] = ()
    late: Callable[[], Any] | None = None
    limits: tuple[float, float] | None = None

    def within(self, connect_s: float, read_s: float) -> Target:
        """Return the same target with other timeouts."""
        limits = {"socket_connect_timeout": connect_s, "socket_timeout": read_s}
        return replace(
            self,
            options={**self.options, **limits},
            limits=(connect_s, read_s),
            sentinels=tuple(sentinel.within(connect_s, read_s) for sentinel in self.sentinels),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The targets behind a setting, and which of them holds a queue."""

    targets: tuple[Target, ...]
    shard_of: Callable[[str], int] | None = None

    def index(self, queue: Queue) -> int:
        """Return the position of the target that holds all keys of ``queue``."""
        return self.shard_of(queue.wire_name) if self.shard_of else 0


def target_of(pool: Any) -> Target:
    """Return the target that a pool of redis-py or valkey-py would connect to."""
    raw: dict[str, Any] = pool.connection_kwargs
    cls = _connection_class(pool.connection_class)
    options = _options(cls, raw)
    if hasattr(pool, "sentinel_manager"):
        # Also a custom class stays out here: connecting through Sentinel is ours.
        cls = SSLConnection if issubclass(cls, SSLConnection) else redis.Connection
        options = _options(cls, raw)
        manager = pool.sentinel_manager
        address = Address(kind="sentinel", host=pool.service_name, db=int(raw.get("db") or 0))
        sentinels = tuple(target_of(client.connection_pool) for client in manager.sentinels)
        return Target(address=address, connection_class=cls, options=options, sentinels=sentinels)
    return Target(address=_address(cls, options), connection_class=cls, options=options)


def _connection_class(cls: type) -> type[AbstractConnection]:
    """Return the redis-py class to use in place of a pool's, which may be valkey-py's."""
    library = cls.__module__.partition(".")[0] in {"redis", "valkey"}
    if not library and issubclass(cls, AbstractConnection):
        return cls
    names = {base.__name__ for base in cls.__mro__}
    if "SSLConnection" in names:
        return SSLConnection
    return UnixDomainSocketConnection if "UnixDomainSocketConnection" in names else redis.Connection


def _options(cls: type[AbstractConnection], raw: Mapping[str, Any]) -> dict[str, Any]:
    if cls.__module__.partition(".")[0] == "redis":
        kept = {name: raw[name] for name in raw if name in _TAKEN or name.startswith("ssl_")}
    else:
        kept = {
            name: raw[name]
            for name in raw
            if name not in _DROPPED_FROM_CUSTOM and "maint" not in name
        }
    read_s = raw.get("socket_timeout") or _READ_TIMEOUT_S
    connect_s = raw.get("socket_connect_timeout") or min(read_s, _CONNECT_TIMEOUT_S)
    limits = {"socket_timeout": read_s, "socket_connect_timeout": connect_s}
    if issubclass(cls, UnixDomainSocketConnection):
        absent = {"host", "port", "socket_type", "socket_keepalive_options"}
        return {**{k: v for k, v in kept.items() if k not in absent}, **limits, **_OURS}
    kept.pop("path", None)
    return {"socket_keepalive": True, **kept, **limits, **_OURS}


def _address(cls: type[AbstractConnection], options: Mapping[str, Any]) -> Address:
    db = int(options.get("db") or 0)
    if issubclass(cls, UnixDomainSocketConnection):
        return Address(kind="unix", path=options.get("path", ""), db=db)
    host = options.get("host") or "localhost"
    return Address(kind="tcp", host=host, port=int(options.get("port") or 6379), db=db)
