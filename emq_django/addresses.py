"""What ``EMQ["CONNECTION"]`` stands for: a URL, or a cache alias. Connects to nothing.

The only module that knows the inside of cache back ends: django-redis, Django's own RedisCache and
django-valkey. What is taken from them is decided in ``targets``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import redis
from django.conf import settings
from django.core.cache import caches
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string
from redis.exceptions import RedisError

from emq_django.conf import SettingsError, nearest
from emq_django.targets import Address, Route, Target, target_of

_SCHEMES: Final = {
    "redis://": "redis://",
    "rediss://": "rediss://",
    "valkey://": "redis://",
    "valkeys://": "rediss://",
    "unix://": "unix://",
}


def resolve(connection: str) -> Route:
    """Return the targets of a cache alias or a URL. Raises SettingsError."""
    if is_url(connection):
        return Route(targets=(_from_url(connection),))
    configured = getattr(settings, "CACHES", {})
    if connection not in configured:
        known = ", ".join(repr(name) for name in configured)
        raise SettingsError(
            f'EMQ["CONNECTION"] is {connection!r}, which is neither a URL nor a cache alias.'
            f"{nearest(connection, configured)} CACHES has: {known}."
        )
    try:
        return _from_alias(connection, configured[connection])
    except SettingsError:
        raise
    except (ImproperlyConfigured, ImportError, RedisError, TypeError, ValueError) as exc:
        raise SettingsError(f"cache alias {connection!r} can't be used for queues: {exc}") from exc


def is_url(connection: str) -> bool:
    """Tell whether a connection is written as a URL; else it is the name of an alias."""
    return connection.startswith(tuple(_SCHEMES))


def addresses_of(connection: str) -> tuple[Address, ...]:
    """Return where a cache alias or a URL leads; several for a sharded alias."""
    return tuple(target.address for target in resolve(connection).targets)


def address_of(connection: str) -> Address:
    """Return where a cache alias or a URL leads; the first server of a sharded alias."""
    return addresses_of(connection)[0]


def _from_url(url: str) -> Target:
    scheme, separator, rest = url.partition("://")
    plain = _SCHEMES.get(scheme + separator, "") + rest
    _refuse_odd_database(plain)
    try:
        return target_of(redis.ConnectionPool.from_url(plain))
    except (RedisError, TypeError, ValueError) as exc:
        # Without the URL itself: it may hold a password.
        raise SettingsError(f"the server's URL can't be read: {exc}") from exc


def _refuse_odd_database(url: str) -> None:
    """redis-py takes a number that it can't read for 0: a typo would lead to another database."""
    parts = urlsplit(url)
    said = parse_qs(parts.query, keep_blank_values=True).get("db", [])
    if parts.scheme != "unix":
        said.append(unquote(parts.path).strip("/"))
    for text in said:
        if text and not (text.isascii() and text.isdigit()):
            raise SettingsError(
                f"the server's URL names the database {text!r}: give its number, such as"
                " redis://127.0.0.1:6379/1"
            )


def _from_alias(alias: str, configured: Mapping[str, Any]) -> Route:
    path = configured.get("BACKEND", "")
    backend = import_string(path) if isinstance(path, str) else path
    for cls in backend.__mro__:
        family = _FAMILIES.get(f"{cls.__module__}.{cls.__qualname__}")
        if family is not None:
            return family(alias, configured)
    raise SettingsError(
        f'cache alias {alias!r} uses {path}, which keeps no jobs: give EMQ["CONNECTION"] a URL'
        " such as 'redis://127.0.0.1:6379/1', or an alias with django_redis.cache.RedisCache,"
        " Django's own RedisCache or django-valkey's ValkeyCache."
    )


def _django(alias: str, configured: Mapping[str, Any]) -> Route:
    del configured  # the back end reads it itself, into a client without a pool as yet
    client = caches.create_connection(alias)._cache  # type: ignore[attr-defined]  # noqa: SLF001
    return Route(targets=(target_of(client._get_connection_pool(write=True)),))  # noqa: SLF001


def _django_redis(alias: str, configured: Mapping[str, Any]) -> Route:
    return _third_party("django_redis", alias, configured)


def _django_valkey(alias: str, configured: Mapping[str, Any]) -> Route:
    return _third_party("django_valkey", alias, configured)


def _third_party(package: str, alias: str, configured: Mapping[str, Any]) -> Route:
    """django-valkey grew out of django-redis: both are laid out alike."""
    options = dict(configured.get("OPTIONS") or {})
    client_class = import_string(options.get("CLIENT_CLASS", f"{package}.client.DefaultClient"))
    pools = import_module(f"{package}.pool")
    path = getattr(client_class, "CONNECTION_FACTORY_PATH", None)
    factory = pools.get_connection_factory(options=options, **({"path": path} if path else {}))
    # A connect() of the project's own is how a cluster is made: only calling it tells.
    usual = getattr(type(factory), "connect", None) is pools.ConnectionFactory.connect

    servers = _servers(alias, configured)
    if not issubclass(client_class, import_string(f"{package}.client.ShardClient")):
        # The first location is the one that takes writes.
        return Route(targets=(_from_factory(factory, servers[0], usual=usual),))
    ring = import_string(f"{package}.hash_ring.HashRing")(servers)
    return Route(
        targets=tuple(_from_factory(factory, url, usual=usual) for url in servers),
        shard_of=lambda wire_name: servers.index(ring.get_node(wire_name)),
    )


_FAMILIES: Final[dict[str, Callable[[str, Mapping[str, Any]], Route]]] = {
    "django.core.cache.backends.redis.RedisCache": _django,
    "django_redis.cache.RedisCache": _django_redis,
    "django_valkey.cache.ValkeyCache": _django_valkey,
    "django_valkey.cluster_cache.cache.ClusterValkeyCache": _django_valkey,
}


def _servers(alias: str, configured: Mapping[str, Any]) -> list[str]:
    location = configured.get("LOCATION")
    servers = location.split(",") if isinstance(location, str) else list(location or ())
    if not servers:
        raise SettingsError(f"cache alias {alias!r} has no LOCATION: give the server's URL.")
    return servers


def _from_factory(factory: Any, url: str, *, usual: bool) -> Target:
    """Return the target of one location. Builds a pool of its own and never a shared one."""
    if usual:
        return target_of(factory.get_connection_pool(factory.make_connection_params(url)))
    plain = _from_url(url)  # only for people and checks: the factory decides
    return replace(
        plain, address=replace(plain.address, kind="factory"), late=lambda: factory.connect(url)
    )
