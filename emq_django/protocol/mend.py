"""What another speaker or a lost server can leave behind, found and put right in bounded steps.

Each step looks again at what it changes, so that a worker may act on the same jobs meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

from emq_django.protocol import scripts
from emq_django.protocol.calls import Call
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.numbers import valid_count

MOST_IDS: Final = 500

_MEND = scripts.load("mend")


class Found(StrEnum):
    """What stands where one id does."""

    FINE = "fine"
    GHOST = "ghost"  # an id in a set without a row
    ORPHAN = "orphan"  # a row in no set: no worker would ever find it
    HUSK = "husk"  # a row without payload in no set: nothing that could run
    DOUBLE = "double"  # in two sets: the next claim or sweep puts it right
    DAMAGED = "damaged"  # the row is no hash, or its token no number: the next claim buries it
    ABSENT = "absent"  # neither a row nor in a set, by now


def mend(
    queue: Queue, raw_ids: Sequence[bytes], lane: bytes = b"", *, fix: bool = False
) -> Call[list[Found]]:
    """Return what stands where each id does; ``fix`` puts ghosts, orphans and husks right.

    Ids as the server holds them, 500 at most. ``lane`` is where they were seen waiting, if in one.
    """
    valid_count(len(raw_ids), "ids", most=MOST_IDS)
    return Call(_MEND, (queue.base,), (int(fix), lane, *raw_ids), _found)


def _found(reply: list[Any]) -> list[Found]:
    return [Found(one.decode()) for one in reply]
