"""C123: a cache in a database of its own can be cleared, and one that shares it is told about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.core.cache import caches
from django.test import override_settings

from emq_django.api import enqueue_many
from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import read
from tests.django.test_checks import check

if TYPE_CHECKING:
    from tests.servers import Server


def test_clearing_a_cache_in_another_database_leaves_the_jobs(queue: str, server: Server) -> None:
    cache = {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": server.url.removesuffix("0") + "1",
    }
    with override_settings(CACHES={**settings.CACHES, "default": cache}):
        enqueue_many(queue, [b"x"] * 3)
        caches["default"].set("a", 1)
        caches["default"].clear()
        assert caches["default"].get("a") is None

        assert wire_for(keys(queue)).run(read.counts(keys(queue))).pending == 3


def test_an_alias_that_shares_the_database_is_told_about() -> None:
    found, text = check("shared")

    assert found == {"W001": 1}
    assert "caches['default'].clear()" in text
