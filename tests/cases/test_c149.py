"""C149: pages and actions cost the same whatever stands in a queue.

600 workers, 200 queues: tests/django/test_admin_operations and test_admin_pages. A million jobs,
with times beside django-rq: python -m tests.bench.admin_pages.
"""

from __future__ import annotations

import os
import resource
import time
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry

from emq_django.admin.tokens import once_token
from emq_django.protocol.ids import mint
from tests.bench.admin_pages import FILL
from tests.django.conftest import job_url, queue_url, text_of
from tests.django.test_admin_pages import with_server

if TYPE_CHECKING:
    from django.test import Client

    from tests.django.conftest import Jobs
    from tests.proxy import Proxy

NIGHTLY = bool(os.environ.get("EMQ_TEST_NIGHTLY"))
PENDING, DEAD = (1_000_000, 100_000) if NIGHTLY else (60_000, 12_000)
GROWTH_KB = 50 * 1024


def fill(jobs: Jobs, which: str, attempts: str, count: int) -> list[str]:
    script, ids = jobs.redis.register_script(FILL), mint.many(count)
    for start in range(0, count, 5_000):
        part = ids[start : start + 5_000]
        script(keys=[jobs.keys.base], args=[which, which, attempts, *part])
    return ids


def drop(jobs: Jobs) -> None:
    for key in jobs.redis.scan_iter(jobs.keys.base + b"*", count=10_000):
        jobs.redis.unlink(key)


@pytest.mark.slow
def test_each_page_is_a_few_trips_and_actions_go_in_bounded_steps(
    jobs: Jobs, root: Client, proxy: Proxy
) -> None:
    ids = fill(jobs, "pending", "0", PENDING)
    dead = fill(jobs, "dead", "5", DEAD)
    queue, middle = jobs.name, len(ids) // 2
    pages = {
        "first": queue_url(queue),
        "middle": queue_url(queue, f"?after={ids[middle]}"),
        "last": queue_url(queue, f"?after={ids[-51]}"),
        "newest first": queue_url(queue, "?order=last"),
        "by id": queue_url(queue, f"?q={ids[middle][:11]}"),
        "search": queue_url(queue, "?tab=dead&text=no+such+user"),
        "job": job_url(queue, ids[middle]),
        "retry all": queue_url(queue, "?tab=dead"),
    }
    try:
        with with_server(proxy.url, queue):
            root.get(pages["first"])
            before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for name, url in pages.items():
                trips = len(proxy.seen)
                answer = (
                    root.post(url, {"action": "retry_all"})
                    if name == "retry all"
                    else root.get(url)
                )
                assert answer.status_code == 200, name
                assert len(proxy.seen) - trips <= 10, name
                assert len(answer.content) < 250_000, name
            assert ids[middle + 1] in text_of(root.get(pages["middle"]))
            requests = retry_all(root, pages["retry all"])
        after_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert after_kb - before_kb < GROWTH_KB
        assert max(requests) < 30
        assert jobs.redis.zcard(jobs.keys.dead) == 0
        assert jobs.redis.zcard(jobs.keys.pending) == PENDING + len(dead)
        assert LogEntry.objects.count() == 1
    finally:
        drop(jobs)


def retry_all(client: Client, url: str) -> list[float]:
    """Retry all dead jobs; return how many seconds each request took."""
    took: list[float] = []

    def post(where: str, form: dict[str, str]) -> Any:
        began = time.monotonic()
        answer = client.post(where, form)
        took.append(time.monotonic() - began)
        return answer

    answer = post(url, {"action": "retry_all", "confirmed": "1", "once": once_token()})
    while "/walk/" in answer["Location"]:
        where, _, state = answer["Location"].partition("?state=")
        answer = post(where, {"state": state.replace("%3A", ":"), "continue": "1"})
    return took
