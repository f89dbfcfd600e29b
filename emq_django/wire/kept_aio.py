"""The asyncio sibling of ``kept``: kept connections of one event loop. Keep them alike.

A client belongs to the loop it was first used on; ``connections`` makes one per running loop and
closes it when the loop shuts down.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from redis.exceptions import ResponseError

from emq_django.errors import EmqError
from emq_django.wire.client import AsyncConnection, Command, NotSent
from emq_django.wire.kept import (
    FRESH_S,
    MOST_IDLE,
    USUAL_READ_S,
    Greet,
    Left,
    Limit,
    ends_connection,
    is_demotion,
    no_farewell,
    no_greeting,
    pack,
)


class AsyncKeptClient:
    """Runs commands on kept connections of one loop; as many at once as there are callers."""

    def __init__(
        self,
        make_connection: Callable[[], AsyncConnection],
        greet: Greet = no_greeting,
        left: Left = no_farewell,
    ) -> None:
        self._make = make_connection
        self._greet = greet
        self._left = left
        self._numbers: WeakKeyDictionary[AsyncConnection, int] = WeakKeyDictionary()
        self._idle: list[tuple[AsyncConnection, float]] = []

    async def execute(self, command: Command, key: bytes, timeout_s: float | None = None) -> Any:
        """Send one command, return its reply. Error replies are raised."""
        del key
        packed = pack(command)
        limit = None if timeout_s is None else Limit(timeout_s)
        connection = await self._checkout(limit)
        try:
            if limit is None:
                await connection.send_packed_command([packed], check_health=False)
                reply = await connection.read_response()
            else:
                await _send(connection, packed, limit)
                reply = await _read(connection, limit)
        except ResponseError as exc:
            await self._put_back_after(connection, [exc])
            raise
        except BaseException:
            await self._drop(connection, in_call=True)
            raise
        await self._put_back(connection)
        return reply

    async def execute_many(
        self, commands: Sequence[Command], key: bytes, timeout_s: float | None = None
    ) -> list[Any]:
        """Send all commands in one flush; return a reply or an error instance for each."""
        del key
        packed = [pack(command) for command in commands]
        limit = None if timeout_s is None else Limit(timeout_s)
        connection = await self._checkout(limit)
        replies: list[Any] = []
        try:
            await _send(connection, b"".join(packed), limit)
            while len(replies) < len(packed):
                try:
                    replies.append(await _read(connection, limit))
                except ResponseError as exc:
                    replies.append(exc)
        except Exception as exc:  # noqa: BLE001 - the caller learns which replies are missing
            await self._drop(connection, in_call=True)
            return replies + [exc] * (len(packed) - len(replies))
        except BaseException:
            await self._drop(connection, in_call=True)
            raise
        await self._put_back_after(connection, replies)
        return replies

    async def close(self) -> None:
        """Close the connections that are not in use. The client can be used again."""
        while self._idle:
            await self._drop(self._idle.pop()[0])

    async def connector(self, key: bytes) -> Callable[[], AsyncConnection]:
        """Return what makes a connection to the server that holds ``key``."""
        del key
        return self._make

    async def _put_back_after(self, connection: AsyncConnection, replies: Sequence[Any]) -> None:
        """Keep a connection unless a reply says that its server serves it no more."""
        if not any(map(ends_connection, replies)):
            await self._put_back(connection)
            return
        await self._drop(connection)
        if any(map(is_demotion, replies)):  # nor any other one: its name may lead elsewhere by now
            await self.close()

    async def _checkout(self, limit: Limit | None = None) -> AsyncConnection:
        while self._idle:
            connection, since = self._idle.pop()
            if time.monotonic() - since < FRESH_S or await _is_quiet(connection):
                return connection
            await self._drop(connection)
        connection = self._make()
        limit = limit or Limit(connection.socket_timeout or USUAL_READ_S)
        try:
            async with asyncio.timeout(limit.left_s()):
                await connection.connect()
                await self._run_greeting(connection)
        except BaseException as exc:
            await connection.disconnect(nowait=True)
            if isinstance(exc, EmqError) or not isinstance(exc, Exception):
                raise
            raise NotSent from exc
        return connection

    async def _run_greeting(self, connection: AsyncConnection) -> None:
        steps = self._greet()
        try:
            command = next(steps)
            while True:
                await connection.send_packed_command([pack(command)], check_health=False)
                try:
                    reply = await connection.read_response()
                except ResponseError as exc:
                    command = steps.throw(exc)
                else:
                    command = steps.send(reply)
        except StopIteration as done:
            if done.value is not None:
                self._numbers[connection] = done.value

    async def _drop(self, connection: AsyncConnection, *, in_call: bool = False) -> None:
        """Close a connection; ``in_call``: a reply that it owed us has not come."""
        await connection.disconnect(nowait=True)
        number = self._numbers.pop(connection, None)
        if number is not None:
            self._left(number, in_call)

    async def _put_back(self, connection: AsyncConnection) -> None:
        if len(self._idle) < MOST_IDLE:
            self._idle.append((connection, time.monotonic()))
        else:
            await self._drop(connection)


async def _send(connection: AsyncConnection, packed: bytes, limit: Limit | None) -> None:
    if limit is None:
        await connection.send_packed_command([packed], check_health=False)
        return
    async with asyncio.timeout(limit.left_s()):
        await connection.send_packed_command([packed], check_health=False)


async def _read(connection: AsyncConnection, limit: Limit | None) -> Any:
    if limit is None:
        return await connection.read_response()
    # Not by read_response's own argument: when that time is over it answers None as if it were a
    # reply, and the real one would go to the connection's next user.
    async with asyncio.timeout(limit.left_s()):
        return await connection.read_response()


async def _is_quiet(connection: AsyncConnection) -> bool:
    """Tell whether an idle connection is open with nothing to read: readable means closed."""
    try:
        # The loop itself takes note of what has arrived: one turn to look, one to do it.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return not await connection.can_read()
    except Exception:  # noqa: BLE001 - whatever it is, the connection is of no use
        return False
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
