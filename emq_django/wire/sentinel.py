"""Connections that ask Sentinels for the master each time they connect, and leave a demoted one.

redis-py's own turn a READONLY reply into a ConnectionError, which would read as a lost reply of a
command that did run; here it stays what it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from redis.asyncio.connection import AbstractConnection as AsyncAbstractConnection
from redis.connection import AbstractConnection, Connection, SSLConnection
from redis.exceptions import ReadOnlyError, RedisError
from redis.sentinel import MasterNotFoundError

from emq_django.wire.kept import Limit, connect
from emq_django.wire.prompt_aio import PromptConnection, PromptSSLConnection

Found = tuple[str, int]

ASK_S: Final = 1.0  # for one Sentinel: a host that hangs must not keep the next one from answering


class _ToMaster(Connection):
    def __init__(self, *, find_master: Callable[[], Found], **options: Any) -> None:
        self._find_master = find_master
        super().__init__(**options)  # type: ignore[no-untyped-call]

    def _connect(self) -> Any:
        self.host, self.port = self._find_master()
        return super()._connect()  # type: ignore[no-untyped-call]

    def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return super().read_response(*args, **options)
        except ReadOnlyError:
            self.disconnect()  # type: ignore[no-untyped-call]  # the next use asks for the master again
            raise


class MasterConnection(_ToMaster):
    """A connection to the master of a service."""


class MasterSSLConnection(_ToMaster, SSLConnection):
    """The same over TLS."""


class _AsyncToMaster(PromptConnection):
    def __init__(self, *, find_master: Callable[[], Awaitable[Found]], **options: Any) -> None:
        self._find_master = find_master
        super().__init__(**options)

    async def _connect(self) -> None:
        self.host, self.port = await self._find_master()
        await super()._connect()  # type: ignore[no-untyped-call]

    async def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().read_response(*args, **options)
        except ReadOnlyError:
            await self.disconnect(nowait=True)
            raise


class AsyncMasterConnection(_AsyncToMaster):
    """A connection of one event loop to the master of a service."""


class AsyncMasterSSLConnection(_AsyncToMaster, PromptSSLConnection):
    """The same over TLS."""


def find_master(service: str, sentinels: Sequence[Callable[[], AbstractConnection]]) -> Found:
    """Return the master's address as the first Sentinel that answers knows it."""
    error: Exception | None = None
    for make in sentinels:
        connection = make()
        try:
            limit = Limit(ASK_S)
            connect(connection, limit)
            connection.send_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)  # type: ignore[no-untyped-call]
            reply = connection.read_response(timeout=limit.left_s())
        except RedisError as exc:
            error = exc
            continue
        finally:
            connection.disconnect()  # type: ignore[no-untyped-call]
        if reply:
            return _found(reply)
    raise _not_found(service, error) from error


async def afind_master(
    service: str, sentinels: Sequence[Callable[[], AsyncAbstractConnection]]
) -> Found:
    """Return the master's address as the first Sentinel that answers knows it."""
    error: Exception | None = None
    for make in sentinels:
        connection = make()
        try:
            async with asyncio.timeout(ASK_S):
                await connection.connect()  # type: ignore[no-untyped-call]
                await connection.send_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)
                reply = await connection.read_response()
        except (RedisError, TimeoutError) as exc:
            error = exc
            continue
        finally:
            await connection.disconnect(nowait=True)
        if reply:
            return _found(reply)
    raise _not_found(service, error) from error


def _found(reply: Sequence[bytes]) -> Found:
    return reply[0].decode(), int(reply[1])


def _not_found(service: str, error: Exception | None) -> MasterNotFoundError:
    why = f"the last one asked: {error}" if error else "none of them knows the service"
    return MasterNotFoundError(f"no Sentinel names a master for {service!r}: {why}")
