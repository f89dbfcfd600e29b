"""The processes behind the site: the server and the worker. They never outlive the launcher."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from emq_django import embedded

_GRACE_S = 10.0
_LONGEST_SOCKET_PATH = 100  # bytes: what Linux and macOS allow, less a reserve


class LaunchFailed(Exception):
    """A part of the example did not start, or stopped; the message says which, and what to do."""


@dataclass(frozen=True, slots=True)
class Part:
    """A process of the example; `name` is what messages call it."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def check_alive(self) -> None:
        """Raise LaunchFailed when it has ended."""
        code = self.process.poll()
        if code is not None:
            raise LaunchFailed(f"The {self.name} ended with code {code}.{self.last_words()}")

    def last_words(self) -> str:
        """Return the end of its log, to go behind a message."""
        lines = self.log.read_text("utf-8", "replace").splitlines()[-12:]
        if not lines:
            return f" It wrote nothing to {self.log}."
        return "\n".join([" Its last lines:", *lines])


@contextlib.contextmanager
def running_server(data_dir: Path) -> Iterator[tuple[str, Part]]:
    """Run a server on a unix socket that only this user can open; give its URL as well."""
    with contextlib.ExitStack() as stack:
        path = data_dir / "server.sock"
        if len(os.fsencode(path)) > _LONGEST_SOCKET_PATH:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="emq-example-"))
            path = Path(folder) / "server.sock"
        folder_of_server = data_dir / "server"
        options = embedded.ServerOptions(data_dir=folder_of_server, port=0, unix_socket=path)
        with _ctrl_c_held_back():
            process = embedded.start(options)
        stack.callback(embedded.stop, process)
        yield f"unix://{path}", Part("server", process, folder_of_server / "server.log")


@contextlib.contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Let what starts here inherit that SIGINT is blocked.

    Ctrl-C goes to everything in the foreground. The server has to outlast the worker, which tells
    it what became of the jobs that it was running.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def running_worker(log: Path) -> Iterator[Part]:
    """Run `manage.py emq_worker`; its output goes to a file."""
    manage = Path(__file__).with_name("manage.py")
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own command, no shell
            [sys.executable, str(manage), "emq_worker"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # out of reach of Ctrl-C: the launcher ends it, in order
            # Safe here: no thread has been started yet.
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
    try:
        yield Part("worker", process, log)
    finally:
        process.terminate()
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
