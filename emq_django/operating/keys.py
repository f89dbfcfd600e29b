"""Finds a queue's keys by walking the server's, a bounded step at a time. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from emq_django.errors import EmqError
from emq_django.protocol.keyspace import Queue
from emq_django.wire.replies import error_for
from emq_django.wire.sync import Wire

STEP: Final = 1_000  # keys that the server looks at in one step
_MOST_ROWS: Final = 500
# What follows a row's key: logs, marks, another speaker's lock and its flows.
_SUFFIXES: Final = (
    b":logs", b":lock", b":done", b":result", b":dependencies", b":processed", b":failed",
    b":unsuccessful", b":relayed",
)  # fmt: skip


class Found(NamedTuple):
    """Some keys of a queue: ids of rows, lanes with a waiting set, and all others, whole."""

    rows: list[bytes]
    lanes: list[bytes]
    strays: list[bytes]


def scan(wire: Wire, queue: Queue) -> Iterator[Found]:
    """Yield the keys of a queue, those that are there from begin to end all of them."""
    cursor: bytes | str = "0"
    pattern = _glob(queue.base) + b"*"
    while True:
        try:
            cursor, names = wire.client.execute(
                ("SCAN", cursor, "MATCH", pattern, "COUNT", STEP), queue.base
            )
        except Exception as exc:  # noqa: BLE001 - mapped to the error tree
            error: EmqError = error_for(exc)
            raise error from error.__cause__
        for start in range(0, len(names) or 1, _MOST_ROWS):
            yield _sorted(queue, names[start : start + _MOST_ROWS])
        if cursor in {b"0", "0"}:
            return


def live_keys(queue: Queue) -> frozenset[bytes]:
    """Return the keys that an empty queue may have by right, or a producer has made again."""
    names = (
        b"wake",
        b"metrics:completed",
        b"metrics:failed",
        b"dj:unique",
        b"dj:finished",
        b"dj:rights",
    )
    own = (queue.pending, queue.active, queue.schedule, queue.dead, queue.ring, queue.meta)
    return frozenset({*own, *(queue.base + name for name in names)})


def _sorted(queue: Queue, names: list[bytes]) -> Found:
    found = Found([], [], [])
    for name in names:
        if name.startswith(queue.row_base) and not name.endswith(_SUFFIXES):
            found.rows.append(name[len(queue.row_base) :])
        elif name.startswith(queue.base + b"g:") and name.endswith(b":pending"):
            found.lanes.append(name[len(queue.base) + 2 : -len(b":pending")])
        else:
            found.strays.append(name)
    return found


def _glob(text: bytes) -> bytes:
    return b"".join(b"\\" + bytes([c]) if c in b"*?[]\\^" else bytes([c]) for c in text)
