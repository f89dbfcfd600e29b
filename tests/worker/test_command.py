"""`manage.py emq_worker` says what is wrong before it sends anything."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from emq_django.workers import options_for

HANDLED = {"HANDLER": "tests.worker.zoo.work"}


def emq(**queues: dict[str, Any]) -> override_settings:
    return override_settings(EMQ={"CONNECTION": "queue", "QUEUES": queues})


@emq(emails=HANDLED, bare={})
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["emial"], "Did you mean 'emails'"),
        (["bare"], "queue 'bare' has no handler"),
        (["--concurrency", "0"], "concurrency=0"),
        (["--lease-ms", "0"], "lease_ms=0"),
        (["--grace-s", "-1"], "grace_s=-1"),
        (["--processes", "-1"], "processes=-1: give a whole number from 0 to 512"),
        (["--processes", "513"], "processes=513: give a whole number from 0 to 512"),
        (["--stuck-s", "0"], "stuck_s=0.0: give seconds, 1.5 or more"),
        (["--stuck-s", "nan"], "stuck_s=nan: give seconds, 1.5 or more"),
        (["--burst", "--reload"], "--burst ends and --reload starts again"),
        (["--health-file", "/nowhere/at/all"], "'/nowhere/at/all': there is no such folder"),
        (["--health-file", "health", "--processes", "0"], "the parent of children"),
        (["--health-file", "health", "--reload"], "the parent of children"),
    ],
)
def test_what_cannot_work_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message) as refused:
        call_command("emq_worker", *arguments)
    assert refused.value.returncode == 2  # as for an argument that is no number


@emq(bare={})
def test_a_worker_without_a_queue_is_refused() -> None:
    with pytest.raises(CommandError, match="no queue to serve"):
        call_command("emq_worker")


@emq(broken={"HANDLER": "tests.worker.nowhere.work"})
def test_a_handler_that_cannot_be_imported_is_refused() -> None:
    with pytest.raises(CommandError, match=r"tests\.worker\.nowhere can't be imported"):
        call_command("emq_worker")


@emq(emails={**HANDLED, "LEASE_MS": 5_000, "MAX_ATTEMPTS": 0}, bare={}, reports=HANDLED)
def test_every_queue_with_a_handler_is_served_with_its_own_options() -> None:
    queues = list(options_for().queues)

    assert [(one.keys.name, one.lease_ms, one.max_attempts) for one in queues] == [
        ("emails", 5_000, 0),
        ("reports", 30_000, 5),
    ]
    assert queues[0].address.startswith("redis://")


@emq(emails=HANDLED)
def test_a_queue_named_twice_is_served_once() -> None:
    assert len(options_for(["emails", "emails"]).queues) == 1
