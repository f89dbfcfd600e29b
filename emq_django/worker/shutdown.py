"""Stop requests: signals set flags and ring the bell, nothing else. The loop looks."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import FrameType

from emq_django.worker.wait import Bell

SIGNALS = tuple(
    number
    for name in ("SIGTERM", "SIGINT", "SIGHUP")
    if (number := getattr(signal.Signals, name, None)) is not None
)


class Forced(BaseException):
    """The second signal came while the main thread waited for a server."""


class StopRequest:
    """How often a stop was asked for: once finishes what runs, twice does not wait for it."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._count = 0
        self._cutting = _Cutting()
        self.forcible = True  # False: a second request is none; the parent kills where it must
        self.signum: int | None = None  # the latest signal

    def requested(self) -> bool:
        """Take nothing more."""
        return self._count > 0

    def forced_by(self) -> int | None:
        """Return the signal that was the second request, None where there was none."""
        return self.signum if self.forced() else None

    def forced(self) -> bool:
        """Hand back what still runs and end now."""
        return self._count > 1

    def ask(self) -> None:
        """Ask once more, as a signal does."""
        self._count = min(self._count + 1, 2 if self.forcible else 1)
        self._bell.ring()

    def cut_short(self) -> AbstractContextManager[None]:
        """Let a signal that forces the end raise Forced in the block, instead of waiting for it.

        For calls to the server on the main thread: one that hangs would hold up the end.
        """
        return self._cutting

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """Let SIGTERM, SIGINT and SIGHUP ask for a stop while the block runs.

        Off the main thread (an autoreloader, a test) Python allows no handlers: the block then
        runs without, and whoever owns the process stops the worker. A signal that is ignored
        stays ignored: that is how nohup keeps SIGHUP away.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self._on_signal)
            for number in SIGNALS
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def _on_signal(self, signum: int, _frame: FrameType | None) -> None:
        self.signum = signum
        self.ask()
        if self._cutting.on and self.forced():
            self._cutting.on = False
            raise Forced


class _Cutting(AbstractContextManager[None]):
    """Says whether the main thread is in such a block."""

    def __init__(self) -> None:
        self.on = False

    def __enter__(self) -> None:
        self.on = True

    def __exit__(self, *_: object) -> None:
        self.on = False
