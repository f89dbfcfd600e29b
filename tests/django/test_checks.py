"""Each check, triggered by a settings file through `check`; and silence for a sane setup."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import django
import pytest
from django.core.checks import run_checks
from django.test import override_settings

from emq_django import checks, server_checks, task
from emq_django.conf import SettingsError
from emq_django.task_backend import checks as task_checks
from tests.relays import relay
from tests.topologies import start_sentinels

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers import Server

TASKS = {"default": {"BACKEND": "emq_django.task_backend.EmqBackend"}}
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "checks.md"


def plain() -> None:
    """A task's function."""


def check(settings: str, *, deploy: bool = False, **environment: str) -> tuple[Counter[str], str]:
    """Run the checks as a project does; return how often each id came, and the text."""
    done = subprocess.run(
        [
            *(sys.executable, "-W", "error", "-m", "django", "check", "--tag", "emq"),
            *(["--deploy"] if deploy else []),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": f"tests.django.settings_{settings}",
            **environment,
        },
    )
    text = done.stdout + done.stderr
    assert "Traceback" not in text, text
    ids = re.findall(r"\(emq\.([EW]\d{3})\)", text)
    assert (done.returncode != 0) == any(found.startswith("E") for found in ids), text
    return Counter(ids), text


@pytest.mark.parametrize(
    ("settings", "expected", "words"),
    [
        ("server", {}, []),
        ("e001", {"E001": 1}, ["'CONECTION'", "Did you mean 'CONNECTION'?"]),
        ("e002", {"E002": 1}, ["'queeu'", "Did you mean 'queue'?", "redis://"]),
        ("e003", {"E003": 1}, ["'default'", "locmem.LocMemCache", "django_redis"]),
        ("e010", {"E010": 1}, ["'0 3 * *'", "nightly"]),
        ("e005", {"E005": 3}, ["no_such_module", "no such table", "can't be called"]),
        ("shared", {"W001": 1}, ["caches['default'].clear()", "database number"]),
        ("shared_default", {"W001": 1}, ["caches['default'].clear()"]),
        ("w002", {"W001": 1, "W002": 1}, ["'queue'", "'text'", "one connection pool"]),
        ("w003", {"W003": 1}, ['EMQ["QUEUES"]["hasty"]["LEASE_MS"] is 5000', "at least 10501 ms"]),
        ("w004", {}, []),
    ],
)
def test_settings_alone(settings: str, expected: dict[str, int], words: list[str]) -> None:
    module = import_module(f"tests.django.settings_{settings}")

    with override_settings(CACHES=module.CACHES, EMQ=module.EMQ):
        messages = run_checks(tags=["emq"])

    text = "\n".join(f"{message.msg} {message.hint}" for message in messages)
    assert Counter(str(message.id).removeprefix("emq.") for message in messages) == expected
    assert all(word in text for word in words), text
    assert all(message.hint for message in messages)


def test_the_command_fails_on_an_error_and_shows_the_hint() -> None:
    found, text = check("e003")

    assert found == {"E003": 1}
    assert "HINT: Add an alias" in text


