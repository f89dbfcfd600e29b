"""Which queues there are: the set of wire names that applications noted on the server.

The set lives outside every queue's slot, so a name is noted once per process and not by the
scripts that enqueue. It holds ``LARGEST_REGISTRY`` names at most; only
an obliterated queue leaves it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from emq_django.protocol import scripts
from emq_django.protocol.calls import Call
from emq_django.protocol.keyspace import QUEUES_KEY, queue, valid_new_queue

LARGEST_REGISTRY: Final = 1_000  # names; the scripts hold the same number

_REGISTER = scripts.load("register")
_REGISTERED = scripts.load("registered")
_UNREGISTER = scripts.load("unregister")


class Registry(NamedTuple):
    """The wire names in the set, sorted, and how many the set holds."""

    names: list[str]
    total: int  # more than len(names) where another speaker filled the set, or a name is no text


def register(wire_name: str) -> Call[bool]:
    """Note a queue by ``Queue.wire_name``. False: the set is full and does not hold the name."""
    return Call(_REGISTER, (QUEUES_KEY,), (valid_new_queue(queue(wire_name)).wire_name,), bool)


def unregister(wire_name: str) -> Call[bool]:
    """Take a queue off the list, by ``Queue.wire_name``. True when it was there."""
    return Call(_UNREGISTER, (QUEUES_KEY,), (queue(wire_name).wire_name,), bool)


def registered() -> Call[Registry]:
    """Return the noted names; those that are not UTF-8 are left out."""
    return Call(_REGISTERED, (QUEUES_KEY,), (), _registry)


def _registry(reply: list[Any]) -> Registry:
    total, raw_names = reply
    names = []
    for raw in raw_names:
        try:
            names.append(raw.decode())
        except UnicodeDecodeError:
            continue
    return Registry(sorted(names), total)
