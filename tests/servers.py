"""Private servers for tests: each on a free port and a unix socket, in a folder of its own."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from emq_django import embedded

if TYPE_CHECKING:
    from typing import Any

BINARY_VARIABLE = "EMQ_TEST_SERVER"
_PORT_ATTEMPTS = 5


class Server:
    """One running server. `restart` keeps its port, its arguments and its data folder."""

    def __init__(
        self, *args: str, binary: str | None, data_dir: Path | None, appendonly: bool, port: int
    ) -> None:
        self._own_dir = data_dir is None
        # The system's folder for temporary files keeps the socket's path short.
        self.data_dir = data_dir or Path(tempfile.mkdtemp(prefix="emq-"))
        self.socket_path = self.data_dir / "s"
        self.binary = embedded.find_server(binary)
        self.port = port
        self._args = args
        self._appendonly = appendonly
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)
        try:
            self.start()
        except embedded.ServerUnavailable:
            self.close()
            raise

    @property
    def url(self) -> str:
        """Database 0 over TCP."""
        return f"redis://{embedded.LOOPBACK}:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is stopped"
        return self._process.pid

    def start(self) -> None:
        options = embedded.ServerOptions(
            data_dir=self.data_dir,
            port=self.port,
            unix_socket=self.socket_path,
            appendonly=self._appendonly,
            extra=self._args,
        )
        self._process = embedded.start(options, binary=self.binary)

    def stop(self) -> None:
        """SIGTERM and wait: the server flushes its append-only file if it keeps one."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL and wait."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing is answered, until `thaw`."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def client(self, **options: Any) -> redis.Redis:
        """Return a client with bytes replies that sends each command once."""
        settings: dict[str, Any] = {
            "host": embedded.LOOPBACK,
            "port": self.port,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
        }
        return redis.Redis(**{**settings, **options})

    def close(self) -> None:
        """Stop the server for good and remove its folder if it was made for it."""
        atexit.unregister(self.close)
        self.stop()
        if self._own_dir:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def _end(self, signum: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGCONT)
        process.send_signal(signum)
        embedded.stop(process)


def start_server(
    *args: str,
    binary: str | None = None,
    data_dir: Path | None = None,
    appendonly: bool = False,
    port: int | None = None,
) -> Server:
    """Start a server with further arguments; `EMQ_TEST_SERVER` names the binary by default."""
    binary = binary or os.environ.get(BINARY_VARIABLE) or None
    attempts = 1 if port is not None else _PORT_ATTEMPTS
    while True:
        attempts -= 1
        try:
            return Server(
                *args,
                binary=binary,
                data_dir=data_dir,
                appendonly=appendonly,
                port=port or free_port(),
            )
        except embedded.ServerUnavailable as exc:
            # Between looking for a free port and listening on it somebody else may take it.
            if not attempts or "Failed listening" not in str(exc):
                raise


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((embedded.LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
