"""Which workers there are: a record per worker tree, renewed by a beat each second.

The records live outside every queue's slot, under ``{emq}:dj:worker:<incarnation>``; the list of
them is ordered by the last beat. Every project on a server shares the list, so a record carries its
project's queue prefix and a reader asks for one prefix. Times are those of the server's clock.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from emq_django.protocol import scripts
from emq_django.protocol.calls import Argument, Call
from emq_django.protocol.keyspace import id_text
from emq_django.protocol.numbers import LARGEST_MS, ms_of, valid_count, valid_ms

WORKERS_KEY: Final = b"{emq}:dj:workers"  # zset: incarnation by last beat
RECORD_BASE: Final = b"{emq}:dj:worker:"

BEAT_MS: Final = 1_000
MISSED_BEATS: Final = 3  # after so many a worker counts as gone
KEPT_MS: Final = 900_000  # for so long the record of a gone worker can be looked at
MOST_BUSY: Final = 64  # ids of running jobs in a record
_MOST_QUEUES: Final = 500
_FIELDS: Final = (
    "host", "pid", "version", "queues", "concurrency", "processes", "busy", "busy_count",
    "started_ms", "beat_ms",
)  # fmt: skip

_BEAT = scripts.load("worker_beat")
_GONE = scripts.load("worker_gone")
_WORKERS = scripts.load("workers")


class Busy(NamedTuple):
    """A job that runs: its queue, without prefix, and its id."""

    queue: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a worker says about itself. ``queues`` are names without ``prefix``."""

    incarnation: str
    prefix: str
    host: str
    pid: int
    version: str
    queues: tuple[str, ...]
    concurrency: int
    processes: int = 1
    beat_ms: int = BEAT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSeen:
    """What a worker last said. ``busy_count`` may be more than the ids in ``busy``."""

    incarnation: str
    host: str
    pid: int
    version: str
    queues: tuple[str, ...]
    concurrency: int
    processes: int
    busy: tuple[Busy, ...]
    busy_count: int
    started_ms: int
    last_beat_ms: int
    beat_ms: int

    def is_gone(self, now_ms: int) -> bool:
        """Tell whether it missed so many beats that it must be dead, stopped or cut off."""
        return now_ms - self.last_beat_ms > (MISSED_BEATS + 1) * self.beat_ms


@dataclass(frozen=True, slots=True)
class WorkersSeen:
    """The workers of one project at one moment of the server's clock; the last to beat first."""

    now_ms: int
    total: int  # in the list, those of other projects and the forgotten ones included
    workers: list[WorkerSeen]

    def alive(self) -> list[WorkerSeen]:
        """Return those that are not gone."""
        return [worker for worker in self.workers if not worker.is_gone(self.now_ms)]


def beat(facts: Facts, busy: Sequence[Busy], up_ms: int) -> Call[int]:
    """Renew a worker's record; parses to the server's now. ``up_ms``: how long it has been up."""
    pairs: dict[str, object] = {
        "prefix": facts.prefix,
        "host": facts.host[:255],
        "pid": facts.pid,
        "version": facts.version,
        "queues": json.dumps(facts.queues[:_MOST_QUEUES]),
        "concurrency": facts.concurrency,
        "processes": facts.processes,
        "busy": json.dumps(busy[:MOST_BUSY]),
        "busy_count": len(busy),
        "beat_ms": facts.beat_ms,
    }
    flat = (str(part) for pair in pairs.items() for part in pair)
    args: tuple[Argument, ...] = (facts.incarnation, KEPT_MS, valid_ms(up_ms, "up_ms"), *flat)
    return Call(_BEAT, _keys(facts.incarnation), args, int)


def gone(incarnation: str) -> Call[bool]:
    """Take a worker that ends off the list. True when it was there."""
    return Call(_GONE, _keys(incarnation), (incarnation,), bool)


def workers(prefix: str = "", limit: int = 200) -> Call[WorkersSeen]:
    """Return the workers of the project with this queue prefix, the last to beat first."""
    args = (valid_count(limit, "limit"), prefix, *_FIELDS)
    return Call(_WORKERS, (WORKERS_KEY, RECORD_BASE), args, partial(_seen, limit))


def _keys(incarnation: str) -> tuple[bytes, bytes]:
    return WORKERS_KEY, RECORD_BASE + incarnation.encode()


def _seen(limit: int, reply: list[Any]) -> WorkersSeen:
    now_ms, total, rows = reply
    return WorkersSeen(int(now_ms), total, [_worker(*row) for row in rows[:limit]])


def _worker(name: bytes, score: bytes, values: list[bytes]) -> WorkerSeen:
    said = dict(zip(_FIELDS, values, strict=True))
    return WorkerSeen(
        incarnation=id_text(name),
        host=id_text(said["host"]),
        pid=_number(said["pid"]),
        version=id_text(said["version"]),
        queues=tuple(one for one in _list(said["queues"]) if isinstance(one, str)),
        concurrency=_number(said["concurrency"]),
        processes=_number(said["processes"]),
        busy=tuple(_busy(one) for one in _list(said["busy"]) if _is_busy(one)),
        busy_count=_number(said["busy_count"]),
        started_ms=_number(said["started_ms"]),
        last_beat_ms=ms_of(score) or 0,
        beat_ms=_number(said["beat_ms"]) or BEAT_MS,
    )


def _number(raw: bytes) -> int:
    """Return a whole number; 0 for anything that a worker of ours would not have written."""
    return int(raw) if raw.isdigit() and len(raw) <= len(str(LARGEST_MS)) else 0


def _list(raw: bytes) -> list[Any]:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def _is_busy(one: object) -> bool:
    return isinstance(one, list) and len(one) == 2 and all(isinstance(part, str) for part in one)


def _busy(one: list[str]) -> Busy:
    return Busy(*one)
