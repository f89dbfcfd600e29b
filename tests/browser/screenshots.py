"""Takes the reference pictures of the admin's pages in docs/screenshots.

    python -m tests.browser.screenshots FOLDER [language]

Each page at 1280 and 390 pixels, light and dark, on data of its own. Look at them beside the stock
admin after a change of template or style.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from random import Random
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import django

from tests.browser.conftest import BROWSER, DRIVER, FLAGS
from tests.servers import Server, start_server

LANES = ("USR0123456789a", "USR0123456789b", "USR0123456789c")
QUEUE = "emails"


def main(folder: str, language: str = "en") -> None:
    server = start_server()
    _configure(server)
    from django.core.wsgi import get_wsgi_application

    pages, session = _fill(server)
    site = make_server("127.0.0.1", 0, _with_static(get_wsgi_application()), WSGIServer, _Quiet)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    browser = _browser(f"http://127.0.0.1:{site.server_port}", session, language)
    Path(folder).mkdir(parents=True, exist_ok=True)
    try:
        for name, (path, button) in pages.items():
            for width in (1280, 390):
                for scheme in ("light", "dark"):
                    _look(browser, width, scheme)
                    browser.get(f"http://127.0.0.1:{site.server_port}{path}")
                    if button:
                        browser.find_element("css selector", f"[value={button}]").click()
                    _save(browser, width, Path(folder) / f"{name}-{width}-{scheme}.png")
    finally:
        browser.quit()
        site.shutdown()
        server.close()


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _configure(server: Server) -> None:
    os.environ["EMQ_TEST_URL"] = server.url
    os.environ["EMQ_TEST_DIR"] = tempfile.mkdtemp()
    os.environ["EMQ_TEST_PREFIX"] = ""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    from django.conf import settings

    tick = {"TASK": "tests.timetable.zoo.tick", "QUEUE": QUEUE}
    settings.DEBUG = True
    settings.TIME_ZONE = "Europe/Berlin"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    settings.TASKS = {"default": {"BACKEND": "emq_django.task_backend.EmqBackend", "QUEUES": []}}
    settings.EMQ = {
        **settings.EMQ,
        "QUEUES": {QUEUE: {}, "reports": {}, "imports": {}},
        "PERIODIC": {
            "nightly sweep": {**tick, "CRON": "30 3 * * *"},
            "poll": {**tick, "EVERY_S": 300},
        },
        "TASK_MODULES": ["tests.timetable.zoo"],
    }
    django.setup()


def _fill(server: Server) -> tuple[dict[str, tuple[str, str]], str]:
    """Put something into every list; return the pages and the session of an operator."""
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client

    from emq_django.conf import keys
    from emq_django.connections import wire_for
    from emq_django.protocol import claim, enqueue, lanes, metrics, operate, workers
    from emq_django.protocol.ids import mint

    call_command("migrate", verbosity=0)
    client = Client()
    client.force_login(User.objects.create_superuser("ada"))
    queue, redis, chance = keys(QUEUE), server.client(), Random(3)

    def run(call: Any) -> Any:
        return wire_for(queue).run(call)

    def task(name: str, **kwargs: object) -> bytes:
        fields = {"v": 1, "task": f"shop.tasks.{name}", "args": [], "kwargs": kwargs}
        return json.dumps(fields, separators=(",", ":")).encode()

    for number in range(14):
        payload = task("send_receipt", order=4_711 + number, to="ann@example.com", api_key="k")
        run(enqueue.enqueue(queue, mint.one(), payload))
    held = [run(claim.claim(queue, 95_000 + 7_000 * number)) for number in range(5)]
    redis.zadd(queue.active, {held[4].id: time.time() * 1_000 - 4_000})
    for number in range(6):
        due_ms = 60_000 * (1 + number**2 * 20)
        run(enqueue.enqueue_in(queue, mint.one(), task("remind", user=number), due_ms))
    errors = (
        "ConnectionError: stock.example.com: Max retries exceeded",
        "ValueError: no such user",
    )
    for number in range(7):
        job_id, payload = mint.one(), task("sync_stock", sku=f"A-{number}", password="p")
        row = {"state": "dead", "attempts": 5, "failures": 5, "last_error": errors[number % 2]}
        redis.hset(queue.row(job_id), mapping=row)  # type: ignore[arg-type]
        redis.hset(queue.row(job_id), "payload", payload)
        died_ms = int(time.time() * 1_000) - 460_000 - 71_000 * number
        redis.hset(queue.row(job_id), "died", f"{died_ms}:5")
        redis.zadd(queue.dead, {job_id: 0})
    redis.rpush(queue.row(job_id) + b":logs", "connecting to stock.example.com token=abc")
    edited = mint.one()
    run(enqueue.enqueue_in(queue, edited, task("remind", user=4_711, days=3), 3_600_000))
    for lane, count in zip(LANES, (9, 3, 1), strict=True):
        for number in range(count):
            run(enqueue.enqueue_lane(queue, mint.one(), task("export", part=number), lane))
    run(lanes.pause_lane(queue, LANES[2]))
    run(lanes.limit_lane(queue, LANES[0], 2))
    run(operate.pause(keys("imports")))
    for ago in range(58, -1, -1):
        seen = metrics.Figures(completed=chance.randint(5, 40), failed=chance.choice((0, 0, 0, 2)))
        for _ in range(seen.completed):
            seen.run.add(chance.lognormvariate(5.5, 1))
            seen.wait.add(chance.lognormvariate(4, 1.5))
        run(metrics.flush(queue, seen, ago * 60_000))
    _note_depths(redis, queue, chance)
    facts = workers.Facts(
        incarnation="w1", prefix="", host="web-1", pid=4_242, version="1.0",
        queues=(QUEUE, "reports"), concurrency=8, processes=2, beat_ms=600_000,
    )  # fmt: skip
    run(workers.beat(facts, [workers.Busy(QUEUE, job.id) for job in held[:2]], 3_600_000))
    base, dead = "/admin/emq_django/queue/", f"/admin/emq_django/queue/{QUEUE}/change/?tab=dead"
    return {
        "queues": (base, ""),
        "dead": (dead + "&text=ValueError", ""),
        "pending": (f"{base}{QUEUE}/change/", ""),
        "job": (f"/admin/emq_django/job/{QUEUE}_2F{job_id}/change/", ""),
        "edit": (f"/admin/emq_django/job/{QUEUE}_2F{edited}/edit/", ""),
        "lanes": (f"{base}{QUEUE}/change/?tab=lanes", ""),
        "confirm": (dead, "delete_all"),
        "figures": (f"{base}{QUEUE}/metrics/", ""),
        "workers": (f"{base}workers/", ""),
        "periodic": (f"{base}periodic/", ""),
    }, client.cookies["sessionid"].value


def _note_depths(redis: Any, queue: Any, chance: Random) -> None:
    """A backlog that grew and was worked off, noted as in an hour's minutes."""
    now, waiting = int(time.time()) // 60, 40
    for minute in range(now - 58, now + 1):
        waiting = max(waiting + (chance.randint(-10, 60) if minute < now - 30 else -38), 22)
        text = f"{waiting} 0 {min(waiting, 8)} 6 7"
        redis.hset(queue.base + b"dj:depths:%d" % (minute // 60), minute % 60, text)


def _with_static(application: Any) -> Any:
    from django.contrib.staticfiles.handlers import StaticFilesHandler

    return StaticFilesHandler(application)


def _browser(site: str, session: str, language: str) -> Any:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--accept-lang={language}"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=Service(DRIVER))
    browser.get(f"{site}/admin/login/")
    browser.add_cookie({"name": "sessionid", "value": session})
    return browser


def _look(browser: Any, width: int, scheme: str) -> None:
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    _resize(browser, width, 800)


def _resize(browser: Any, width: int, height: int) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def _save(browser: Any, width: int, path: Path) -> None:
    height = browser.execute_script("return document.documentElement.scrollHeight")
    _resize(browser, width, min(max(height, 500), 1_300))
    browser.save_screenshot(str(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
