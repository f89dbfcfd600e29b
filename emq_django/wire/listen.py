"""Hears what is published on a channel, across reconnects. ``listen_aio`` does the same, awaited.

A subscribed connection is the listener's own: it can do nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import TimeoutError as TimedOut

from emq_django.wire.client import Connection
from emq_django.wire.kept import pack
from emq_django.wire.replies import error_for

LOOK_S: Final = 5.0  # a connection that is silent this long is asked for a sign of life
PAUSES_S: Final = (
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
    2.0,
)  # between attempts to connect again; the last stays
GONE: Final = (Disconnected, TimedOut, OSError)


def messages(
    make_connection: Callable[[], Connection], channel: bytes, idle_s: float | None = None
) -> Iterator[bytes | None]:
    """Yield each message, and None where listening went on after a gap.

    Ends after ``idle_s`` seconds without one, the time that the server is away included; without
    it when the caller closes the generator. Raises WireError when the first connection fails.
    """
    ends_s = _end(idle_s)
    connection, failed = _dial(make_connection, channel)
    if failed is not None:
        raise error_for(failed) from failed
    try:
        while connection is not None and (left_s := ends_s - time.monotonic()) > 0:
            message: Any = None
            try:
                message = hear(connection, min(left_s, LOOK_S))
            except GONE:
                connection.disconnect()
                connection = _dial_again(make_connection, channel, ends_s)
                if connection is not None:
                    yield None
            if message is not None:
                yield message
                ends_s = _end(idle_s)
    finally:
        if connection is not None:
            connection.disconnect()


def hear(connection: Connection, wait_s: float) -> bytes | None:
    """Return the next message within ``wait_s``, else None. Raises when the connection is dead."""
    if not connection.can_read(timeout=wait_s):
        # Nobody speaks: a dead path would look the same, so an answer is asked for.
        connection.send_packed_command([pack(("PING",))], check_health=False)
    return said(connection.read_response(timeout=LOOK_S))


def said(reply: Any) -> bytes | None:
    """Return the text of a message; None for a greeting or a sign of life."""
    return reply[2] if isinstance(reply, list) and reply[0] == b"message" else None


def _end(idle_s: float | None) -> float:
    return float("inf") if idle_s is None else time.monotonic() + idle_s


def _dial(
    make_connection: Callable[[], Connection], channel: bytes
) -> tuple[Connection | None, Exception | None]:
    connection = make_connection()
    try:
        connection.connect()
        connection.send_packed_command([pack(("SUBSCRIBE", channel))], check_health=False)
        connection.read_response()
    except Exception as exc:  # noqa: BLE001 - the caller raises it, or tries again
        connection.disconnect()
        return None, exc
    return connection, None


def _dial_again(
    make_connection: Callable[[], Connection], channel: bytes, ends_s: float
) -> Connection | None:
    attempt = 0
    while time.monotonic() < ends_s:
        connection, _ = _dial(make_connection, channel)
        if connection is not None:
            return connection
        pause_s = PAUSES_S[min(attempt, len(PAUSES_S) - 1)]
        time.sleep(min(pause_s, max(ends_s - time.monotonic(), 0)))
        attempt += 1
    return None
