"""The asyncio sibling of ``listen``: keep them alike."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from emq_django.wire.client import AsyncConnection
from emq_django.wire.kept import pack
from emq_django.wire.listen import GONE, LOOK_S, PAUSES_S, said
from emq_django.wire.replies import error_for


async def messages(
    make_connection: Callable[[], AsyncConnection], channel: bytes, idle_s: float | None = None
) -> AsyncIterator[bytes | None]:
    """Yield each message, and None where listening went on after a gap; as ``listen.messages``."""
    ends_s = _end(idle_s)
    connection, failed = await _dial(make_connection, channel)
    if failed is not None:
        raise error_for(failed) from failed
    try:
        while connection is not None and (left_s := ends_s - time.monotonic()) > 0:
            message: Any = None
            try:
                message = await hear(connection, min(left_s, LOOK_S))
            except GONE:
                await connection.disconnect(nowait=True)
                connection = await _dial_again(make_connection, channel, ends_s)
                if connection is not None:
                    yield None
            if message is not None:
                yield message
                ends_s = _end(idle_s)
    finally:
        if connection is not None:
            await connection.disconnect(nowait=True)


async def hear(connection: AsyncConnection, wait_s: float) -> bytes | None:
    """Return the next message within ``wait_s``, else None. Raises when the connection is dead."""
    try:
        async with asyncio.timeout(wait_s):
            reply = await connection.read_response(timeout=math.inf, disconnect_on_error=False)
    except TimeoutError:
        # Nobody speaks: a dead path would look the same, so an answer is asked for.
        await connection.send_packed_command([pack(("PING",))], check_health=False)
        reply = await connection.read_response(timeout=LOOK_S)
    return said(reply)


def _end(idle_s: float | None) -> float:
    return float("inf") if idle_s is None else time.monotonic() + idle_s


async def _dial(
    make_connection: Callable[[], AsyncConnection], channel: bytes
) -> tuple[AsyncConnection | None, Exception | None]:
    connection = make_connection()
    try:
        await connection.connect()
        await connection.send_packed_command([pack(("SUBSCRIBE", channel))], check_health=False)
        await connection.read_response()
    except Exception as exc:  # noqa: BLE001 - the caller raises it, or tries again
        await connection.disconnect(nowait=True)
        return None, exc
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    return connection, None


async def _dial_again(
    make_connection: Callable[[], AsyncConnection], channel: bytes, ends_s: float
) -> AsyncConnection | None:
    attempt = 0
    while time.monotonic() < ends_s:
        connection, _ = await _dial(make_connection, channel)
        if connection is not None:
            return connection
        pause_s = PAUSES_S[min(attempt, len(PAUSES_S) - 1)]
        await asyncio.sleep(min(pause_s, max(ends_s - time.monotonic(), 0)))
        attempt += 1
    return None
