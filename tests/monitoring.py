"""Records the commands that clients send to a server, as MONITOR shows them."""

from __future__ import annotations

import re
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import Server

_LINE = re.compile(rb"^\d+\.\d+ \[\d+ (?P<client>[^\]]+)\] (?P<words>.*)$", re.DOTALL)
_WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b"}


@dataclass
class Recording:
    """`commands`: the argument lists in the order in which the server ran them.

    What a script runs inside (client `lua`) and the handshake of new connections are left out.
    """

    commands: list[tuple[bytes, ...]] = field(default_factory=list)

    def named(self, *names: bytes) -> list[tuple[bytes, ...]]:
        """Return only the commands with one of these names."""
        return [command for command in self.commands if command[0].upper() in names]


@contextmanager
def record(server: Server) -> Iterator[Recording]:
    """Record what clients send to `server` in the block; complete once the block has ended."""
    recording = Recording()
    mark = uuid.uuid4().hex.encode()
    with server.client() as client, client.monitor() as monitor:
        connection = monitor.connection
        yield recording
        with server.client() as other:
            other.execute_command("ECHO", mark)
        while True:
            client_name, words = _parse(connection.read_response(disable_decoding=True))
            if words == (b"ECHO", mark):
                return
            if client_name != b"lua" and not _is_handshake(words):
                recording.commands.append(words)


def _parse(line: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    match = _LINE.match(line)
    assert match is not None, line
    words = tuple(_ESCAPE.sub(_unescape, word) for word in _WORD.findall(match["words"]))
    return match["client"], words


def _unescape(match: re.Match[bytes]) -> bytes:
    escape = match[1]
    if len(escape) == 3:
        return bytes.fromhex(escape[1:].decode())
    return _ESCAPED.get(escape, escape)


def _is_handshake(words: tuple[bytes, ...]) -> bool:
    name = words[0].upper()
    setinfo = name == b"CLIENT" and len(words) > 1 and words[1].upper() == b"SETINFO"
    return setinfo or name in {b"HELLO", b"AUTH", b"SELECT"}
