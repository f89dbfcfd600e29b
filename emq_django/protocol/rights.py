"""Which commands the server's user lacks: tried inside a script, as the scripts need them there.

EVALSHA and SCRIPT LOAD are needed to ask at all; where they are refused, the error names them.
"""

from __future__ import annotations

from typing import Any, Final

from emq_django.protocol import scripts
from emq_django.protocol.calls import Call
from emq_django.protocol.keyspace import Queue

OPTIONAL: Final = frozenset({"PUBLISH", "PUBSUB"})  # events; a script goes on without them

_RIGHTS = scripts.load("rights")


def refused(queue: Queue) -> Call[list[str]]:
    """Return the commands that may not be run on keys of this queue, optional ones too."""
    return Call(_RIGHTS, (queue.base + b"dj:rights",), (), _names)


def needed(names: list[str]) -> list[str]:
    """Return those without which jobs are not done."""
    return [name for name in names if name not in OPTIONAL]


def _names(reply: list[Any]) -> list[str]:
    return sorted(name.decode() for name in reply)
