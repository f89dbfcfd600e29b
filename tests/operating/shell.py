"""Runs `manage.py` commands as processes: with pipes, or with a terminal in front."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from fcntl import ioctl
from typing import TYPE_CHECKING
from unittest import mock

from django.core.management import load_command_class
from django.core.management.base import OutputWrapper

if TYPE_CHECKING:
    from collections.abc import Mapping

DEADLINE_S = 50.0
SETTINGS = {"DJANGO_SETTINGS_MODULE": "tests.worker.settings", "PYTHONWARNINGS": "error"}


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, **SETTINGS, **(more or {})}


def start(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "django", *arguments],
        env=environment(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(*arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Outcome:
    """Run a command to its end, its streams being pipes."""
    process = start(*arguments, env=env)
    try:
        out, err = process.communicate(stdin, DEADLINE_S)
    finally:
        process.kill()
    return Outcome(process.returncode, out.decode(), err.decode())


def run_here(*arguments: str, stdin: bytes = b"") -> Outcome:
    """Run a command in this process, its streams being pipes as far as it can tell."""
    streams = [io.TextIOWrapper(io.BytesIO(stdin if n == 0 else b"")) for n in range(3)]
    command = load_command_class("emq_django", arguments[0])
    command.stdout, command.stderr = (OutputWrapper(one) for one in streams[1:])
    code = 0
    with mock.patch.multiple(sys, stdin=streams[0], stdout=streams[1], stderr=streams[2]):
        try:
            command.run_from_argv(["manage.py", *arguments])
        except SystemExit as exc:
            code = exc.code if isinstance(exc.code, int) else int(bool(exc.code))
        for stream in streams[1:]:
            stream.flush()
        out, err = (stream.detach().getvalue().decode() for stream in streams[1:])
    return Outcome(code, out, err)


class Terminal:
    """A command with a terminal in front. `typed` goes in, `seen` came out."""

    def __init__(
        self, *arguments: str, columns: int = 80, env: Mapping[str, str] | None = None
    ) -> None:
        self.seen = b""
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            try:
                os.execve(
                    sys.executable,
                    [sys.executable, "-m", "django", *arguments],
                    environment({"TERM": "xterm", "COLUMNS": str(columns), **(env or {})}),
                )
            finally:
                os._exit(99)
        ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))

    def wait_for(self, text: str) -> str:
        deadline_s = time.monotonic() + DEADLINE_S
        while text.encode() not in self.seen:
            assert time.monotonic() < deadline_s, f"no {text!r} in {self.seen!r}"
            assert self._read(), f"no {text!r}, it ended with {self.seen!r}"
        return self.seen.decode()

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        os.kill(self.pid, signal.SIGINT)

    def end(self) -> tuple[int, str]:
        """Read to the end; return the exit code and all that was shown."""
        deadline_s = time.monotonic() + DEADLINE_S
        while self._read():
            assert time.monotonic() < deadline_s, self.seen
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status), self.seen.decode()

    def close(self) -> None:
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._master)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], 1.0)
        if not ready:
            return True
        try:
            part = os.read(self._master, 65_536)
        except OSError:  # Linux: the other end is closed
            return False
        self.seen += part
        return bool(part)
