"""C118: a cache that swallows errors swallows none of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.core.cache import caches

from emq_django import claim, complete, enqueue, enqueue_in, enqueue_many, extend, release, retry
from emq_django.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django.fixtures import Settings

    from tests.servers import Server


@pytest.fixture(params=["alias", "global"])
def swallowing(
    request: pytest.FixtureRequest, fresh_server: Callable[..., Server], settings: Settings
) -> Server:
    server = fresh_server()
    options = {"IGNORE_EXCEPTIONS": True, "LOG_IGNORED_EXCEPTIONS": True}
    settings.CACHES = {
        "queue": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": server.url,
            "OPTIONS": options if request.param == "alias" else {},
        }
    }
    settings.DJANGO_REDIS_IGNORE_EXCEPTIONS = request.param == "global"
    settings.EMQ = {**settings.EMQ, "CONNECTION": "queue", "ENQUEUE_DEADLINE_S": 0}
    return server


def test_c118_a_dead_server_is_an_error_in_every_verb(swallowing: Server, queue: str) -> None:
    swallowing.stop()
    caches["queue"].set("a", 1)  # says nothing, which is what the option is for

    for verb in (
        lambda: enqueue(queue, b"x"),
        lambda: enqueue_in(queue, b"x", 10),
        lambda: enqueue_many(queue, [b"x", b"y"]),
        lambda: claim(queue),
    ):
        with pytest.raises(WireError):
            verb()


def test_c118_a_server_that_dies_between_two_calls_is_an_error_in_every_verb(
    swallowing: Server, queue: str
) -> None:
    enqueue(queue, b"x")
    job = claim(queue)
    assert job is not None

    swallowing.kill()

    for verb in (
        lambda: enqueue(queue, b"x"),
        lambda: complete(job),
        lambda: retry(job, error="e", delay_ms=1),
        lambda: release(job),
        lambda: extend(job, lease_ms=1_000),
        lambda: claim(queue),
    ):
        with pytest.raises(WireError):
            verb()
