"""Which connections of the server are a worker's: so that one that was lost can be killed there.

The command of a client that is gone may still run from the server's socket buffer. Only killing
the connection by its number makes sure that nothing more comes from it. Numbers begin anew when
the server does, so a connection is killed only when it also bears the worker's name.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final

from redis.exceptions import ResponseError

from emq_django.errors import AccessRefused, WireError
from emq_django.wire.client import Client, Command
from emq_django.wire.replies import error_for

_MOST_LOST: Final = 64  # of the last lost connections; a server has closed older ones by now

_ENTRY = re.compile(rb"^id=(\d+) .*? name=(\S*) ", re.MULTILINE)


class Roster:
    """The numbers of a process's open connections, and of those it lost in the middle of a call.

    ``opened`` and ``closed`` are told each number, to keep it where another process can read it.
    """

    def __init__(
        self,
        incarnation: str,
        opened: Callable[[int], None] = lambda _: None,
        closed: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._name = name_of(incarnation)
        self._opened = opened
        self._closed = closed
        self._lost: deque[int] = deque(maxlen=_MOST_LOST)

    def greet(self) -> Generator[Command, Any, int | None]:
        """Name a new connection and learn its number; a server that refuses is left in peace."""
        try:
            yield ("CLIENT", "SETNAME", self._name)
            number = int((yield ("CLIENT", "ID")))
        except ResponseError:
            return None
        self._opened(number)
        return number

    def left(self, number: int, in_call: bool) -> None:
        """Note that a connection is closed; ``in_call``: before its reply had come."""
        if in_call:
            self._lost.append(number)
        self._closed(number)

    def kill_lost(self, client: Client, key: bytes) -> None:
        """Have the server that holds ``key`` kill the lost connections that it still has."""
        kill(client, key, self._name, list(self._lost))


def name_of(incarnation: str) -> str:
    """Return the name that a worker's connections bear on the server."""
    return f"emq-{incarnation}"


def kill(client: Client, key: bytes, name: str, numbers: Iterable[int]) -> None:
    """Have the server kill these connections where they bear ``name``.

    A server that refuses is left in peace: what is fenced by tokens does without. Raises WireError
    when it can't be asked.
    """
    wanted = sorted(set(numbers))
    if not wanted:
        return
    try:
        _kill(client, key, name, wanted)
    except Exception as exc:
        error = error_for(exc)
        if isinstance(error, WireError) and not isinstance(error, AccessRefused):
            raise error from exc


def _kill(client: Client, key: bytes, name: str, wanted: Sequence[int]) -> None:
    listed = client.execute(("CLIENT", "LIST", "ID", *wanted), key)
    raw = listed.encode() if isinstance(listed, str) else bytes(listed)
    ours = [int(number) for number, of in _ENTRY.findall(raw) if of == name.encode()]
    if ours:
        client.execute_many([("CLIENT", "KILL", "ID", number) for number in ours], key)
