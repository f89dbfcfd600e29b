"""From a target to a client that keeps connections to it: for threads and for asyncio.

Nothing is opened before a client's first command, and what goes wrong then is the command's error.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.connection import AbstractConnection, SSLConnection, UnixDomainSocketConnection

from emq_django.errors import EmqError
from emq_django.targets import Target, target_of
from emq_django.wire import sentinel
from emq_django.wire.client import NotSent
from emq_django.wire.cluster import ClusterClient
from emq_django.wire.cluster_aio import AsyncClusterClient
from emq_django.wire.kept import Greet, KeptClient, Left, no_farewell, no_greeting
from emq_django.wire.kept_aio import AsyncKeptClient
from emq_django.wire.prompt_aio import (
    PromptConnection,
    PromptSSLConnection,
    PromptUnixConnection,
)

if TYPE_CHECKING:
    from emq_django.wire.client import AsyncConnection, Command, Connection
    from emq_django.wire.topology import Node


@dataclass(frozen=True, slots=True)
class Manners:
    """What is said on each new connection, and who is told when it is closed (see ``kept``)."""

    greet: Greet = no_greeting
    left: Left = no_farewell


NO_MANNERS: Final = Manners()


def client_of(target: Target, manners: Manners = NO_MANNERS) -> KeptClient | LateClient:
    """Return a client for threads."""
    if target.late:
        return LateClient(target, manners)
    return KeptClient(_connector(target), manners.greet, manners.left)


def async_client_of(
    target: Target, manners: Manners = NO_MANNERS
) -> AsyncKeptClient | AsyncLateClient:
    """Return a client for one event loop."""
    if target.late:
        return AsyncLateClient(target, manners)
    return AsyncKeptClient(_async_connector(target), manners.greet, manners.left)


class LateClient:
    """Asks a project's own connection factory on the first command: that may open connections."""

    def __init__(self, target: Target, manners: Manners = NO_MANNERS) -> None:
        self._target = target
        self._manners = manners
        self._client: KeptClient | ClusterClient | None = None

    def execute(self, command: Command, key: bytes, timeout_s: float | None = None) -> Any:
        """Send one command, return its reply. Error replies are raised."""
        return (self._client or self._ask()).execute(command, key, timeout_s)

    def execute_many(
        self, commands: Sequence[Command], key: bytes, timeout_s: float | None = None
    ) -> list[Any]:
        """Send all commands in one flush; return a reply or an error instance for each."""
        return (self._client or self._ask()).execute_many(commands, key, timeout_s)

    def close(self) -> None:
        """Close the connections that are not in use. The client can be used again."""
        if self._client:
            self._client.close()

    def connector(self, key: bytes) -> Callable[[], Connection]:
        """Return what makes a connection to the server that holds ``key``."""
        return (self._client or self._ask()).connector(key)

    def _ask(self) -> KeptClient | ClusterClient:
        found, seeds, remap = _asked(self._target)
        if seeds:
            self._client = ClusterClient(seeds, lambda node: self._kept(_at(found, node)), remap)
        else:
            self._client = self._kept(found)
        return self._client

    def _kept(self, target: Target) -> KeptClient:
        return KeptClient(_connector(target), self._manners.greet, self._manners.left)


class AsyncLateClient:
    """The same for one event loop; the factory itself is blocking, so it is asked in a thread."""

    def __init__(self, target: Target, manners: Manners = NO_MANNERS) -> None:
        self._target = target
        self._manners = manners
        self._client: AsyncKeptClient | AsyncClusterClient | None = None

    async def execute(self, command: Command, key: bytes, timeout_s: float | None = None) -> Any:
        """Send one command, return its reply. Error replies are raised."""
        return await (self._client or await self._ask()).execute(command, key, timeout_s)

    async def execute_many(
        self, commands: Sequence[Command], key: bytes, timeout_s: float | None = None
    ) -> list[Any]:
        """Send all commands in one flush; return a reply or an error instance for each."""
        return await (self._client or await self._ask()).execute_many(commands, key, timeout_s)

    async def close(self) -> None:
        """Close the connections that are not in use. The client can be used again."""
        if self._client:
            await self._client.close()

    async def connector(self, key: bytes) -> Callable[[], AsyncConnection]:
        """Return what makes a connection to the server that holds ``key``."""
        return await (self._client or await self._ask()).connector(key)

    async def _ask(self) -> AsyncKeptClient | AsyncClusterClient:
        found, seeds, remap = await asyncio.to_thread(_asked, self._target)
        if self._client:  # another task was first
            return self._client
        if seeds:
            made = AsyncClusterClient(seeds, lambda node: self._kept(_at(found, node)), remap)
            self._client = made
        else:
            self._client = self._kept(found)
        return self._client

    def _kept(self, target: Target) -> AsyncKeptClient:
        return AsyncKeptClient(_async_connector(target), self._manners.greet, self._manners.left)


def _asked(target: Target) -> tuple[Target, list[Node], Callable[[Node], Node]]:
    """Return what a factory's client connects to, the seeds of a cluster, and its address map."""
    assert target.late is not None  # noqa: S101 - only late targets get here
    try:
        client = target.late()
        nodes = client.get_nodes() if hasattr(client, "get_nodes") else []
        pool = _pool_of(client, nodes)
    except EmqError:
        raise
    except Exception as exc:
        raise NotSent from exc
    found = target_of(pool)
    if target.limits:
        found = found.within(*target.limits)
    manager = getattr(client, "nodes_manager", None)
    remap = getattr(manager, "remap_host_port", None)
    seeds = [(node.host, int(node.port)) for node in nodes]
    return found, seeds, (lambda node: remap(*node)) if remap else (lambda node: node)


def _pool_of(client: Any, nodes: list[Any]) -> Any:
    if not nodes:
        return client.connection_pool
    # redis-py names it get_redis_connection, valkey-py get_valkey_connection.
    of_node = getattr(client, "get_redis_connection", None) or client.get_valkey_connection
    return of_node(nodes[0]).connection_pool


def _at(target: Target, node: Node) -> Target:
    host, port = node
    return replace(target, options={**target.options, "host": host, "port": port})


def _connector(target: Target) -> Callable[[], AbstractConnection]:
    cls, options = target.connection_class, dict(target.options)
    if target.sentinels:
        secure = issubclass(cls, SSLConnection)
        cls = sentinel.MasterSSLConnection if secure else sentinel.MasterConnection
        asked = [_connector(one) for one in target.sentinels]
        options["find_master"] = partial(sentinel.find_master, target.address.host, asked)
    return lambda: cls(**options)


def _async_connector(target: Target) -> Callable[[], Any]:
    cls = _async_class(target.connection_class, through_sentinel=bool(target.sentinels))
    accepted = {
        name for base in cls.__mro__ for name in inspect.signature(base.__init__).parameters
    }
    options = {name: value for name, value in target.options.items() if name in accepted}
    options["retry"] = AsyncRetry(NoBackoff(), 0)
    if target.sentinels:
        asked = [_async_connector(one) for one in target.sentinels]
        options["find_master"] = partial(sentinel.afind_master, target.address.host, asked)
    return lambda: cls(**options)


def _async_class(cls: type[AbstractConnection], *, through_sentinel: bool) -> Any:
    if issubclass(cls, SSLConnection):
        return sentinel.AsyncMasterSSLConnection if through_sentinel else PromptSSLConnection
    if issubclass(cls, UnixDomainSocketConnection):
        return PromptUnixConnection
    return sentinel.AsyncMasterConnection if through_sentinel else PromptConnection