def manage(settings: str, *arguments: str) -> str:
    """Run a command that fails; return what it said, without a traceback."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "django", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": f"tests.django.settings_{settings}"},
    )
    text = done.stdout + done.stderr
    assert done.returncode != 0, text
    assert "Traceback" not in text, text
    return text


@pytest.mark.parametrize(
    "command",
    [["check"], ["emq_worker", "--burst"], ["migrate", "--plan"], ["emq_queues"]],
    ids=" ".join,
)
def test_a_misspelt_setting_is_said_although_the_urls_import_tasks(command: list[str]) -> None:
    assert "EMQ has no setting 'QEUES'. Did you mean 'QUEUES'?" in manage("e001_tasks", *command)


def test_with_a_misspelt_setting_a_call_raises_what_is_wrong() -> None:
    with override_settings(TASKS=TASKS, EMQ={"QEUES": {}}):
        declared = task(priority=99)(plain)
        with pytest.raises(SettingsError, match="Did you mean 'QUEUES'"):
            declared.enqueue()


@pytest.mark.skipif(django.VERSION >= (6, 0), reason="Django has tasks of its own since 6.0")
@pytest.mark.parametrize("command", [["check"], ["emq_worker", "--burst"]], ids=" ".join)
def test_tasks_without_the_backport_are_an_error_that_names_it(command: list[str]) -> None:
    text = manage("e024", *command)

    assert "emq.E024" in text
    assert "pip install 'emq-django[backport]'" in text


def test_a_sane_setup_is_silent_for_a_deployment_too(fresh_server: Callable[..., Server]) -> None:
    server = fresh_server(appendonly=True)

    found, text = check("server", deploy=True, EMQ_TEST_URL=server.url)

    assert found == {}, text


@pytest.mark.parametrize(
    ("arguments", "expected", "words"),
    [
        (["--maxmemory-policy", "allkeys-lru"], {"E006": 1}, ["allkeys-lru", "noeviction"]),
        (["--maxmemory-policy", "volatile-ttl"], {"W005": 1}, ["volatile-ttl", "noeviction"]),
        (["--appendonly", "no"], {"W006": 1}, ["append-only", "appendonly yes"]),
    ],
)
def test_a_server_that_can_lose_jobs(
    arguments: list[str],
    expected: dict[str, int],
    words: list[str],
    fresh_server: Callable[..., Server],
) -> None:
    server = fresh_server(*arguments, appendonly=True)

    found, text = check("server", deploy=True, EMQ_TEST_URL=server.url)

    assert found == expected
    assert all(word in text for word in words), text


def test_a_server_that_is_too_old(fresh_server: Callable[..., Server]) -> None:
    server = fresh_server(appendonly=True)

    def age(reply: bytes) -> bytes:
        return re.sub(rb"((?:redis|valkey)_version):\d", rb"\1:5", reply)

    with relay(server.port, age) as port:
        found, text = check("server", deploy=True, EMQ_TEST_URL=f"redis://127.0.0.1:{port}/0")

    assert found == {"E007": 1}
    assert re.search(r"is (Redis|Valkey) 5\.", text)


def test_a_server_that_is_not_there_is_a_warning() -> None:
    found, text = check("w004", deploy=True)

    assert found == {"W004": 1}
    assert "redis://127.0.0.1:1/0" in text


def test_a_cache_in_the_queues_database_is_an_error_for_a_deployment(
    fresh_server: Callable[..., Server],
) -> None:
    server = fresh_server(appendonly=True)

    found, text = check("shared", deploy=True, EMQ_TEST_URL=server.url)

    assert found == {"W001": 1, "E004": 1}
    assert "FLUSHDB" in text


@pytest.mark.slow
def test_sentinels_without_a_spare_replica(server: Server) -> None:
    group = start_sentinels("--appendonly", "yes", binary=str(server.binary))
    try:
        addresses = json.dumps(group.addresses)
        found, text = check("w007", deploy=True, EMQ_TEST_SENTINELS=addresses)
        with group.master.client() as client:
            client.config_set("min-replicas-to-write", 1)
        calm, _ = check("w007", deploy=True, EMQ_TEST_SENTINELS=addresses)
    finally:
        group.close()

    assert found == {"W007": 1}
    assert "min-replicas-to-write 1" in text
    assert calm == {}


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"redis_version": "6.0.16"}, ["emq.E007"]),
        ({"redis_version": "6.2.0"}, []),
        ({"redis_version": "7.2.4", "valkey_version": "7.2.9"}, ["emq.E007"]),
        ({"redis_version": "7.2.4", "valkey_version": "8.0.0"}, []),
        ({"redis_version": "7.2.4", "valkey_version": "9.1.2"}, []),
        ({"redis_version": "10.0"}, []),
        ({"redis_version": "unstable"}, []),
        ({}, []),
    ],
)
def test_versions(info: dict[str, str], expected: list[str]) -> None:
    assert [message.id for message in server_checks.version(info, "here")] == expected


def test_the_reference_page_lists_every_check_and_no_other() -> None:
    modules = (checks, server_checks, task_checks)
    sources = [Path(str(module.__file__)).read_text("utf-8") for module in modules]
    raised = {
        number for source in sources for number in re.findall(r'"(?:emq\.)?([EW]\d{3})"', source)
    }

    listed = re.findall(r"^\| `emq\.([EW]\d{3})` \|", PAGE.read_text("utf-8"), re.MULTILINE)

    assert sorted(listed) == sorted(raised)
