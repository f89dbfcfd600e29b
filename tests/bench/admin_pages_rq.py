"""The pages of django-rq on as many jobs, run by an interpreter that has it; see admin_pages.

    python admin_pages_rq.py PORT JOBS ROUNDS

Knows nothing of this package. The last line it prints is JSON.
"""

from __future__ import annotations

import importlib.metadata
import json
import statistics
import sys
import time
from typing import Any

import django
from django.conf import settings

COPY = """
local row = redis.call('HGETALL', KEYS[1])
for i = 1, #ARGV do
  redis.call('HSET', 'rq:job:' .. ARGV[i], unpack(row))
  redis.call('RPUSH', KEYS[2], ARGV[i])
end
"""


def main(port: int, jobs: int, rounds: int) -> None:
    settings.configure(
        SECRET_KEY="bench",
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF="admin_pages_rq_urls",
        INSTALLED_APPS=[
            "django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes",
            "django.contrib.sessions", "django.contrib.messages", "django_rq",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                    ]
                },
            }
        ],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        STATIC_URL="/static/",
        USE_TZ=True,
        RQ_QUEUES={"default": {"HOST": "127.0.0.1", "PORT": port, "DB": 0}},
    )  # fmt: skip
    _make_urls()
    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client

    call_command("migrate", verbosity=0)
    client = Client()
    client.force_login(User.objects.create_superuser("bench"))
    import django_rq  # type: ignore[import-not-found]

    queue = django_rq.get_queue("default")
    first = queue.enqueue(time.sleep, 0)
    redis = queue.connection
    script = redis.register_script(COPY)
    ids = [f"{number:036d}" for number in range(jobs - 1)]
    for start in range(0, len(ids), 5_000):
        part = ids[start : start + 5_000]
        script(keys=[f"rq:job:{first.id}", "rq:queue:default"], args=part)
    pages = {"first": 1, "middle": jobs // 200, "last": jobs // 100}
    found: dict[str, Any] = {"version": importlib.metadata.version("django-rq")}
    for name, number in pages.items():
        found[name] = _measure(redis, client, f"/rq/queues/0/?page={number}", rounds)
    sys.stdout.write(json.dumps(found) + "\n")


def _make_urls() -> None:
    import types

    from django.urls import include, path

    class Lazy(types.ModuleType):
        @property
        def urlpatterns(self) -> list[Any]:
            from django.contrib import admin

            return [path("admin/", admin.site.urls), path("rq/", include("django_rq.urls"))]

    sys.modules["admin_pages_rq_urls"] = Lazy("admin_pages_rq_urls")


def _measure(redis: Any, client: Any, url: str, rounds: int) -> list[float]:
    clock: list[float] = []
    server: list[float] = []
    for number in range(rounds + 2):
        if number == 2:
            clock.clear()
            server.clear()
            python_s = time.process_time()
        spent, began = _spent_us(redis), time.perf_counter()
        answer = client.get(url)
        clock.append((time.perf_counter() - began) * 1_000)
        server.append((_spent_us(redis) - spent) / 1_000)
        assert answer.status_code == 200, (url, answer.status_code)
    python_ms = (time.process_time() - python_s) * 1_000 / rounds
    return [statistics.median(clock), min(clock), python_ms, statistics.median(server), min(server)]


def _spent_us(redis: Any) -> float:
    stats = redis.info("commandstats")
    ours = ("info", "eval", "script")  # what this file itself sends
    return float(
        sum(one["usec"] for name, one in stats.items() if not any(word in name for word in ours))
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
