"""C121: what keeps two projects on one server apart: a database of their own, or a prefix."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import redis

    from tests.servers import Server

JOBS = 200
PREFIX = os.environ["EMQ_TEST_PREFIX"]  # the suite's own

# One project: fills its queue with jobs of its own name, or drains it and counts whose they were.
PROJECT = """
import sys
import django
from django.conf import settings
name, url, prefix, queue, verb, jobs = sys.argv[1:]
settings.configure(
    INSTALLED_APPS=["emq_django"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": url}},
    EMQ={"QUEUE_PREFIX": prefix},
)
django.setup()
from emq_django import claim, complete, enqueue_many
if verb == "fill":
    enqueue_many(queue, [name.encode()] * int(jobs))
else:
    found = []
    while job := claim(queue):
        found.append(job.payload)
        complete(job)
    print(len(found), found.count(name.encode()))
"""


def project(name: str, url: str, prefix: str, queue: str, verb: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROJECT, name, url, prefix, queue, verb, str(JOBS)],
        capture_output=True,
        text=True,
        check=False,
        env={key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("apart", ["databases", "prefixes"])
def test_c121_no_job_crosses(
    apart: str, server: Server, redis_client: redis.Redis, queue: str
) -> None:
    base = PREFIX
    urls = dict.fromkeys("ab", server.url)
    prefixes = dict.fromkeys("ab", base)
    if apart == "databases":
        urls["b"] = urls["b"].replace("/0", "/1")
    else:
        prefixes = {name: f"{base}{queue}{name}-" for name in "ab"}

    for name in "ab":
        project(name, urls[name], prefixes[name], queue, "fill")
    drained = {name: project(name, urls[name], prefixes[name], queue, "drain") for name in "ab"}

    assert drained == dict.fromkeys("ab", f"{JOBS} {JOBS}")
    if found := list(redis_client.scan_iter(match=f"emq:{{{base}{queue}*")):
        redis_client.delete(*found)


@pytest.mark.slow
def test_c121_one_database_and_one_name_are_one_queue(server: Server, queue: str) -> None:
    project("a", server.url, PREFIX, queue, "fill")

    assert project("b", server.url, PREFIX, queue, "drain") == f"{JOBS} 0"
