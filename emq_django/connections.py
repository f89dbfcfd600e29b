"""The process's wires: which client runs the Calls of a queue. Built once, rebuilt on a change.

Where a server is and what a connection to it needs is decided in ``addresses``; how a target
becomes a client in ``dialing``. Threads share one client per server; asyncio has one per running
loop, because a connection belongs to the loop that opened it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from emq_django.addresses import address_of, addresses_of, resolve
from emq_django.conf import conf
from emq_django.dialing import NO_MANNERS, Manners, async_client_of, client_of
from emq_django.targets import Address, Route, Target
from emq_django.wire import fence
from emq_django.wire.aio import AsyncWire
from emq_django.wire.hearing import HearingClient
from emq_django.wire.replies import error_for
from emq_django.wire.sync import Wire

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from emq_django.wire.client import Command, Connection

__all__ = [
    "Address", "address_of", "addresses_of", "admin_wire_for", "async_wire_for", "behave",
    "close_all", "hearing_clients", "reset", "wire_for",
]  # fmt: skip

W = TypeVar("W")

# Who waits for a server meanwhile looks after nothing else.
_HEARING_TIMEOUT_S: Final = 0.5


class _Wires(Generic[W]):
    """One wire per server of a route, made when a queue first needs it."""

    def __init__(self, route: Route, make: Callable[[Target], tuple[Any, W]]) -> None:
        self._route = route
        self._make = make
        self._made: dict[int, W] = {}
        self._lock = threading.Lock()
        self.clients: list[Any] = []

    def of(self, queue: Queue) -> W:
        index = self._route.index(queue) if self._route.shard_of else 0
        try:
            return self._made[index]
        except KeyError:
            return self._add(index)

    def unlock(self) -> None:
        """Replace a lock that another thread held while the process forked."""
        self._lock = threading.Lock()

    def _add(self, index: int) -> W:
        with self._lock:
            if index not in self._made:
                client, wire = self._make(self._route.targets[index])
                self.clients.append(client)
                self._made[index] = wire
            return self._made[index]


class _LoopWires:
    """A loop's wires and the generator that closes them when the loop shuts down."""

    def __init__(
        self,
        wires: _Wires[AsyncWire],
        keeper: AsyncGenerator[None, None],
        before: _LoopWires | None,
    ) -> None:
        self.wires = wires
        self.stale = False
        self._kept = (keeper, before)  # a task may still use what a changed setting replaced


_manners = NO_MANNERS
_lock = threading.Lock()
_shared: _Wires[Wire] | None = None
_admin: _Wires[Wire] | None = None
_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopWires] = WeakKeyDictionary()


def wire_for(queue: Queue) -> Wire:
    """Return the process's wire to the server that holds ``queue``. Raises SettingsError."""
    return (_shared or _build_shared()).of(queue)


def admin_wire_for(queue: Queue) -> Wire:
    """Return the admin's wire: short timeouts, so that a page never waits for a dead server."""
    return (_admin or _build_admin()).of(queue)


def async_wire_for(queue: Queue) -> AsyncWire:
    """Return the running loop's wire to the server that holds ``queue``. Raises SettingsError."""
    loop = asyncio.get_running_loop()
    entry = _loops.get(loop)
    if entry is None or entry.stale:
        entry = _build_for_loop(loop)
    return entry.wires.of(queue)


def behave(manners: Manners) -> None:
    """Greet all of this process's further connections so: a worker's, which can be killed."""
    global _manners
    close_all()
    _manners = manners


def hearing_clients(
    queues: Sequence[Queue], *, of_reads: bool = False
) -> list[tuple[HearingClient, list[Queue]]]:
    """Return a client that hears of changes for each server, with the queues that it holds.

    ``of_reads``: it hears of the next change of what is read on it, and counts as no tree. Of a
    cluster the nodes as they are now: ask again when one no longer holds its queues. Raises
    WireError where only the server can tell, and it is away.
    """
    route = resolve(conf().connection)
    held: dict[Callable[[], Connection], list[Queue]] = {}
    for index, target in enumerate(route.targets):
        client = client_of(target.within(_HEARING_TIMEOUT_S, _HEARING_TIMEOUT_S))
        try:
            for queue in queues:
                if route.index(queue) == index:
                    held.setdefault(client.connector(queue.base), []).append(queue)
        except Exception as exc:
            raise error_for(exc) from exc
        finally:
            client.close()
    make = _hearing_of_reads if of_reads else _hearing
    return [(make(connect, queues), queues) for connect, queues in held.items()]


