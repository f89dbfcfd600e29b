"""C120: an alias that keeps no jobs is named by one check and on first use; the rest works."""

from __future__ import annotations

import asyncio
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.cache import caches
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command

from emq_django import aenqueue, enqueue
from emq_django.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_django.fixtures import Settings

BACKENDS = {
    "locmem": "django.core.cache.backends.locmem.LocMemCache",
    "dummy": "django.core.cache.backends.dummy.DummyCache",
    "files": "django.core.cache.backends.filebased.FileBasedCache",
}


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, settings: Settings, tmp_path: Path) -> str:
    path = BACKENDS[request.param]
    settings.CACHES = {"default": {"BACKEND": path, "LOCATION": str(tmp_path)}}
    settings.EMQ = {"CONNECTION": "default"}
    return path


def test_c120_first_use_names_alias_back_end_and_remedy(backend: str) -> None:
    for raised in (ConfigError, ImproperlyConfigured):
        with pytest.raises(raised) as caught:
            enqueue("q", b"x")
        for word in ("'default'", backend, 'EMQ["CONNECTION"]', "django_redis"):
            assert word in str(caught.value)
        with pytest.raises(raised):
            asyncio.run(_aenqueue())


async def _aenqueue() -> Any:
    return await aenqueue("q", b"x")


def test_c120_check_gives_one_message_with_alias_and_hint(backend: str) -> None:
    found = [message for message in run_checks() if str(message.id).startswith("emq.")]

    assert [message.id for message in found] == ["emq.E003"]
    assert "'default'" in found[0].msg
    assert backend in found[0].msg
    assert found[0].hint


@pytest.mark.django_db
def test_c120_migrate_and_the_cache_itself_work(backend: str) -> None:
    call_command("migrate", "--plan", skip_checks=True, stdout=StringIO())
    caches["default"].set("a", 1)


def test_c120_a_missing_alias_is_told_with_the_ones_there_are(settings: Settings) -> None:
    settings.EMQ = {"CONNECTION": "queeu"}

    with pytest.raises(ImproperlyConfigured, match="Did you mean 'queue'"):
        enqueue("q", b"x")
    found = [message for message in run_checks() if str(message.id).startswith("emq.")]
    assert [message.id for message in found] == ["emq.E002"]


def test_c120_djangos_own_redis_cache_is_good_enough(
    server: Any, settings: Settings, queue: str
) -> None:
    settings.CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": server.url,
        }
    }
    settings.EMQ = {**settings.EMQ, "CONNECTION": "default"}

    assert enqueue(queue, b"x").verdict == "enqueued"
