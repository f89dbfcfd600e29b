"""A server of canned replies that notes the commands it got: for what no real server does.

    with StubServer([b"$-1\r\n", b":1\r\n"]) as stub:
        ...
    assert stub.commands == [...]

Each command gets the next reply; with none left the connection is closed.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, BinaryIO

from emq_django.embedded import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterable

Command = tuple[bytes, ...]


class StubServer:
    """Serves one connection after the other until the block ends."""

    def __init__(self, replies: Iterable[bytes]) -> None:
        self.commands: list[Command] = []
        self._replies = iter(replies)
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve, name="stub server", daemon=True)

    def __enter__(self) -> StubServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._listener, self._open):
            if one is not None:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._open = peer
                with peer, peer.makefile("rb") as stream, contextlib.suppress(OSError):
                    while command := _read_command(stream):
                        self.commands.append(command)
                        reply = next(self._replies, None)
                        if reply is None:
                            break
                        peer.sendall(reply)


def _read_command(stream: BinaryIO) -> Command:
    """Read one command as clients send it: an array of bulk strings."""
    read = stream.read
    line: bytes = stream.readline()
    parts = []
    for _ in range(int(line[1:]) if line else 0):
        size = int(stream.readline()[1:])
        parts.append(read(size + 2)[:-2])
    return tuple(parts)
