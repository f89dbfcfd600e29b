"""What a wire needs of a client: send one command or several, get raw replies.

A client raises redis-py's exceptions as they come; ``replies`` maps them. It never resends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

Command = tuple[bytes | str | int, ...]


class NotSent(Exception):
    """No connection could be made: nothing was sent. ``__cause__`` is the driver's error."""


class Connection(Protocol):
    """What ``kept`` uses of a redis-py connection."""

    socket_timeout: float | None

    def connect(self) -> None:
        """Open the socket and greet the server."""

    def disconnect(self) -> None:
        """Close the socket."""

    def send_packed_command(self, command: Sequence[bytes], check_health: bool = True) -> None:
        """Write packed commands to the socket."""

    def can_read(self, timeout: float = 0) -> bool:
        """Tell whether there is something to read, the end of the stream included."""

    def read_response(self, *, timeout: float = ...) -> Any:
        """Read one reply; raises it when it is an error."""


class AsyncConnection(Protocol):
    """What ``kept_aio`` uses of a redis-py asyncio connection."""

    socket_timeout: float | None

    async def connect(self) -> None:
        """Open the socket and greet the server."""

    async def disconnect(self, nowait: bool = False) -> None:
        """Close the socket."""

    async def send_packed_command(
        self, command: Sequence[bytes], check_health: bool = True
    ) -> None:
        """Write packed commands to the socket."""

    async def can_read(self) -> bool:
        """Tell whether there is something to read, the end of the stream included."""

    async def read_response(
        self,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        disconnect_on_error: bool = True,
    ) -> Any:
        """Read one reply; raises it when it is an error."""


class Client(Protocol):
    """A connection to the server (or to the cluster) that holds a queue."""

    def execute(self, command: Command, key: bytes, timeout_s: float | None = None) -> Any:
        """Send one command, return its reply. Error replies are raised.

        ``key`` is a key of the queue: a cluster client finds the node by it. ``timeout_s`` may
        shorten the client's own read timeout.
        """

    def execute_many(
        self, commands: Sequence[Command], key: bytes, timeout_s: float | None = None
    ) -> list[Any]:
        """Send all commands in one flush; return a reply or an error instance for each."""

    def connector(self, key: bytes) -> Callable[[], Connection]:
        """Return what makes a connection, of the caller's own, to the server that holds ``key``."""


class AsyncClient(Protocol):
    """The same two verbs, awaited."""

    async def execute(self, command: Command, key: bytes, timeout_s: float | None = None) -> Any:
        """Send one command, return its reply. Error replies are raised."""

    async def execute_many(
        self, commands: Sequence[Command], key: bytes, timeout_s: float | None = None
    ) -> list[Any]:
        """Send all commands in one flush; return a reply or an error instance for each."""

    async def connector(self, key: bytes) -> Callable[[], AsyncConnection]:
        """Return what makes a connection, of the caller's own, to the server that holds ``key``."""
