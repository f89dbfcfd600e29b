"""Fixtures of the whole suite. The session's server is started by tests.plugin."""

from __future__ import annotations

import os
import uuid
from functools import partial
from typing import TYPE_CHECKING

import hypothesis
import pytest
from django.conf import settings

from tests.monitoring import record
from tests.plugin import SERVER, WHY_NO_SERVER
from tests.proxy import Proxy
from tests.servers import Server, start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    import redis

    from tests.monitoring import Recording

hypothesis.settings.register_profile("default", deadline=None, max_examples=50)
hypothesis.settings.register_profile("nightly", deadline=None, max_examples=2_000)
hypothesis.settings.load_profile("nightly" if os.environ.get("EMQ_TEST_NIGHTLY") else "default")


@pytest.fixture(scope="session")
def server(pytestconfig: pytest.Config) -> Server:
    """The session's own server; without one the test is skipped (CI does not get this far)."""
    running = pytestconfig.stash.get(SERVER, None)
    if running is None:
        pytest.skip(pytestconfig.stash[WHY_NO_SERVER])
    return running


@pytest.fixture(autouse=True)
def _server_if_marked(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("server") is not None:
        request.getfixturevalue("server")


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """Keep the database's name: each session, also an xdist worker, has its own folder."""


@pytest.fixture
def redis_client(server: Server) -> Iterator[redis.Redis]:
    """A client of the session's server: bytes replies, each command sent once."""
    with server.client() as client:
        yield client


@pytest.fixture
def queue(redis_client: redis.Redis) -> Iterator[str]:
    """A queue name of this test alone; its keys are removed afterwards."""
    name = f"q{uuid.uuid4().hex[:12]}"
    yield name
    pattern = f"emq:{{{settings.EMQ['QUEUE_PREFIX']}{name}*}}:*"
    if keys := list(redis_client.scan_iter(match=pattern, count=1_000)):
        redis_client.delete(*keys)


@pytest.fixture
def fresh_server(server: Server) -> Iterator[Callable[..., Server]]:
    """Start further servers for one test: `fresh_server("--maxmemory", "3mb", appendonly=True)`."""
    started: list[Server] = []

    def start(*args: str, appendonly: bool = False, port: int | None = None) -> Server:
        fresh = start_server(*args, binary=str(server.binary), appendonly=appendonly, port=port)
        started.append(fresh)
        return fresh

    yield start
    for fresh in started:
        fresh.close()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """A relay to the session's server that can break the exchange; see tests/proxy.py."""
    relay = Proxy(server.port)
    yield relay
    relay.close()


@pytest.fixture
def monitor(server: Server) -> Callable[[], AbstractContextManager[Recording]]:
    """`with monitor() as recording: ...`, then `recording.commands` is what clients sent."""
    return partial(record, server)
