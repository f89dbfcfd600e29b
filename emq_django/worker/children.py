"""Child processes of a worker tree: how one is forked, and how it is told things."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NoReturn

from emq_django.worker import log
from emq_django.worker.shutdown import SIGNALS
from emq_django.worker.table import Region, Slot

_PR_SET_PDEATHSIG: Final = 1
_FAILED: Final = 70  # os.EX_SOFTWARE: the child's own code broke
HAD_ENOUGH: Final = 75  # os.EX_TEMPFAIL: all went well, and there may be more to do
_CHUNK: Final = 4_096


@dataclass(eq=False, slots=True)
class Child:
    """One child as its parent knows it."""

    number: int
    pid: int
    incarnation: str
    region: Region
    line: socket.socket
    served: bool = False  # it got as far as to ask for jobs
    stopping: bool = False
    forced: bool = False  # killed to hand its jobs back: none of them counts as lost
    overdue: list[Slot] = field(default_factory=list)  # killed for these, the others count nothing

    def tell(self, message: bytes) -> None:
        """Send a message; one that is gone or far behind does not get it."""
        with contextlib.suppress(OSError):
            self.line.send(message)

    def hear(self) -> bytes:
        """Return what it said since the last call."""
        try:
            return self.line.recv(_CHUNK)
        except OSError:
            return b""

    def kill(self) -> None:
        """End it now."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def ended(self) -> int | None:
        """Return its exit code once it has ended (negative: the signal), else None."""
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:  # somebody else in this process has waited for it
            return _FAILED
        return os.waitstatus_to_exitcode(status) if pid else None


def fork(
    number: int,
    incarnation: str,
    region: Region,
    work: Callable[[socket.socket], int],
    inherited: Iterable[socket.socket],
) -> Child:
    """Fork a child that runs ``work`` with its end of the line and exits with what it returns.

    ``inherited`` are the parent's own sockets, which the child closes.
    """
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    # A signal that arrives in between must not run the parent's handlers in the child.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*SIGNALS, signal.SIGCHLD})
    pid = os.fork()
    if pid == 0:
        for one in (ours, *inherited):
            one.close()
        _live(parent, work, theirs, before)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    theirs.close()
    return Child(number, pid, incarnation, region, ours)


def _live(
    parent: int, work: Callable[[socket.socket], int], line: socket.socket, mask: set[int]
) -> NoReturn:
    """Be the child, to the end of its process. Nothing of the parent's stack is unwound."""
    code = _FAILED
    try:
        signal.set_wakeup_fd(-1)
        for number in (*SIGNALS, signal.SIGCHLD):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        die_with(parent)
        code = work(line)
    except BaseException:  # noqa: BLE001 - the process's boundary
        log.logger.exception("a worker process failed")
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def die_with(parent: int, signum: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel end this process when its parent ends, where the kernel can do that.

    Elsewhere the end of the line tells the child, which then stops by itself.
    """
    if sys.platform == "linux":
        with contextlib.suppress(Exception):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the kernel was told
        os._exit(0)
