"""What a job leaves behind: its result beside the row, and how both are read back.

Source: ours. The original knows no results; ``<row>:result`` stands among its registered keys. The
result of a job is written by the script that completes it (``settle.complete``).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from emq_django.protocol import scripts
from emq_django.protocol.calls import Argument, Call
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.numbers import LARGEST_MS, valid_count, valid_ms

_RESULT = scripts.load("result")

FIELDS: Final = (
    "state", "payload", "attempts", "failures", "stalled", "worker", "taken", "finished", "errors",
    "last_error", "progress", "value", "value_bytes", "task",
)  # fmt: skip


class Kept(NamedTuple):
    """What the completion of a job is to leave.

    ``ttl_ms``: for how long. ``payload_bytes``: a larger payload goes. ``finished``: ids that the
    queue remembers. ``record`` is one more line for the errors. ``fields`` are set on the result.
    """

    ttl_ms: int
    payload_bytes: int
    finished: int
    record: bytes = b""
    fields: tuple[tuple[str, bytes], ...] = ()

    def arguments(self) -> tuple[Argument, ...]:
        """Return this as arguments of a script."""
        flat: list[Argument] = [
            valid_ms(self.ttl_ms, "ttl_ms", least=1),
            valid_count(self.payload_bytes, "payload_bytes", least=0, most=LARGEST_MS),
            valid_count(self.finished, "finished", least=0, most=LARGEST_MS),
            self.record,
        ]
        for pair in self.fields:
            flat += pair
        return tuple(flat)


class Left(NamedTuple):
    """A job's row (``ended`` is False) or its result; a field that it lacks is None."""

    ended: bool
    fields: dict[str, bytes | None]

    def text(self, name: str) -> str:
        """Return a field as text, empty for none."""
        return (self.fields[name] or b"").decode("utf-8", "replace")

    def number(self, name: str) -> int | None:
        """Return a field as a whole number, None for anything else."""
        text = self.text(name)
        return int(text) if text.isdecimal() else None


def result(queue: Queue, job_id: str) -> Call[Left | None]:
    """Return a job's row, else the result it left, else None."""
    row = queue.row(job_id)
    return Call(_RESULT, (row, row + b":result"), FIELDS, _left)


def _left(reply: list[Any]) -> Left | None:
    source, values = reply
    if not source:
        return None
    return Left(source == b"result", dict(zip(FIELDS, values, strict=True)))