def close_all() -> None:
    """Close the process's connections; the next use opens new ones.

    A loop's own are closed when the loop shuts down, since only it may close them.
    """
    global _shared, _admin
    with _lock:
        before, _shared, _admin = (_shared, _admin), None, None
        for entry in _loops.values():
            entry.stale = True
    for wires in before:
        for client in wires.clients if wires else ():
            client.close()


def reset(*, setting: str, **_: object) -> None:
    """Rebuild everything when a test overrides a setting (receiver of setting_changed)."""
    if setting in {"EMQ", "CACHES", "TASKS"}:
        close_all()


def _build_shared() -> _Wires[Wire]:
    global _shared
    with _lock:
        if _shared is None:
            _shared = _Wires(resolve(conf().connection), _made_wire)
        return _shared


def _build_admin() -> _Wires[Wire]:
    global _admin
    limits = conf().admin
    with _lock:
        if _admin is None:
            route = resolve(conf().connection)
            targets = tuple(
                target.within(limits.connect_timeout_s, limits.read_timeout_s)
                for target in route.targets
            )
            _admin = _Wires(replace(route, targets=targets), _made_wire)
        return _admin


def _build_for_loop(loop: asyncio.AbstractEventLoop) -> _LoopWires:
    wires = _Wires(resolve(conf().connection), _made_async_wire)
    keeper = _close_at_shutdown(loop, wires)
    # Runs up to the yield and so tells the loop about the generator, without awaiting anything.
    with contextlib.suppress(StopIteration):
        keeper.__anext__().send(None)
    with _lock:
        entry = _LoopWires(wires, keeper, _loops.get(loop))
        for other in [other for other in _loops if other.is_closed()]:
            del _loops[other]  # closed without shutdown_asyncgens: nobody else will
        _loops[loop] = entry
    return entry


async def _close_at_shutdown(
    loop: asyncio.AbstractEventLoop, wires: _Wires[AsyncWire]
) -> AsyncGenerator[None, None]:
    """Close the loop's connections when ``loop.shutdown_asyncgens()`` closes this generator.

    asyncio.run, asyncio.Runner, async_to_sync and test runners all call it; a loop has no other
    hook for what belongs to it.
    """
    try:
        yield
    finally:
        with _lock:
            if (entry := _loops.get(loop)) and entry.wires is wires:
                del _loops[loop]
        for client in wires.clients:
            await client.close()


def _hearing(connect: Callable[[], Connection], queues: Sequence[Queue]) -> HearingClient:
    keys = [key for queue in queues for key in queue.claimable_keys]
    return HearingClient(connect, keys, [queue.trees for queue in queues], _HEARING_TIMEOUT_S)


def _hearing_of_reads(connect: Callable[[], Connection], _queues: Sequence[Queue]) -> HearingClient:
    return HearingClient(connect, (), timeout_s=_HEARING_TIMEOUT_S)


def _fenced() -> Manners:
    """Return this process's manners, with the version fence before them."""
    claim, after = conf().fence.claim, _manners

    def greet() -> Generator[Command, Any, int | None]:
        yield from fence.greeting(claim)
        return (yield from after.greet())

    return replace(after, greet=greet)


def _made_wire(target: Target) -> tuple[Any, Wire]:
    client = client_of(target, _fenced())
    return client, Wire(client, wire=conf().wire)


def _made_async_wire(target: Target) -> tuple[Any, AsyncWire]:
    client = async_client_of(target, _fenced())
    return client, AsyncWire(client, wire=conf().wire)


def _after_fork_in_child() -> None:
    """Renew the locks: the thread that held one in the parent does not exist here.

    Sockets are the clients' business: each notices the fork and opens its own.
    """
    global _lock
    _lock = threading.Lock()
    for wires in (_shared, _admin):
        if wires is not None:
            wires.unlock()


os.register_at_fork(after_in_child=_after_fork_in_child)
