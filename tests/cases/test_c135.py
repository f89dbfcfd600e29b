"""C135: web and worker with different secret keys.

What a signature covers, and what a bent one ends in: tests/task_backend/test_run.py.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from django.test import override_settings

from emq_django.api import enqueue
from tests.task_backend import zoo

if TYPE_CHECKING:
    from tests.task_backend.conftest import Desk

OLD, NEW = "the web's key", "the worker's key"


def _enqueue(desk: Desk, name: str, key: str) -> str:
    with override_settings(SECRET_KEY=key, SECRET_KEY_FALLBACKS=[]):
        return zoo.noted.using(queue_name=desk.queue).enqueue(name).id


def test_a_key_among_the_fallbacks_is_good(desk: Desk) -> None:
    with desk.set(SIGN_PAYLOADS=True):
        _enqueue(desk, "old", OLD)
        with override_settings(SECRET_KEY=NEW, SECRET_KEY_FALLBACKS=[OLD]):
            desk.run()

    assert [one["name"] for one in desk.notes("ran")] == ["old"]


def test_another_key_is_a_death_with_the_reason_and_the_next_job_runs(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    with desk.set(SIGN_PAYLOADS=True):
        old = _enqueue(desk, "old", OLD)
        garbage = f"{desk.queue}:{enqueue(desk.queue, b'{}:garbage').id}"
        _enqueue(desk, "new", NEW)
        with (
            override_settings(SECRET_KEY=NEW, SECRET_KEY_FALLBACKS=[]),
            caplog.at_level(logging.ERROR),
        ):
            desk.run()

    assert [one["name"] for one in desk.notes("ran")] == ["new"]
    assert (desk.counts().dead, desk.counts().active) == (2, 0)
    for job_id in (old, garbage):
        assert b"signature" in (desk.field(job_id, "last_error") or b"")
    told = [record for record in caplog.records if "signature" in record.getMessage()]
    assert len(told) == 2
    assert {record.levelno for record in told} == {logging.ERROR}


def test_without_signatures_a_key_has_no_effect(desk: Desk) -> None:
    _enqueue(desk, "old", OLD)
    with override_settings(SECRET_KEY=NEW, SECRET_KEY_FALLBACKS=[]):
        desk.run()

    assert [one["name"] for one in desk.notes("ran")] == ["old"]
