"""Signals as bytes on a socket: the parent of a tree reads them where it waits for all else.

Python writes a signal's number to the socket in the C handler itself, so none is lost between a
check and a wait, SIGCHLD included.
"""

from __future__ import annotations

import contextlib
import signal
import socket
from types import TracebackType

from emq_django.worker.shutdown import SIGNALS

_CHUNK = 256


class SignalPipe:
    """Collects SIGTERM, SIGINT, SIGHUP and SIGCHLD while open. For the main thread."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)
        self._before: dict[int, object] = {}

    def __enter__(self) -> SignalPipe:
        for number in (*SIGNALS, signal.SIGCHLD):
            # One that is ignored stays ignored: that is how nohup keeps SIGHUP away.
            if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGCHLD:
                self._before[number] = signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler or signal.SIG_DFL)  # type: ignore[arg-type]
        self._ours.close()
        self._theirs.close()

    def fileno(self) -> int:
        """Return what to wait on."""
        return self._ours.fileno()

    @property
    def sockets(self) -> tuple[socket.socket, socket.socket]:
        """Return both ends: a forked child closes them."""
        return self._ours, self._theirs

    def read(self) -> list[int]:
        """Return the stop signals that came, in order."""
        came: list[int] = []
        with contextlib.suppress(BlockingIOError):
            while data := self._ours.recv(_CHUNK):
                came += data
        return [number for number in came if number != signal.SIGCHLD]
