"""What a running job leaves on its row: progress and log lines. Neither moves the job."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from emq_django.protocol import scripts
from emq_django.protocol.calls import Call
from emq_django.protocol.keyspace import Queue, id_bytes
from emq_django.protocol.numbers import valid_count

KEPT_LINES: Final = 200

_PROGRESS = scripts.load("progress")
_ADD_LOG = scripts.load("add_log")
_LOGS = scripts.load("logs")


class Log(NamedTuple):
    """The last lines of a job's log, oldest first, and how many lines it has."""

    total: int
    lines: list[str]


def progress(queue: Queue, job_id: str, value: str) -> Call[bool]:
    """Note how far a job is and publish it. False when there is no such row."""
    args = (id_bytes(job_id), _text(value))
    return Call(_PROGRESS, (queue.row(job_id), queue.base), args, _noted)


def add_log(queue: Queue, job_id: str, line: str, keep: int = KEPT_LINES) -> Call[int | None]:
    """Add a line to a job's log and keep the last ``keep``. Lines now, or None without a row."""
    row = queue.row(job_id)
    return Call(_ADD_LOG, (row, row + b":logs"), (_text(line), valid_count(keep, "keep")), _lines)


def logs(queue: Queue, job_id: str, limit: int = KEPT_LINES) -> Call[Log]:
    """Return the last lines of a job's log."""
    return Call(_LOGS, (queue.row(job_id) + b":logs",), (valid_count(limit, "limit"),), _log)


def _text(value: str) -> bytes:
    # Lone surrogates would make the published JSON invalid.
    return value.encode("utf-8", "backslashreplace")


def _noted(reply: int) -> bool:
    return reply == 1


def _lines(reply: int) -> int | None:
    return reply if reply >= 0 else None


def _log(reply: list[Any]) -> Log:
    total, lines = reply
    return Log(total, [line.decode("utf-8", "replace") for line in lines])
