"""The asyncio sibling of ``cluster``: one loop's clients of a cluster's nodes. Keep them alike."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from redis.exceptions import AskError, ClusterDownError, ClusterError, ResponseError

from emq_django.wire.client import AsyncConnection, Command, NotSent
from emq_django.wire.kept import Limit, left_s
from emq_django.wire.kept_aio import AsyncKeptClient
from emq_django.wire.topology import (
    ASKING,
    MOST_HOPS,
    NODE_S,
    READ_TOPOLOGY,
    TOPOLOGY_S,
    Node,
    Topology,
    again,
    is_moved,
    is_redirection,
    read_topology,
    target_node,
)


class AsyncClusterClient:
    """Runs commands on the node that holds their key.

    ``seeds`` are the first nodes to ask, ``client_for`` makes the client of one node, ``remap``
    turns an address that nodes announce into one that can be reached from here.
    """

    def __init__(
        self,
        seeds: Sequence[Node],
        client_for: Callable[[Node], AsyncKeptClient],
        remap: Callable[[Node], Node] = lambda node: node,
    ) -> None:
        self._seeds = tuple(seeds)
        self._make = client_for
        self._remap = remap
        self._clients: dict[Node, AsyncKeptClient] = {}
        self._topology: Topology | None = None
        self._known: tuple[Node, ...] = ()
        self._suspect: Node | None = None

    async def execute(self, command: Command, key: bytes, timeout_s: float | None = None) -> Any:
        """Send one command, return its reply. Error replies are raised."""
        limit = None if timeout_s is None else Limit(timeout_s)
        node, asking = await self._node_of(key, limit), False
        for _ in range(MOST_HOPS):
            try:
                return await self._send(node, command, key, left_s(limit), asking=asking)
            except AskError as exc:
                node, asking = self._follow(exc, node)
            except Exception as exc:
                self._note(exc, node)
                raise
        raise ClusterError(f"sent on {MOST_HOPS} times without finding the slot's node")

    async def execute_many(
        self, commands: Sequence[Command], key: bytes, timeout_s: float | None = None
    ) -> list[Any]:
        """Send all commands in one flush; return a reply or an error instance for each."""
        limit = None if timeout_s is None else Limit(timeout_s)
        node = await self._node_of(key, limit)
        replies = await self._flush(node, commands, key, left_s(limit))
        for _ in range(MOST_HOPS):
            indexes = [index for index, reply in enumerate(replies) if is_redirection(reply)]
            if not indexes:
                return replies
            node, asking = self._follow(replies[indexes[0]], node)
            batch = again(commands, indexes, asking=asking)
            answers = await self._flush(node, batch, key, left_s(limit))
            step = 2 if asking else 1
            wanted = answers[len(batch) - step * len(indexes) :][step - 1 :: step]
            for index, answer in zip(indexes, wanted, strict=True):
                replies[index] = answer
        lost = ClusterError(f"sent on {MOST_HOPS} times without finding the slot's node")
        return [lost if is_redirection(reply) else reply for reply in replies]

    async def close(self) -> None:
        """Close the connections that are not in use. The client can be used again."""
        for client in list(self._clients.values()):
            await client.close()

    async def connector(self, key: bytes) -> Callable[[], AsyncConnection]:
        """Return what makes a connection to the node that holds ``key`` as far as is known."""
        return await self._client(await self._node_of(key)).connector(key)

    async def _send(
        self, node: Node, command: Command, key: bytes, timeout_s: float | None, *, asking: bool
    ) -> Any:
        client = self._client(node)
        if not asking:
            return await client.execute(command, key, timeout_s)
        _, reply = await client.execute_many((ASKING, command), key, timeout_s)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def _flush(
        self, node: Node, commands: Sequence[Command], key: bytes, timeout_s: float | None
    ) -> list[Any]:
        try:
            replies = await self._client(node).execute_many(commands, key, timeout_s)
        except Exception as exc:  # noqa: BLE001 - each command that was not sent says so
            replies = [exc] * len(commands)
        for reply in replies:
            if isinstance(reply, Exception):
                self._note(reply, node)
        return replies

    def _follow(self, redirection: AskError, node: Node) -> tuple[Node, bool]:
        moved = is_moved(redirection)
        if moved:
            self._topology = None
        return target_node(redirection, node, self._remap), not moved

    def _note(self, exc: Exception, node: Node) -> None:
        """Read the topology again after what a failover or a lost node looks like."""
        if isinstance(exc, ClusterDownError) or not isinstance(exc, ResponseError):
            self._topology, self._suspect = None, node

    def _client(self, node: Node) -> AsyncKeptClient:
        client = self._clients.get(node)
        return client or self._clients.setdefault(node, self._make(node))

    async def _node_of(self, key: bytes, limit: Limit | None = None) -> Node:
        topology = self._topology or await self._read_topology(limit or Limit(TOPOLOGY_S))
        node = topology.node_of(key)
        if node is None:
            self._topology = None
            raise ClusterDownError("no node serves the queue's slot")
        return node

    async def _read_topology(self, limit: Limit) -> Topology:
        candidates = dict.fromkeys((*self._known, *self._seeds))
        error: Exception | None = None
        for node in sorted(candidates, key=lambda node: node == self._suspect):
            try:
                for_one_s = min(limit.left_s(), NODE_S)
                reply = await self._client(node).execute(READ_TOPOLOGY, b"", for_one_s)
            except Exception as exc:  # noqa: BLE001 - the next node may know
                error = exc
                continue
            topology = read_topology(reply, node, self._remap)
            self._topology, self._known, self._suspect = topology, topology.nodes, None
            await self._drop_all_but(topology.nodes)
            return topology
        cause = error.__cause__ if isinstance(error, NotSent) else error
        raise NotSent from cause

    async def _drop_all_but(self, nodes: Sequence[Node]) -> None:
        for node in set(self._clients).difference(nodes, self._seeds):
            with contextlib.suppress(KeyError):
                await self._clients.pop(node).close()
