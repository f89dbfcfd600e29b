"""The whole way in a real browser: log in, upload, watch the admin and the progress page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.by import By

from tests.browser.conftest import PASSWORD
from tests.browser.waits import wait_until

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

    from tests.browser.conftest import Site

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(180)]

JOBS, CONCURRENCY = 6, 2
ROWS = JOBS * 250


def log_in(browser: Chrome, site: Site) -> None:
    browser.get(site.url)
    browser.find_element(By.NAME, "username").send_keys("ada")
    browser.find_element(By.NAME, "password").send_keys(PASSWORD)
    browser.find_element(By.CSS_SELECTOR, "main button").click()


def upload(browser: Chrome, site: Site) -> None:
    browser.find_element(By.NAME, "file").send_keys(str(site.file_of(ROWS)))
    browser.find_element(By.CSS_SELECTOR, "main button").click()
    wait_until(browser, lambda: "/imports/" in browser.current_url, "the import's page")


def figure(browser: Chrome, name: str) -> str:
    return browser.find_element(By.CSS_SELECTOR, f"[data-figure={name}]").text


def admin_figures(browser: Chrome) -> dict[str, int]:
    """Read the row of the queue `imports` on the admin's overview, by the names of its columns."""
    browser.refresh()
    table = browser.find_element(By.CSS_SELECTOR, "#content table")
    names = [cell.text.strip().lower() for cell in table.find_elements(By.CSS_SELECTOR, "thead th")]
    for row in table.find_elements(By.CSS_SELECTOR, "tbody tr"):
        cells = row.find_elements(By.CSS_SELECTOR, "th, td")
        if cells[0].text.strip() == "imports":
            texts = {name: cell.text.split() for name, cell in zip(names, cells, strict=True)}
            return {name: int(words[0]) for name, words in texts.items() if words[0].isdecimal()}
    raise AssertionError("the overview has no queue `imports`")


def assert_clean_console(browser: Chrome) -> None:
    entries = browser.get_log("browser")  # type: ignore[no-untyped-call]
    assert [entry for entry in entries if entry["level"] != "INFO"] == []


def test_upload_watch_the_admin_and_see_it_finish(site: Site, browser: Chrome) -> None:
    log_in(browser, site)
    upload(browser, site)
    progress_tab = browser.current_window_handle
    assert figure(browser, "percent") == "0"
    assert_clean_console(browser)

    # Pending: nothing runs, because there is no worker yet.
    browser.switch_to.new_window("tab")
    browser.get(f"{site.url}/admin/")
    browser.find_element(By.LINK_TEXT, "Queues").click()
    before = admin_figures(browser)
    assert (before["waiting"], before["active"]) == (JOBS, 0)

    # Active: the worker holds as many as it has threads.
    site.start_worker(CONCURRENCY)
    wait_until(browser, lambda: admin_figures(browser)["active"] == CONCURRENCY, "active jobs")
    assert admin_figures(browser)["waiting"] == JOBS - CONCURRENCY
    browser.find_element(By.LINK_TEXT, "imports").click()
    browser.find_element(By.PARTIAL_LINK_TEXT, "Active").click()
    jobs = browser.find_elements(By.CSS_SELECTOR, "#content table th a")
    assert [job.text[:3] for job in jobs] == ["JOB"] * CONCURRENCY
    jobs[0].click()
    assert "icao" in browser.find_element(By.ID, "content").text  # the payload
    assert_clean_console(browser)

    # Done: the queue is empty, and the page that stayed open shows it by itself.
    site.open_gate()
    browser.get(f"{site.url}/admin/emq_django/queue/")
    wait_until(
        browser,
        lambda: {admin_figures(browser)[name] for name in ("waiting", "active")} == {0},
        "an empty queue",
    )
    assert_clean_console(browser)
    browser.switch_to.window(progress_tab)
    wait_until(browser, lambda: figure(browser, "percent") == "100", "100 %")
    wait_until(browser, lambda: "the import is finished" in browser.page_source, "the end")
    assert figure(browser, "stored") == f"{ROWS:,}"
    assert_clean_console(browser)

    browser.get(f"{site.url}/airports/?q=00AA")
    assert "Aero B Ranch Airport" in browser.find_element(By.TAG_NAME, "table").text
    assert_clean_console(browser)


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_the_count_of_a_task_shows_itself(site: Site, browser: Chrome, scripts: bool) -> None:
    log_in(browser, site)
    upload(browser, site)
    site.open_gate()
    site.start_worker(CONCURRENCY)
    wait_until(browser, lambda: "the import is finished" in browser.page_source, "the end")
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})
    browser.get(f"{site.url}/countries/")

    browser.find_element(By.CSS_SELECTOR, "main button").click()

    wait_until(browser, lambda: "Counted" in browser.page_source, "the count")
    assert browser.current_url == f"{site.url}/countries/"
    assert "US" in browser.find_element(By.TAG_NAME, "table").text
    assert_clean_console(browser)


def test_progress_is_shown_without_scripts(site: Site, browser: Chrome) -> None:
    log_in(browser, site)
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    upload(browser, site)
    assert figure(browser, "percent") == "0"

    site.open_gate()
    site.start_worker(CONCURRENCY)

    wait_until(browser, lambda: "the import is finished" in browser.page_source, "the end")
    assert figure(browser, "percent") == "100"


def test_every_page_keeps_the_policy_and_fits_a_phone(site: Site, browser: Chrome) -> None:
    log_in(browser, site)
    upload(browser, site)
    browser.set_window_size(390, 844)

    for path in (
        "/",
        "/imports/1/",
        "/airports/",
        "/countries/",
        "/accounts/login/",
        "/admin/",
        "/imports/9/",
    ):
        browser.get(site.url + path)
        overhang = browser.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert overhang <= 0, path
        policy = browser.execute_async_script(
            "const done = arguments[0];"
            "fetch(location.href).then(a => done(a.headers.get('Content-Security-Policy')))"
        )
        assert policy.startswith("default-src 'self';"), path
