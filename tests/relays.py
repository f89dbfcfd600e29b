"""Relays on a port of their own: one speaks TLS to its clients, one alters what the server says."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from emq_django.embedded import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FOLDER = Path(__file__).parent / "certificates"
AUTHORITY = _FOLDER / "authority.pem"
IDENTITY = _FOLDER / "localhost.pem"


@contextlib.contextmanager
def tls_relay(target_port: int) -> Iterator[int]:
    """Relay connections to `target_port` while the block runs; yields the TLS port.

    Clients have to show the test certificate as well, so that key files are put to the proof.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(IDENTITY)
    context.load_verify_locations(AUTHORITY)
    context.verify_mode = ssl.CERT_REQUIRED
    with _relay(target_port, partial(context.wrap_socket, server_side=True), bytes) as port:
        yield port


@contextlib.contextmanager
def relay(target_port: int, alter: Callable[[bytes], bytes]) -> Iterator[int]:
    """Relay connections to `target_port`; `alter` gets each part of a reply, of the same length."""
    with _relay(target_port, lambda plain: plain, alter) as port:
        yield port


@contextlib.contextmanager
def _relay(
    target_port: int,
    wrap: Callable[[socket.socket], socket.socket],
    alter: Callable[[bytes], bytes],
) -> Iterator[int]:
    threads: list[threading.Thread] = []
    with socket.create_server((LOOPBACK, 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    plain, _ = listener.accept()
                except OSError:
                    return
                thread = threading.Thread(target=_serve, args=(plain, wrap, alter, target_port))
                threads.append(thread)
                thread.start()

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            for thread in threads:
                thread.join()


def _serve(
    plain: socket.socket,
    wrap: Callable[[socket.socket], socket.socket],
    alter: Callable[[bytes], bytes],
    target_port: int,
) -> None:
    """Relay one connection: request, reply, request; that is all that a client here does."""
    with (
        plain,
        contextlib.suppress(OSError),
        wrap(plain) as client,
        socket.create_connection((LOOPBACK, target_port)) as server,
    ):
        back = threading.Thread(target=_pump, args=(server, client, alter))
        back.start()
        _pump(client, server, bytes)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        back.join()


def _pump(source: socket.socket, sink: socket.socket, alter: Callable[[bytes], bytes]) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(1 << 16):
            sink.sendall(alter(part))
