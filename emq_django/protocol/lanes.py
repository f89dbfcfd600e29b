"""Lane control: pause, limit, weight, reassign and a look at all lanes. Nothing is claimed here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from emq_django.protocol import scripts
from emq_django.protocol.calls import Call
from emq_django.protocol.ids import valid_lane
from emq_django.protocol.keyspace import Queue, id_bytes, id_text
from emq_django.protocol.numbers import LARGEST_MS, valid_count

_PAUSE = scripts.load("lane_pause")
_RESUME = scripts.load("lane_resume")
_LIMIT = scripts.load("lane_limit")
_WEIGHT = scripts.load("lane_weight")
_REASSIGN = scripts.load("reassign")
_DEPTHS = scripts.load("lane_depths")


class Reassigned(Enum):
    """What became of a job that was to change its lane."""

    MOVED = 1
    SAME = 0
    NO_LANE = -1  # no row, or a job of the flat set
    NOT_WAITING = -2


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane's figures. ``limit`` is None where there is none."""

    name: str
    waiting: int
    active: int
    limit: int | None
    weight: int
    paused: bool
    on_ring: bool


def pause_lane(queue: Queue, lane: str) -> Call[bool]:
    """Hand out no more jobs of a lane. True when it was running."""
    return Call(_PAUSE, (queue.base,), (valid_lane(lane),), bool)


def resume_lane(queue: Queue, lane: str) -> Call[bool]:
    """Hand out jobs of a lane again. True when it was paused."""
    return Call(_RESUME, (queue.base,), (valid_lane(lane),), bool)


def limit_lane(queue: Queue, lane: str, limit: int) -> Call[int]:
    """Set how many jobs of a lane may be in flight; 0 removes the limit. Returns how many are."""
    args = (valid_lane(lane), valid_count(limit, "limit", least=0, most=LARGEST_MS))
    return Call(_LIMIT, (queue.base,), args, int)


def weigh_lane(queue: Queue, lane: str, weight: int) -> Call[int]:
    """Set how many jobs of a lane are served in one turn; 1 is the usual."""
    args = (valid_lane(lane), valid_count(weight, "weight"))
    return Call(_WEIGHT, (queue.base,), args, int)


def reassign(queue: Queue, job_id: str, lane: str) -> Call[Reassigned]:
    """Move a waiting job to another lane."""
    args = (id_bytes(job_id), valid_lane(lane))
    return Call(_REASSIGN, (queue.row(job_id), queue.base), args, Reassigned)


def lane_depths(queue: Queue, lanes: list[str] | None = None, limit: int = 200) -> Call[list[Lane]]:
    """Return the figures of the named lanes, or of up to ``limit`` that the queue knows."""
    named = [valid_lane(lane) for lane in lanes or ()]
    valid_count(len(named), "lanes", least=0)
    return Call(_DEPTHS, (queue.base,), (valid_count(limit, "limit"), *named), _depths)


def _depths(reply: list[list[Any]]) -> list[Lane]:
    return [
        Lane(
            name=id_text(name),
            waiting=waiting,
            active=int(active),
            limit=int(limit) if limit else None,
            weight=int(weight),
            paused=bool(paused),
            on_ring=bool(on_ring),
        )
        for name, waiting, active, limit, weight, paused, on_ring in reply
    ]
