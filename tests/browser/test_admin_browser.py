"""The admin's pages in a real browser, under a policy that allows nothing inline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import redis
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponseBase
from django.test import Client
from selenium.webdriver.common.by import By

from tests.browser.waits import wait_until
from tests.django.conftest import Jobs, job_url, overview_url, queue_url

if TYPE_CHECKING:
    from pytest_django import Settings
    from pytest_django.live_server_helper import LiveServer
    from selenium.webdriver import Chrome

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
]

STRICT = f"{__name__}.strict_policy"


def strict_policy(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware: the same policy on every version of Django."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        response["Content-Security-Policy"] = "default-src 'self'"
        return response

    return middleware


@pytest.fixture
def jobs(queue: str, redis_client: redis.Redis, settings: Settings) -> Jobs:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, STRICT]
    settings.EMQ = {**settings.EMQ, "QUEUES": {queue: {}}}
    return Jobs(queue, redis_client)


@pytest.fixture
def operator(browser: Chrome, live_server: LiveServer, jobs: Jobs) -> Chrome:
    """A browser in which a superuser is logged in."""
    client = Client()
    client.force_login(User.objects.create_superuser("operator"))
    browser.get(live_server.url + "/admin/login/")
    browser.add_cookie({"name": "sessionid", "value": client.cookies["sessionid"].value})
    complaints(browser)  # forget what the login page had to say
    return browser


def complaints(browser: Any) -> list[Any]:
    return [entry for entry in browser.get_log("browser") if "favicon" not in entry["message"]]


def figure(browser: Chrome) -> str:
    return browser.find_element(By.CSS_SELECTOR, "tbody td.emq-number").text


def test_figures_change_without_a_reload_and_the_policy_is_kept(
    operator: Chrome, live_server: LiveServer, jobs: Jobs
) -> None:
    jobs.add()
    operator.get(live_server.url + overview_url())
    assert figure(operator) == "1"
    operator.execute_script("window.sameDocument = true")
    operator.find_element(By.CSS_SELECTOR, "#emq-every option[value='2']").click()

    jobs.add()

    wait_until(operator, lambda: _is(operator, "2"))
    assert operator.execute_script("return window.sameDocument") is True
    assert complaints(operator) == []


def _is(browser: Chrome, wanted: str) -> bool:
    return bool(
        browser.execute_script(
            "return document.querySelector('tbody td.emq-number').textContent === arguments[0]",
            wanted,
        )
    )


def test_a_list_that_is_read_stays_as_it_is(
    operator: Chrome, live_server: LiveServer, jobs: Jobs
) -> None:
    first = jobs.add()
    operator.get(live_server.url + queue_url(jobs.name))
    operator.find_element(By.CSS_SELECTOR, "#emq-every option[value='2']").click()
    operator.execute_script("document.querySelector('.emq-id a').focus()")
    operator.execute_script("window.focused = document.activeElement")

    jobs.add()

    state = "[data-emq-state]"
    wait_until(operator, lambda: "paused" in operator.find_element(By.CSS_SELECTOR, state).text)
    assert operator.execute_script("return document.activeElement === window.focused") is True
    ids = [link.text for link in operator.find_elements(By.CSS_SELECTOR, ".emq-id a")]
    assert ids == [first]


def test_somebody_who_is_signed_out_is_told(
    operator: Chrome, live_server: LiveServer, jobs: Jobs
) -> None:
    operator.get(live_server.url + overview_url())
    operator.find_element(By.CSS_SELECTOR, "#emq-every option[value='2']").click()

    operator.delete_cookie("sessionid")

    alert = "[data-emq-alert]"
    wait_until(operator, lambda: operator.find_element(By.CSS_SELECTOR, alert).text == "signed out")


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_is_wider_than_the_screen(
    width: int, operator: Chrome, live_server: LiveServer, jobs: Jobs
) -> None:
    payload = b'{"text": "' + b"<b>word</b>" * 200 + b'"}'
    ids = [jobs.add(payload) for _ in range(3)]
    jobs.claim()
    jobs.bury(ids[2], b"x" * 900)
    operator.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    lists = [queue_url(jobs.name, f"?tab={tab}") for tab in ("pending", "active", "dead")]

    for url in (overview_url(), *lists, job_url(jobs.name, ids[1]), job_url(jobs.name, ids[2])):
        operator.get(live_server.url + url)
        too_much = "return document.documentElement.scrollWidth - window.innerWidth"
        assert operator.execute_script(too_much) <= 0, url
        assert complaints(operator) == []
