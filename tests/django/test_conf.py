from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from emq_django import conf as module
from emq_django.conf import QueueConf, SettingsError, conf, defaults, keys
from emq_django.errors import ConfigError, InvalidQueueName

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_without_the_setting_every_default_holds(settings: Settings) -> None:
    settings.EMQ = settings.EMQ  # so that the signal is sent when it is restored: del sends none
    del settings.EMQ

    assert conf() == module.Conf()
    assert conf().connection == "default"
    assert conf().queue("anything") == QueueConf(name="anything")


def test_settings_reach_their_records(settings: Settings) -> None:
    settings.EMQ = {
        "CONNECTION": "redis://h:1/2",
        "QUEUE_PREFIX": "a-",
        "WIRE": 6,
        "ENQUEUE_DEADLINE_S": 2,
        "MAX_PAYLOAD_BYTES": 10,
        "QUEUES": {
            "b": {"HANDLER": "app.jobs.run", "LEASE_MS": 1, "MAX_ATTEMPTS": 2},
            "a": None,
        },
        "ADMIN": {"PAGE_SIZE": 7},
    }

    read = conf()

    assert (read.connection, read.queue_prefix, read.wire) == ("redis://h:1/2", "a-", 6)
    assert (read.enqueue_deadline_s, read.max_payload_bytes) == (2.0, 10)
    assert list(read.queues) == ["b", "a"]
    assert read.queue("b") == QueueConf(
        name="b", handler="app.jobs.run", lease_ms=1, max_attempts=2
    )
    assert read.queue("a") == QueueConf(name="a")
    assert read.admin.page_size == 7
    assert read.admin.preview_chars == 200


def test_none_is_the_default_and_zero_is_zero(settings: Settings) -> None:
    zeros = {"MAX_ATTEMPTS": 0, "BACKOFF_BASE_MS": 0, "BACKOFF_CAP_MS": 0}
    settings.EMQ = {
        "ENQUEUE_DEADLINE_S": 0,
        "MAX_PAYLOAD_BYTES": 0,
        "WIRE": None,
        "CONNECTION": None,
        "QUEUES": {"zeros": zeros, "nones": dict.fromkeys(zeros)},
        "ADMIN": {"PREVIEW_CHARS": 0, "PAGE_SIZE": None},
    }

    read = conf()

    assert (read.enqueue_deadline_s, read.max_payload_bytes) == (0.0, 0)
    assert (read.wire, read.connection) == (4, "default")
    assert read.queue("zeros") == QueueConf(
        name="zeros", max_attempts=0, backoff_base_ms=0, backoff_cap_ms=0
    )
    assert read.queue("nones") == QueueConf(name="nones")
    assert (read.admin.preview_chars, read.admin.page_size) == (0, 50)


