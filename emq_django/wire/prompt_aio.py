"""asyncio connections that are gone when they say so."""

from __future__ import annotations

from typing import Any

from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
)


class _Prompt(AbstractConnection):
    """Drops its transport on ``disconnect(nowait=True)``.

    Closing it politely sends what is still unsent first: a command whose caller has given up would
    run when a server that hung goes on. TLS also waits for the peer's good-bye; a loop that shuts
    down does not, and the socket would be left to the garbage collector.
    """

    async def disconnect(self, nowait: bool = False, *args: Any, **options: Any) -> None:
        """Close the connection; with ``nowait`` at once."""
        if nowait and self._writer is not None:
            self._writer.transport.abort()
        await super().disconnect(nowait, *args, **options)


class PromptConnection(_Prompt, Connection):
    """Over TCP."""


class PromptSSLConnection(_Prompt, SSLConnection):
    """Over TLS."""


class PromptUnixConnection(_Prompt, UnixDomainSocketConnection):
    """Over a socket of this machine."""
