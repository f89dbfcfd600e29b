"""Starts the session's own server before the settings are read, and stops it at the end.

Loaded early (`-p tests.plugin`), because pytest-django reads the settings before any conftest.py.
The settings, and every process that a test starts, learn the address from the environment. Under
pytest-xdist each worker is a session of its own with a server of its own.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import tempfile
from typing import TYPE_CHECKING

import pytest

from emq_django.embedded import ServerUnavailable
from tests.servers import Server, start_server

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = pytest.StashKey[Server]()
WHY_NO_SERVER = pytest.StashKey[str]()

_UNUSED_ADDRESS = "redis://127.0.0.1:1/0"

# pytest-timeout raises in the main thread after 60 s. Code that swallows what is raised, or an
# interpreter that never gets there, goes on: then the process prints its stacks and ends.
_STUCK_S = 240
_LONG_STUCK_S = 2_400
_STDERR = os.dup(2)  # before pytest captures it

# Where coverage is measured, so is each process that a test starts, which takes it nearly twice the
# processor's time. What these folders start is also started elsewhere, for the sake of its parts.
_UNMEASURED = (
    "tests/browser/",
    "tests/cases/",
    "tests/django/test_example_",
    "tests/guides/",
    "tests/stress/",
)
_MEASURE = "COVERAGE_PROCESS_CONFIG"  # coverage's own: a process that finds it measures itself
_config_of_coverage = os.environ.get(_MEASURE)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    _heed_signals()
    folder = tempfile.TemporaryDirectory(prefix="emq-tests-")
    early_config.add_cleanup(folder.cleanup)
    os.environ["EMQ_TEST_DIR"] = folder.name
    os.environ["EMQ_TEST_PREFIX"] = f"t-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-"
    os.environ["EMQ_TEST_URL"] = _UNUSED_ADDRESS
    try:
        server = start_server()
    except ServerUnavailable as exc:
        if os.environ.get("CI"):
            raise pytest.UsageError(f"CI needs a server for the tests: {exc}") from exc
        early_config.stash[WHY_NO_SERVER] = str(exc)
    else:
        early_config.add_cleanup(server.close)
        early_config.stash[SERVER] = server
        os.environ["EMQ_TEST_URL"] = server.url
    return (yield)


def pytest_report_header(config: pytest.Config) -> str:
    server = config.stash.get(SERVER, None)
    if server is None:
        return f"emq server: none, {config.stash[WHY_NO_SERVER]}"
    with server.client() as client:
        info = client.info("server")
    # Valkey answers the Redis version that it is compatible with beside its own.
    name = "Valkey" if "valkey_version" in info else "Redis"
    version = info[f"{name.lower()}_version"]
    return f"emq server: {name} {version} ({server.binary.name})"


def _heed_signals() -> None:
    """Undo what nohup or a background shell left: a worker inherits what is ignored."""
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """End the process when a test hangs beyond its timeout; pytest-xdist starts another one."""
    limit_s = _LONG_STUCK_S if os.environ.get("EMQ_TEST_NIGHTLY") else _STUCK_S
    faulthandler.dump_traceback_later(limit_s, exit=True, file=_STDERR)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Leave the processes unmeasured that tests of whole systems start."""
    if item.nodeid.startswith(_UNMEASURED):
        os.environ.pop(_MEASURE, None)
    elif _config_of_coverage is not None:
        os.environ[_MEASURE] = _config_of_coverage
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Say in CI what failed when it fails: a run that is cut off never gets to its summary."""
    if report.failed and os.environ.get("CI") and not os.environ.get("PYTEST_XDIST_WORKER"):
        crash = getattr(report.longrepr, "reprcrash", None)
        why = str(getattr(crash, "message", report.longrepr)).partition("\n")[0]
        print(f"\nfailed ({report.when}): {report.nodeid}: {why[:300]}", flush=True)  # noqa: T201
