"""A client on one connection that also hears when keys change, whoever changes them.

RESP3 with ``CLIENT TRACKING ON BCAST``: the server announces every write to a key with one of our
prefixes, so nothing must be read again to stay on the list, and there is no moment in which a
change goes unheard. Announcements and replies share the socket; they are told apart here, by a
reader of our own, so that none is swallowed while a reply is waited for.

Never with NOLOOP: what this connection writes itself (a promotion) must be heard as well.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Final
from weakref import WeakSet

import hiredis
from redis._parsers.base import BaseParser  # the map from error words to redis-py's classes
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import InvalidResponse, ResponseError
from redis.exceptions import TimeoutError as TimedOut

from emq_django.errors import EmqError
from emq_django.wire.client import Command, Connection, NotSent
from emq_django.wire.kept import ends_connection, pack

ALL_KEYS: Final = b""  # stands for every key: the server was emptied
_CHUNK: Final = 65_536
_NOTHING: Final = object()


class HearingClient:
    """Runs commands and collects announcements. For one thread.

    ``make_connection`` is that of a ``KeptClient``. Without ``prefixes`` it hears of the next
    change of each key that is read on it, and of no more until that is read again. ``channels`` are
    pub/sub channels on which all such clients of a queue listen, so that they can be counted there.
    """

    def __init__(
        self,
        make_connection: Callable[[], Connection],
        prefixes: Sequence[bytes],
        channels: Sequence[bytes] = (),
        timeout_s: float = 0.5,
    ) -> None:
        self.hears = False  # whether the server agreed to announce changes, when last connected
        self.refusal = ""  # why it did not
        self.connects = 0  # grows with each new connection: what was known before may be old
        self._make = make_connection
        self._prefixes = list(prefixes)
        self._channels = tuple(channels)
        self._timeout_s = timeout_s
        self._connection: Any = None
        self._reader: Any = None
        self._heard: list[bytes] = []
        self._answers: list[Any] = []
        self._deaf = False
        _clients.add(self)

    def fileno(self) -> int:
        """Return the socket to wait on; -1 while there is no connection."""
        return -1 if self._connection is None else int(self._connection._sock.fileno())  # noqa: SLF001

    def execute(self, command: Command, key: bytes, timeout_s: float | None = None) -> Any:
        """Send one command, return its reply. Error replies are raised."""
        reply = self.execute_many([command], key, timeout_s)[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def execute_many(
        self, commands: Sequence[Command], key: bytes, timeout_s: float | None = None
    ) -> list[Any]:
        """Send all commands in one flush; return a reply or an error instance for each."""
        del key
        if self._connection is None:
            self._connect()
        replies: list[Any] = []
        try:
            self._send(commands)
            self._read(replies, len(commands), timeout_s or self._timeout_s)
            self._note_rest()
            if any(map(ends_connection, replies)):
                self.close()
        except Exception as exc:  # noqa: BLE001 - the caller learns which replies are missing
            self.close()
            return replies + [exc] * (len(commands) - len(replies))
        except BaseException:
            self.close()
            raise
        return replies

    def ask(self, commands: Sequence[Command]) -> None:
        """Send commands and do not wait: what ``heard`` reads then may be ``answers``."""
        if self._connection is None:
            self._connect()
        self._answers = []
        try:
            self._send(commands)
        except BaseException:
            self.close()
            raise

    def answers(self) -> list[Any]:
        """Return the replies, or error instances, to ``ask`` that were read so far."""
        return self._answers

    def has_heard(self) -> bool:
        """Tell whether ``heard`` has something to say of which the socket shows nothing.

        What was announced while a reply was read came with it, and no poll shows it any more.
        """
        return bool(self._heard) and self._connection is not None

    def heard(self) -> list[bytes]:
        """Return the keys that changed since the last call. Raises when the connection is lost."""
        if self._connection is not None:
            try:
                self._drain()
            except Exception:
                self.close()
                raise
        heard, self._heard = self._heard, []
        return heard

    def listen_to(self, prefix: bytes) -> None:
        """Hear of one more prefix, from now on and after each reconnect."""
        if prefix not in self._prefixes:
            self._prefixes.append(prefix)
            if self.hears and not self._deaf:
                self.execute(_tracking([prefix]), b"")

    def be_deaf(self, deaf: bool) -> None:
        """Have announcements stopped for a while: where all is changing they say nothing."""
        if self.hears and deaf != self._deaf:
            off: Command = ("CLIENT", "TRACKING", "OFF")
            self.execute(off if deaf else _tracking(self._prefixes), b"")
            self._deaf = deaf

    def connector(self, key: bytes) -> Callable[[], Connection]:
        """Return what makes a connection to this server."""
        del key
        return self._make

    def close(self) -> None:
        """Close the connection; the next command opens a new one."""
        connection, self._connection = self._connection, None
        self._heard.append(ALL_KEYS)  # whatever changes until we are back is not announced
        if connection is not None:
            connection.disconnect()

    def _connect(self) -> None:
        connection: Any = self._make()
        try:
            connection.connect()
            self._connection = connection
            self._reader = hiredis.Reader(
                replyError=BaseParser.parse_error, protocolError=InvalidResponse
            )
            self._ask_for_announcements()
        except BaseException as exc:
            self.close()
            connection.disconnect()
            if isinstance(exc, EmqError) or not isinstance(exc, Exception):
                raise
            raise NotSent from exc
        self.connects += 1

    def _ask_for_announcements(self) -> None:
        """Switch to RESP3 and announcements; a server that refuses is used without."""
        self._deaf = False
        replies: list[Any] = []
        self._send([("HELLO", 3), _tracking(self._prefixes), ("PING",)])
        self._read(replies, 3, self._timeout_s)
        refused = next((one for one in replies if isinstance(one, ResponseError)), None)
        self.hears, self.refusal = refused is None, "" if refused is None else str(refused)
        if self.hears and self._channels:
            # A subscription is confirmed by an announcement, a refusal comes as a reply.
            self._send([("SUBSCRIBE", *self._channels), ("PING",)])
            self._read(replies := [], 1, self._timeout_s)
            if isinstance(replies[0], ResponseError):
                self._read(replies, 2, self._timeout_s)

    def _send(self, commands: Sequence[Command]) -> None:
        packed = b"".join([pack(command) for command in commands])
        self._connection._sock.settimeout(self._timeout_s)  # noqa: SLF001 - what reading left is spent
        self._connection.send_packed_command([packed], check_health=False)

    def _read(self, replies: list[Any], count: int, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        while True:
            while len(replies) < count and (reply := self._next()) is not _NOTHING:
                replies.append(reply)
            if len(replies) == count:
                return
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimedOut(f"no reply within {timeout_s:g} s")
            self._receive(left_s)

    def _receive(self, timeout_s: float) -> None:
        socket = self._connection._sock  # noqa: SLF001
        socket.settimeout(timeout_s)
        try:
            data = socket.recv(_CHUNK)
        except TimeoutError as exc:
            raise TimedOut(f"no reply within {timeout_s:g} s") from exc
        if not data:
            raise Disconnected("the server closed the connection")
        self._reader.feed(data)

    def _drain(self) -> None:
        """Read what is there, without waiting: also what TLS has decrypted already."""
        socket = self._connection._sock  # noqa: SLF001
        socket.settimeout(0)
        try:
            while True:
                data = socket.recv(_CHUNK)
                if not data:
                    raise Disconnected("the server closed the connection")
                self._reader.feed(data)
                if len(data) < _CHUNK and not hasattr(socket, "pending"):
                    break  # that was all; only TLS keeps more where no poll shows it
        except OSError as exc:
            if not _would_block(exc):
                raise
        self._note_rest()

    def _note_rest(self) -> None:
        """Note what was announced and is read already, behind the last reply."""
        while (reply := self._next()) is not _NOTHING:
            self._answers.append(reply)

    def _next(self) -> Any:
        """Return the next reply, or nothing; announcements on the way are noted."""
        while True:
            reply = self._reader.gets()
            if reply is False:
                return _NOTHING
            if not isinstance(reply, hiredis.PushNotification):
                return reply
            if reply and reply[0] == b"invalidate":
                self._heard += [ALL_KEYS] if reply[1] is None else reply[1]

    def _forget(self) -> None:
        # Dropped, not closed in protocol: the socket is the parent's.
        self._connection = None


def _tracking(prefixes: Sequence[bytes]) -> Command:
    if not prefixes:
        return ("CLIENT", "TRACKING", "ON")
    parts = [part for prefix in prefixes for part in ("PREFIX", prefix)]
    return ("CLIENT", "TRACKING", "ON", "BCAST", *parts)


def _would_block(exc: OSError) -> bool:
    # TLS has a class of its own for "nothing there yet"; naming it would import ssl.
    return isinstance(exc, BlockingIOError) or type(exc).__name__ == "SSLWantReadError"


_clients: WeakSet[HearingClient] = WeakSet()


def _forget_all() -> None:
    for client in list(_clients):
        client._forget()  # noqa: SLF001


os.register_at_fork(after_in_child=_forget_all)
