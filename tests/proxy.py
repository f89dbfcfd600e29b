"""A TCP relay that stands between a client and a server and breaks the exchange on demand.

    proxy.arm("drop_reply", matching=b"EVALSHA")     # the next such request, once
    proxy.mode = "silent"                             # every request from now on

| mode | the request | the reply | the connection |
| --- | --- | --- | --- |
| forward | arrives | comes back | stays |
| drop_reply | arrives | is thrown away | closed when the reply is there |
| truncate | arrives | its first half comes back | closed |
| delay | arrives | comes back after `delay_s` | stays |
| silent | arrives | is thrown away | stays |
| close | is thrown away | none | closed |
| blackhole | is thrown away | none | stays |

A request is what one read brought: a command, or a pipeline as long as it is small.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass, field
from typing import Literal

from emq_django.embedded import LOOPBACK

Mode = Literal["forward", "drop_reply", "truncate", "delay", "silent", "close", "blackhole"]


@dataclass
class _Link:
    """One client connection and its twin to the server; `mode` is that of the last request."""

    client: socket.socket
    server: socket.socket
    mode: Mode = "forward"
    threads: list[threading.Thread] = field(default_factory=list)

    def shut(self) -> None:
        for side in (self.client, self.server):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


class Proxy:
    """Listens on `port` until `close`; `seen` holds the requests, in order of arrival."""

    def __init__(self, target_port: int) -> None:
        self.mode: Mode = "forward"
        self.delay_s = 0.2
        self.seen: list[bytes] = []
        self._target_port = target_port
        self._armed: tuple[Mode, bytes, int] | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._links: list[_Link] = []
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._acceptor.start()

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}/0"

    def arm(self, mode: Mode, *, matching: bytes = b"", times: int = 1) -> None:
        """Apply `mode` to the next `times` requests that contain `matching`, then forward again."""
        with self._lock:
            self._armed = (mode, matching, times)

    def is_armed(self) -> bool:
        """Whether what was armed has not all been applied yet."""
        with self._lock:
            return self._armed is not None

    def drop_connections(self) -> None:
        """Close every open connection, as a restarted server would."""
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            link.shut()

    def close(self) -> None:
        self._closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join(5)
        links = list(self._links)
        self.drop_connections()
        for thread in (thread for link in links for thread in link.threads):
            thread.join(5)

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((LOOPBACK, self._target_port))
            except OSError:
                client.close()
                continue
            link = _Link(client, server)
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.threads = [
                threading.Thread(target=pump, args=(link,), name="proxy", daemon=True)
                for pump in (self._pump_requests, self._pump_replies)
            ]
            with self._lock:
                self._links.append(link)
            for thread in link.threads:
                thread.start()

    def _mode_for(self, request: bytes) -> Mode:
        with self._lock:
            self.seen.append(request)
            if self._armed is None:
                return self.mode
            mode, matching, times = self._armed
            if matching not in request:
                return self.mode
            self._armed = (mode, matching, times - 1) if times > 1 else None
            return mode

    def _pump_requests(self, link: _Link) -> None:
        with contextlib.suppress(OSError), link.client:
            while request := link.client.recv(1 << 16):
                link.mode = self._mode_for(request)
                if link.mode == "close":
                    break
                if link.mode != "blackhole":
                    link.server.sendall(request)
            link.shut()

    def _pump_replies(self, link: _Link) -> None:
        with contextlib.suppress(OSError), link.server:
            while reply := link.server.recv(1 << 16):
                if link.mode == "drop_reply":
                    break
                if link.mode == "truncate":
                    link.client.sendall(reply[: len(reply) // 2])
                    break
                if link.mode == "silent":
                    continue
                if link.mode == "delay":
                    self._closed.wait(self.delay_s)
                link.client.sendall(reply)
        link.shut()
