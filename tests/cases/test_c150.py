"""C150: in an outage the overview still shows what can be shown, and other pages never ask.

A queue whose keys are of another type: tests/django/test_admin_pages, for every key.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from django.core.cache import caches
from django.test import override_settings
from django.urls import reverse

from emq_django.conf import keys
from tests import settings as base
from tests.django.conftest import overview_url, queue_url, text_of
from tests.django.test_admin_pages import line_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from tests.django.conftest import Jobs
    from tests.proxy import Mode, Proxy
    from tests.servers import Server


@pytest.mark.parametrize("mode", ["close", "blackhole"])
def test_a_good_queue_stands_beside_a_dead_server_and_a_broken_queue(
    mode: Mode,
    jobs: Jobs,
    root: Client,
    proxy: Proxy,
    server: Server,
    fresh_server: Callable[..., Server],
) -> None:
    good_server = fresh_server()
    shards = {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": [good_server.url, proxy.url],
        "OPTIONS": {"CLIENT_CLASS": "django_redis.client.ShardClient"},
    }
    with override_settings(CACHES={**base.CACHES, "queue": shards}):
        ring = caches["queue"].client  # type: ignore[attr-defined]
        names = [f"{jobs.name}-{number}" for number in range(40)]
        there = [n for n in names if ring.get_server_name(keys(n).base.decode()) == good_server.url]
        good, broken = there[:2]
        lost = next(name for name in names if name not in there)
        with good_server.client() as client:
            client.zadd(keys(good).pending, {"JOB00000000001": 0, "JOB00000000002": 0})
            client.set(keys(broken).pending, "x")
        queues: dict[str, Any] = {name: {} for name in (good, broken, lost)}
        with override_settings(EMQ={**base.EMQ, "QUEUES": queues}):
            root.get(queue_url(good))
            proxy.mode = mode
            proxy.drop_connections()
            began = time.monotonic()
            overview = root.get(overview_url())
            took_s = time.monotonic() - began
            details = {name: root.get(queue_url(name)) for name in queues}

    assert overview.status_code == 200
    assert took_s <= 3
    page = text_of(overview)
    assert line_of(page, good)[0] == "2"
    assert line_of(page, broken) == line_of(page, lost) == []
    assert page.count("holds another type of value") == 1
    assert page.count("The server did not answer.") >= 1
    assert "without 2 queues" in page
    assert all(answer.status_code == 200 for answer in details.values())
    assert "The server did not answer." in text_of(details[lost])
    assert "<dt>Waiting</dt><dd>2</dd>" in text_of(details[good])


@pytest.mark.parametrize("mode", ["close", "blackhole"])
def test_the_index_and_other_apps_work_without_the_server(
    mode: Mode, root: Client, proxy: Proxy
) -> None:
    proxy.mode = mode
    queue_cache = {**base.CACHES["queue"], "LOCATION": proxy.url}
    with override_settings(CACHES={**base.CACHES, "queue": queue_cache}):
        for name in ("index", "auth_user_changelist", "auth_user_add"):
            assert root.get(reverse(f"admin:{name}")).status_code == 200
        assert root.get(reverse("admin:app_list", args=["emq_django"])).status_code == 200

    assert proxy.seen == []
