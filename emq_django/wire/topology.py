"""Which node of a cluster holds a slot, and what its redirections say. Values only, no I/O."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from redis.exceptions import AskError, MovedError

from emq_django.protocol.keyspace import slot
from emq_django.wire.client import Command

Node = tuple[str, int]

READ_TOPOLOGY: Final[Command] = ("CLUSTER", "SLOTS")
ASKING: Final[Command] = ("ASKING",)
NODE_S: Final = 1.0  # for one node's answer to READ_TOPOLOGY
TOPOLOGY_S: Final = 5.0  # for all nodes that are asked, where the command has no limit
MOST_HOPS: Final = 5


class Topology:
    """The owner of each slot, as one node saw it."""

    def __init__(self, ranges: Iterable[tuple[int, int, Node]]) -> None:
        self._ranges = sorted(ranges)
        self._starts = [start for start, _, _ in self._ranges]
        self.nodes = tuple(dict.fromkeys(node for _, _, node in self._ranges))

    def node_of(self, key: bytes) -> Node | None:
        """Return the master that holds ``key``; None while nobody serves its slot."""
        wanted = slot(key)
        index = bisect_right(self._starts, wanted) - 1
        if index < 0 or wanted > self._ranges[index][1]:
            return None
        return self._ranges[index][2]


def read_topology(reply: Sequence[Any], asked: Node, remap: Callable[[Node], Node]) -> Topology:
    """Return what CLUSTER SLOTS answered. A node that doesn't know its own name is ``asked``."""
    return Topology(
        (int(entry[0]), int(entry[1]), remap((_text(entry[2][0]) or asked[0], int(entry[2][1]))))
        for entry in reply
    )


def is_moved(reply: object) -> bool:
    """Tell whether the slot has another owner now. redis-py derives MovedError from AskError."""
    return isinstance(reply, MovedError)


def is_redirection(reply: object) -> bool:
    """Tell whether the node did not run the command but named another one."""
    return isinstance(reply, AskError)


def target_node(redirection: AskError, asked: Node, remap: Callable[[Node], Node]) -> Node:
    """Return the node that a MOVED or ASK names."""
    return remap((redirection.host or asked[0], int(redirection.port)))


def again(commands: Sequence[Command], indexes: Sequence[int], *, asking: bool) -> list[Command]:
    """Return a flush for another node: every script load, then the commands at ``indexes``.

    Loads go again because the other node may not know the scripts; they change nothing else.
    """
    loads = [command for command in commands if command[0] == "SCRIPT"]
    wanted = [commands[index] for index in indexes]
    if not asking:
        return [*loads, *wanted]
    return [*loads, *(part for command in wanted for part in (ASKING, command))]


def _text(raw: Any) -> str:
    return raw.decode() if isinstance(raw, bytes) else str(raw or "")