@pytest.mark.parametrize(
    ("emq", "words"),
    [
        ({"CONECTION": "x"}, ["EMQ", "'CONECTION'", "Did you mean 'CONNECTION'?"]),
        ({"queues": {}}, ["'queues'", "Did you mean 'QUEUES'?"]),
        ({"XYZZY": 1}, ["'XYZZY'", "Known names", "WIRE"]),
        ({5: 1}, ["EMQ has no setting 5"]),
        ({"QUEUES": {"q": {"LEASE": 1}}}, ['EMQ["QUEUES"]["q"]', "'LEASE'", "'LEASE_MS'"]),
        ({"ADMIN": {"PAGESIZE": 1}}, ['EMQ["ADMIN"]', "'PAGESIZE'", "'PAGE_SIZE'"]),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(
    settings: Settings, emq: object, words: list[str]
) -> None:
    settings.EMQ = emq

    with pytest.raises(SettingsError) as caught:
        conf()

    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(
    ("emq", "place", "value"),
    [
        ([], "EMQ", "[]"),
        ({"CONNECTION": ""}, 'EMQ["CONNECTION"]', "''"),
        ({"CONNECTION": b"x"}, 'EMQ["CONNECTION"]', "b'x'"),
        ({"QUEUE_PREFIX": "a{b"}, 'EMQ["QUEUE_PREFIX"]', "'a{b'"),
        ({"QUEUE_PREFIX": 3}, 'EMQ["QUEUE_PREFIX"]', "3"),
        ({"WIRE": 5}, 'EMQ["WIRE"]', "5"),
        ({"WIRE": "4"}, 'EMQ["WIRE"]', "'4'"),
        ({"WIRE": []}, 'EMQ["WIRE"]', "[]"),
        ({"ENQUEUE_DEADLINE_S": -1}, 'EMQ["ENQUEUE_DEADLINE_S"]', "-1"),
        ({"ENQUEUE_DEADLINE_S": True}, 'EMQ["ENQUEUE_DEADLINE_S"]', "True"),
        ({"ENQUEUE_DEADLINE_S": float("nan")}, 'EMQ["ENQUEUE_DEADLINE_S"]', "nan"),
        ({"ENQUEUE_DEADLINE_S": float("inf")}, 'EMQ["ENQUEUE_DEADLINE_S"]', "inf"),
        ({"MAX_PAYLOAD_BYTES": 1.5}, 'EMQ["MAX_PAYLOAD_BYTES"]', "1.5"),
        ({"MAX_PAYLOAD_BYTES": 2**29 + 1}, 'EMQ["MAX_PAYLOAD_BYTES"]', str(2**29 + 1)),
        ({"QUEUES": ["q"]}, 'EMQ["QUEUES"]', "['q']"),
        ({"QUEUES": {"q": "x"}}, 'EMQ["QUEUES"]["q"]', "'x'"),
        ({"QUEUES": {"": {}}}, 'EMQ["QUEUES"]', "''"),
        ({"QUEUES": {"emq": {}}}, 'EMQ["QUEUES"]', "'emq'"),
        ({"QUEUES": {1: {}}}, 'EMQ["QUEUES"]', "1"),
        ({"QUEUES": {"q": {"HANDLER": "run"}}}, 'EMQ["QUEUES"]["q"]["HANDLER"]', "'run'"),
        ({"QUEUES": {"q": {"HANDLER": print}}}, 'EMQ["QUEUES"]["q"]["HANDLER"]', "<built-in"),
        ({"QUEUES": {"q": {"LEASE_MS": 0}}}, 'EMQ["QUEUES"]["q"]["LEASE_MS"]', "0"),
        ({"QUEUES": {"q": {"LEASE_MS": -5}}}, 'EMQ["QUEUES"]["q"]["LEASE_MS"]', "-5"),
        ({"QUEUES": {"q": {"BACKOFF_CAP_MS": 1}}}, 'EMQ["QUEUES"]["q"]["BACKOFF_CAP_MS"]', "1"),
        ({"ADMIN": {"PAGE_SIZE": 501}}, 'EMQ["ADMIN"]["PAGE_SIZE"]', "501"),
        ({"ADMIN": {"READ_TIMEOUT_S": 0}}, 'EMQ["ADMIN"]["READ_TIMEOUT_S"]', "0"),
    ],
)
def test_a_wrong_value_is_refused_by_place_and_value(
    settings: Settings, emq: object, place: str, value: str
) -> None:
    settings.EMQ = emq

    with pytest.raises(SettingsError) as caught:
        conf()

    assert place in str(caught.value)
    assert value in str(caught.value)


def test_a_refusal_is_caught_as_ours_and_as_djangos(settings: Settings) -> None:
    settings.EMQ = {"WIRE": 5}

    with pytest.raises(ConfigError):
        conf()
    with pytest.raises(ImproperlyConfigured):
        conf()


def test_the_record_is_built_once_and_again_after_a_change() -> None:
    first = conf()

    assert conf() is first
    with override_settings(EMQ={"QUEUE_PREFIX": "changed-"}):
        assert conf().queue_prefix == "changed-"
        assert keys("q").wire_name == "changed-q"
    assert conf().queue_prefix == django_settings.EMQ["QUEUE_PREFIX"]
    assert keys("q").wire_name == f"{conf().queue_prefix}q"


def test_keys_are_built_once_and_a_bad_name_is_refused_each_time() -> None:
    assert keys("mail") is keys("mail")
    for name in ("", "a{b", 3, None, b"q", ["q"]):
        with pytest.raises(InvalidQueueName):
            keys(name)  # type: ignore[arg-type]


def test_importing_the_package_reads_no_settings() -> None:
    code = "import emq_django, emq_django.conf, emq_django.connections, emq_django.checks"
    unset = {name: value for name, value in os.environ.items() if not name.startswith("DJANGO")}

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=unset,
    )

    assert done.returncode == 0, done.stderr


def test_the_reference_page_lists_every_setting_with_its_default() -> None:
    places: dict[str, dict[str, str]] = {}
    rows: dict[str, str] = {}
    for line in PAGE.read_text("utf-8").splitlines():
        if heading := re.fullmatch(r"## `(.*)`", line):
            rows = places.setdefault(heading[1], {})
        elif line.startswith("## "):
            rows = {}
        elif row := re.match(r"\| `([A-Z_]+)` \| `(.*?)` \|", line):
            rows[row[1]] = row[2]

    nested = {"QUEUES": "{}", "PERIODIC": "{}", "ADMIN": "{}", "FENCE": "{}"}
    written = {
        place: {name: repr(value).replace("'", '"') for name, value in names.items()}
        for place, names in defaults().items()
    }
    written["EMQ"] |= nested
    assert places == written
