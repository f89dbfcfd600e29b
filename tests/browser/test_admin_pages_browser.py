"""Every page of the admin in a real browser: axe, both schemes, right to left, narrow; acting."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from emq_django.admin import bulk
from emq_django.protocol import enqueue, lanes, metrics, workers
from emq_django.protocol.ids import mint
from tests.browser.test_admin_browser import STRICT, complaints
from tests.browser.waits import wait_until
from tests.django.conftest import Jobs, job_url, overview_url, queue_url
from tests.django.test_admin_bulk import bury_many
from tests.django.test_admin_operations import figures
from tests.task_backend.conftest import TASKS

if TYPE_CHECKING:
    import redis
    from pytest_django import Settings
    from pytest_django.live_server_helper import LiveServer
    from selenium.webdriver import Chrome

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.django_db(transaction=True),
]

AXE = resources.files("axe_core_python").joinpath("axe.min.js")
# The frame of a page is Django's own: its findings are not ours to mend.
RUN_AXE = """
const done = arguments[arguments.length - 1];
axe.run({include: [['#content']]}, {resultTypes: ['violations']}).then(
  (found) => done(found.violations.map((one) => [one.id, one.nodes.map((node) => node.html)])),
  (error) => done([["failed", String(error)]]));
"""
LANE = "USR0123456789a"
LOOKS = [
    "light",
    "dark",
    pytest.param("right to left", marks=pytest.mark.nightly),
    pytest.param("narrow", marks=pytest.mark.nightly),
]


@pytest.fixture
def jobs(queue: str, redis_client: redis.Redis, settings: Settings) -> Iterator[Jobs]:
    """A queue with something in every list, a worker, figures and a timetable."""
    tick = {"TASK": "tests.timetable.zoo.tick", "EVERY_S": 3_600, "QUEUE": queue}
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, STRICT]
    settings.TASKS = TASKS
    settings.EMQ = {
        **settings.EMQ,
        "QUEUES": {queue: {}},
        "PERIODIC": {"tick": tick, "lost": {**tick, "TASK": "no.such"}},
        "TASK_MODULES": ["tests.timetable.zoo"],
    }
    jobs = Jobs(queue, redis_client)
    payload = json.dumps({"v": 1, "task": "shop.tasks.ship", "args": ["x" * 300]}).encode()
    jobs.add(payload)
    jobs.claim()
    for _ in range(3):
        jobs.add(payload)
        jobs.add(payload, lane=LANE)
    jobs.run(lanes.limit_lane(jobs.keys, LANE, 3))
    jobs.run(enqueue.enqueue_in(jobs.keys, mint.one(), payload, 60_000))
    jobs.redis.zadd(jobs.keys.pending, {"JOB00000000000": 0})
    bury_many(jobs, 5, last_error="ConnectionError: " + "y" * 300)
    (ended,) = mint.many(1)
    row = {"state": "completed", "payload": payload, "taken": "1", "finished": "2", "value": "{}"}
    jobs.redis.hset(jobs.keys.row(ended) + b":result", mapping=row)
    jobs.redis.zadd(jobs.keys.base + b"dj:finished", {ended: 1_790_000_000_000})
    jobs.run(metrics.flush(jobs.keys, figures(12, 3), ago_ms=120_000))
    jobs.run(metrics.note_depth(jobs.keys))
    seen = workers.Facts(
        incarnation=queue, prefix=str(settings.EMQ["QUEUE_PREFIX"]), host="web-1", pid=1,
        version="1", queues=(queue,), concurrency=2,
    )  # fmt: skip
    jobs.run(workers.beat(seen, [workers.Busy(queue, ended)], 5_000))
    yield jobs
    jobs.run(workers.gone(queue))


@pytest.fixture
def operator(browser: Chrome, live_server: LiveServer, jobs: Jobs) -> Chrome:
    client = Client()
    client.force_login(User.objects.create_superuser("operator"))
    browser.get(live_server.url + "/admin/login/")
    browser.add_cookie({"name": "sessionid", "value": client.cookies["sessionid"].value})
    complaints(browser)
    return browser


def look(browser: Chrome, how: str, settings: Settings) -> None:
    scheme = "dark" if how == "dark" else "light"
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    narrow = how == "narrow"
    size = {"width": 390 if narrow else 1280, "height": 900, "deviceScaleFactor": 1}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {**size, "mobile": narrow})
    if how == "right to left":
        settings.LANGUAGE_CODE = "ar"


def pages(jobs: Jobs) -> dict[str, str]:
    tabs = ("pending", "active", "schedule", "dead", "finished", "lanes")
    (dead,) = jobs.redis.zrange(jobs.keys.dead, 0, 0)
    found = {tab: queue_url(jobs.name, f"?tab={tab}") for tab in tabs}
    filtered = "?tab=dead&attempts=1&text=Connection&from=2020-01-01T00:00"
    return {
        "overview": overview_url(),
        **found,
        "lane": queue_url(jobs.name, f"?lane={LANE}"),
        "filtered": queue_url(jobs.name, filtered),
        "no hit": queue_url(jobs.name, "?tab=dead&attempts=99"),
        "job": job_url(jobs.name, dead.decode()),
        "gone": job_url(jobs.name, "JOB00000000009"),
        "edit": job_url(jobs.name, dead.decode()).replace("/change/", "/edit/"),
        "metrics": queue_url(jobs.name).replace("/change/", "/metrics/"),
        "workers": reverse("admin:emq_django_queue_workers"),
        "periodic": reverse("admin:emq_django_queue_periodic"),
    }


def check(browser: Chrome, name: str) -> None:
    """No finding of axe, nothing wider than the screen, no word in the console."""
    browser.execute_script(AXE.read_text())
    assert browser.execute_async_script(RUN_AXE) == [], name
    too_wide = "return document.documentElement.scrollWidth - window.innerWidth"
    assert browser.execute_script(too_wide) <= 0, name
    assert complaints(browser) == [], name


@pytest.mark.parametrize("how", LOOKS)
def test_axe_finds_nothing_on_any_page(
    how: str, operator: Chrome, live_server: LiveServer, jobs: Jobs, settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    look(operator, how, settings)

    for name, url in pages(jobs).items():
        operator.get(live_server.url + url)
        check(operator, name)

    operator.get(live_server.url + pages(jobs)["edit"])
    operator.find_element(By.ID, "emq-payload").send_keys(" \n")
    operator.find_element(By.CSS_SELECTOR, "[value=edit]").click()
    operator.find_element(By.CSS_SELECTOR, ".emq-difference")
    check(operator, "what changes")
    operator.get(live_server.url + queue_url(jobs.name, "?tab=dead"))
    operator.find_element(By.CSS_SELECTOR, "[value=delete_all]").click()
    check(operator, "confirm")
    operator.find_element(By.ID, "emq-name").send_keys("another")
    operator.find_element(By.CSS_SELECTOR, "button.default").click()
    check(operator, "confirm again")
    bury_many(jobs, 1_500)
    monkeypatch.setattr(bulk, "STEP_S", 0.0)
    operator.execute_script("window.stop()")
    operator.get(live_server.url + queue_url(jobs.name, "?tab=dead"))
    operator.find_element(By.CSS_SELECTOR, "[value=retry_all]").click()
    operator.find_element(By.CSS_SELECTOR, "button.default").click()
    wait_until(operator, lambda: jobs.redis.zcard(jobs.keys.dead) == 0)
    operator.get(live_server.url + queue_url(jobs.name, "?tab=pending"))
    check(operator, "after a walk")


def test_rows_are_selected_all_at_once_and_by_range(
    operator: Chrome, live_server: LiveServer, jobs: Jobs
) -> None:
    operator.get(live_server.url + queue_url(jobs.name, "?tab=dead"))
    boxes = operator.find_elements(By.CSS_SELECTOR, "input[name=id]")
    everything = operator.find_element(By.CSS_SELECTOR, "[data-emq-all]")

    def chosen() -> list[bool]:
        return [box.is_selected() for box in boxes]

    everything.click()
    assert chosen() == [True] * 5
    assert operator.find_element(By.CSS_SELECTOR, "[data-emq-chosen]").text == "5 selected"
    everything.click()
    boxes[1].click()
    ActionChains(operator).key_down(Keys.SHIFT).click(boxes[3]).key_up(Keys.SHIFT).perform()
    assert chosen() == [False, True, True, True, False]

    operator.find_element(By.CSS_SELECTOR, "[value=retry]").click()

    wait_until(operator, lambda: "3 done" in operator.find_element(By.ID, "main").text)
    assert jobs.redis.zcard(jobs.keys.dead) == 2
    assert complaints(operator) == []


def test_a_double_click_is_one_press(operator: Chrome, live_server: LiveServer, jobs: Jobs) -> None:
    operator.get(live_server.url + reverse("admin:emq_django_queue_periodic"))
    before = jobs.redis.zcard(jobs.keys.pending)

    fire = operator.find_element(By.CSS_SELECTOR, "[value=fire_schedule]")
    ActionChains(operator).double_click(fire).perform()

    wait_until(operator, lambda: "Fire now: tick" in operator.find_element(By.ID, "main").text)
    assert jobs.redis.zcard(jobs.keys.pending) == before + 1
    assert complaints(operator) == []


def test_a_walk_goes_on_by_itself_until_it_is_done(
    operator: Chrome, live_server: LiveServer, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury_many(jobs, 2_500)
    monkeypatch.setattr(bulk, "STEP_S", 0.0)
    operator.get(live_server.url + queue_url(jobs.name, "?tab=dead"))
    operator.find_element(By.CSS_SELECTOR, "[value=retry_all]").click()

    operator.find_element(By.CSS_SELECTOR, "button.default").click()

    wait_until(operator, lambda: "2505 done" in operator.find_element(By.ID, "main").text)
    assert jobs.redis.zcard(jobs.keys.dead) == 0
    assert complaints(operator) == []


def test_everything_works_without_script(
    operator: Chrome, live_server: LiveServer, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury_many(jobs, 1_500)
    monkeypatch.setattr(bulk, "STEP_S", 0.0)
    operator.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    operator.get(live_server.url + queue_url(jobs.name, "?tab=dead"))
    assert not operator.find_element(By.CSS_SELECTOR, "[data-emq-all]").is_displayed()

    operator.find_element(By.CSS_SELECTOR, "input[name=id]").click()
    operator.find_element(By.CSS_SELECTOR, "[value=delete]").click()
    operator.find_element(By.CSS_SELECTOR, "button.default").click()
    wait_until(operator, lambda: "1 done" in operator.find_element(By.ID, "main").text)
    operator.find_element(By.CSS_SELECTOR, "[value=retry_all]").click()
    operator.find_element(By.CSS_SELECTOR, "button.default").click()
    wait_until(operator, lambda: "1000 of 1504" in operator.find_element(By.ID, "main").text)
    operator.find_element(By.CSS_SELECTOR, "[name=continue]").click()

    wait_until(operator, lambda: "1504 done" in operator.find_element(By.ID, "main").text)
    operator.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_every_control_is_reached_by_the_keyboard_and_seen(
    operator: Chrome, live_server: LiveServer, jobs: Jobs
) -> None:
    operator.get(live_server.url + queue_url(jobs.name, "?tab=dead"))
    wanted = set(
        operator.execute_script(
            "return [...document.querySelectorAll('#content-main button')].map((b) => b.value)"
        )
    )
    reached: set[str] = set()
    operator.execute_script("document.querySelector('#content-main').tabIndex = -1")
    operator.execute_script("document.querySelector('#content-main').focus()")

    for _ in range(60):
        ActionChains(operator).send_keys(Keys.TAB).perform()
        value, outline = operator.execute_script(
            "const e = document.activeElement; const s = getComputedStyle(e);"
            "return [e.tagName === 'BUTTON' ? e.value : null,"
            " e === document.body || e.matches(':focus-visible')]"
        )
        assert outline
        if value is not None:
            reached.add(value)

    assert wanted <= reached
