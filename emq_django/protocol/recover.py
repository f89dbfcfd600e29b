"""What another process does for a worker that is gone: find its jobs and hand them back.

Both steps are fenced: a mark counts only beside its own token, and a job goes back only by the
token under which the lost worker held it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from emq_django.protocol import scripts
from emq_django.protocol.calls import Call
from emq_django.protocol.events import publish_flag
from emq_django.protocol.keyspace import Queue, id_bytes, id_text
from emq_django.protocol.numbers import valid_count, valid_ms
from emq_django.protocol.records import MAX_STALLED, Verdict

MOST_HELD: Final = 300  # per call; each is three arguments, and some five writes

START: Final = "0"  # the first cursor; as an answer it says that the whole set was seen

_MARKED = scripts.load("marked")
_HAND_BACK = scripts.load("hand_back")
_VERDICTS: Final = (Verdict.STALE, Verdict.RELEASED, Verdict.DEAD)


@dataclass(frozen=True, slots=True)
class Held:
    """A job that a worker held. ``lost``: its run had begun, so it counts as one lost run."""

    id: str
    token: int
    lost: bool = False


class Marked(NamedTuple):
    """A part of the active set: where to go on ("0": all was seen), and whose mark matched."""

    cursor: str  # up to 20 digits: text, as the server gives it
    held: list[Held]


def marked(queue: Queue, incarnation: str, cursor: str = START, count: int = 500) -> Call[Marked]:
    """Return active jobs that carry this incarnation's mark. Repeat with the answered cursor."""
    args = (incarnation, cursor, valid_count(count, "count"))
    return Call(_MARKED, (queue.active, queue.base), args, _marked)


def _marked(reply: list[Any]) -> Marked:
    cursor, *pairs = reply
    held = [Held(id_text(raw), int(token)) for raw, token in zip(*[iter(pairs)] * 2, strict=True)]
    return Marked(cursor.decode(), held)


def hand_back(
    queue: Queue,
    jobs: Sequence[Held],
    max_stalled: int = MAX_STALLED,
    pause_ms: int = 0,
    *,
    events: bool | None = None,
) -> Call[list[Verdict]]:
    """Return up to 300 jobs to pending or their lane: RELEASED, DEAD or STALE for each.

    One that was ``lost`` counts as a lost run, and is buried when it has ``max_stalled`` of them
    (0 never buries); from its second it returns ``pause_ms`` to twice that later. The others count
    for nothing. ``events`` publishes the losses; the queue's own setting unless given.
    """
    valid_count(len(jobs), "jobs", most=MOST_HELD)
    flat: list[bytes | int] = []
    for job in jobs:
        flat += (id_bytes(job.id), job.token, int(job.lost))
    args = (
        valid_count(max_stalled, "max_stalled", least=0),
        valid_ms(pause_ms, "pause_ms"),
        publish_flag(queue, events),
        *flat,
    )
    return Call(_HAND_BACK, (queue.active, queue.pending, queue.base), args, _handed_back)


def _handed_back(reply: list[int]) -> list[Verdict]:
    return [_VERDICTS[one] for one in reply]
