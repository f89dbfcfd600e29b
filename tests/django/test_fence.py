"""The version fence: read on each new connection, claimed only when told to, never overwritten."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from emq_django import aenqueue, claim, enqueue
from emq_django.conf import SettingsError, conf
from emq_django.connections import close_all
from emq_django.errors import FenceRefused
from emq_django.protocol.keyspace import VERSION_KEY
from emq_django.protocol.records import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis
    from pytest_django.fixtures import Settings

    from tests.servers import Server


@pytest.fixture
def store(settings: Settings, fresh_server: Callable[..., Server]) -> Iterator[redis.Redis]:
    """A client of an empty server that the settings name."""
    server = fresh_server()
    settings.EMQ = {"CONNECTION": server.url}
    with server.client() as client:
        yield client


@pytest.mark.parametrize("value", ["echomq:4.0.0", "echomq:2.4.2", "echomq:3", "other", "\xff"])
def test_another_major_is_refused_by_name(store: redis.Redis, value: str) -> None:
    store.set(VERSION_KEY, value.encode("latin-1"))

    with pytest.raises(FenceRefused, match="echomq:3"):
        enqueue("q", b"x")

    assert store.dbsize() == 1


async def _aenqueue() -> None:
    await aenqueue("q", b"x")


def test_the_asyncio_client_is_refused_as_well(store: redis.Redis) -> None:
    store.set(VERSION_KEY, "echomq:4.0.0")

    with pytest.raises(FenceRefused, match=r"echomq:4\.0\.0"):
        asyncio.run(_aenqueue())


@pytest.mark.parametrize("value", ["echomq:3.0.0", "echomq:3.17.2"])
def test_each_version_of_our_major_is_welcome(store: redis.Redis, value: str) -> None:
    store.set(VERSION_KEY, value)

    assert enqueue("q", b"x").verdict is Verdict.ENQUEUED
    assert store.get(VERSION_KEY) == value.encode()


def test_an_absent_version_is_left_absent(store: redis.Redis) -> None:
    enqueue("q", b"x")

    assert claim("q") is not None
    assert store.get(VERSION_KEY) is None


def test_a_claim_writes_an_absent_version_once(store: redis.Redis, settings: Settings) -> None:
    settings.EMQ = {**settings.EMQ, "FENCE": {"CLAIM": "echomq:3.0.0"}}
    enqueue("q", b"x")
    assert store.get(VERSION_KEY) == b"echomq:3.0.0"

    settings.EMQ = {**settings.EMQ, "FENCE": {"CLAIM": "echomq:3.9.9"}}
    enqueue("q", b"x")
    assert store.get(VERSION_KEY) == b"echomq:3.0.0"


def test_a_reconnect_reads_the_fence_again(store: redis.Redis) -> None:
    enqueue("q", b"x")
    store.set(VERSION_KEY, "echomq:4.0.0")
    assert enqueue("q", b"x").verdict is Verdict.ENQUEUED  # the connection stands

    close_all()

    with pytest.raises(FenceRefused):
        enqueue("q", b"x")


@pytest.mark.parametrize("value", ["echomq:4.0.0", "3.0.0", 3, True])
def test_only_a_version_of_our_major_can_be_claimed(settings: Settings, value: object) -> None:
    settings.EMQ = {"FENCE": {"CLAIM": value}}

    with pytest.raises(SettingsError, match="CLAIM"):
        conf()
