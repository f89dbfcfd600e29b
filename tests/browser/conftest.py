"""The example as processes of its own, and a browser in front of it."""

from __future__ import annotations

import importlib.resources
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tests.browser.site_settings import GATE_NAME
from tests.servers import Server, free_port, start_server

ROOT = Path(__file__).resolve().parents[2]
MANAGE = ROOT / "example_project" / "manage.py"
PASSWORD = "only for this test"
BROWSER = "/usr/bin/chromium"
DRIVER = "/usr/bin/chromedriver"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
)


class Site:
    """A server, the site and, once it is started, a worker: each a process, in one folder."""

    def __init__(self, folder: Path, database: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        shutil.copy(database, folder)
        server: Server = start_server()
        stack.callback(server.close)
        self._environment = environment(folder, f"redis://127.0.0.1:{server.port}")
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._start("runserver", "--noreload", "--insecure", f"127.0.0.1:{port}")
        self._wait_until_it_answers()

    def start_worker(self, concurrency: int) -> None:
        self._start("emq_worker", "--concurrency", str(concurrency))
        self._stack.callback(self.open_gate)  # or its end would wait for the jobs

    def open_gate(self) -> None:
        (self._folder / GATE_NAME).touch()

    def file_of(self, rows: int) -> Path:
        """Return the beginning of the real file."""
        source = importlib.resources.files("airportsdata") / "airports.csv"
        with source.open("rb") as lines:
            beginning = [line for _, line in zip(range(rows + 1), lines, strict=False)]
        path = self._folder / "airports.csv"
        path.write_bytes(b"".join(beginning))
        return path

    def _start(self, *arguments: str) -> None:
        log = (self._folder / f"{arguments[0]}.log").open("wb")
        process = subprocess.Popen(
            [sys.executable, str(MANAGE), *arguments],
            env=self._environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        self._stack.callback(log.close)
        self._stack.callback(process.wait)
        self._stack.callback(process.terminate)

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + 30
        while True:
            try:
                urllib.request.urlopen(self.url, timeout=5).close()
            except (urllib.error.URLError, ConnectionError):
                assert time.monotonic() < deadline, "the site does not answer"
                time.sleep(0.05)  # the site says nowhere else that it listens
            else:
                return


def environment(folder: Path, redis_url: str) -> dict[str, str]:
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.browser.site_settings",
        "DJANGO_SUPERUSER_PASSWORD": PASSWORD,
        "EMQ_EXAMPLE_DATA": str(folder),
        "EMQ_EXAMPLE_REDIS_URL": redis_url,
    }


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's database with its tables and the user `ada`."""
    folder = tmp_path_factory.mktemp("database")
    create = ("createsuperuser", "--noinput", "--username", "ada", "--email", "ada@example.com")
    for command in (("migrate",), create):
        subprocess.run(
            [sys.executable, str(MANAGE), *command, "--verbosity", "0"],
            env=environment(folder, "redis://127.0.0.1:1"),
            check=True,
        )
    return folder / "db.sqlite3"


@pytest.fixture
def site(server: Server, database: Path, tmp_path: Path) -> Iterator[Site]:
    """The example without a worker; `server` is asked for so that its absence is told alike."""
    with ExitStack() as stack:
        yield Site(tmp_path, database, stack)


@pytest.fixture
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Debian's Chromium with a profile of its own. Without it CI fails and others skip."""
    missing = [program for program in (BROWSER, DRIVER) if not shutil.which(program)]
    if missing:
        reason = f"no {' and no '.join(missing)}: install Debian's chromium and chromium-driver"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.implicitly_wait(20)  # a click returns before the next page is there
    try:
        yield driver
    finally:
        driver.quit()
