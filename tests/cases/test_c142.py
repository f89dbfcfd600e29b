"""C142: the server is away right after the commit: an error says so, and the docs' repair works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.conf import settings
from django.contrib.auth.models import Group
from django.db import transaction
from django.test import override_settings

from emq_django import Verdict, enqueue, enqueue_on_commit, task
from emq_django.errors import WireError
from tests.cases.commits import alias, groups
from tests.outbox.conftest import postgres

if TYPE_CHECKING:
    from tests.task_backend.conftest import Desk

__all__ = ["alias", "groups", "postgres"]


@task(unique=lambda name: f"receipt-{name}")
def send_receipt(name: str) -> None:
    """Does nothing."""


def away() -> override_settings:
    dead = {"CONNECTION": "redis://127.0.0.1:1/0", "ENQUEUE_DEADLINE_S": 0}
    return override_settings(EMQ={**settings.EMQ, **dead})


def test_a_raw_job_is_sent_again_under_its_own_id(desk: Desk, alias: str) -> None:
    def store() -> None:
        with transaction.atomic(using=alias):
            receipt = enqueue(desk.queue, b"x", on_commit=True, using=alias)
            Group.objects.using(alias).create(name=receipt.id)

    with away(), pytest.raises(WireError):
        store()
    row = Group.objects.using(alias).get()  # "queued", says the database, and no job exists
    assert desk.counts().pending == 0

    repairs = [enqueue(desk.queue, b"x", job_id=row.name) for _ in range(2)]

    assert [one.verdict for one in repairs] == [Verdict.ENQUEUED, Verdict.DUPLICATE]
    assert {one.id for one in repairs} == {row.name}
    assert desk.counts().pending == 1


def test_a_task_is_sent_again_under_its_unique_key(desk: Desk, alias: str) -> None:
    queued = send_receipt.using(queue_name=desk.queue)

    def store() -> None:
        with transaction.atomic(using=alias):
            Group.objects.using(alias).create(name="order 5")
            enqueue_on_commit(queued, ("order 5",), using=alias)

    with away(), pytest.raises(WireError):
        store()
    row = Group.objects.using(alias).get()
    assert desk.counts().pending == 0

    repairs = [queued.enqueue(row.name) for _ in range(2)]

    assert [one.verdict for one in repairs] == [Verdict.ENQUEUED, Verdict.DUPLICATE]
    assert len({one.id for one in repairs}) == 1
    assert desk.counts().pending == 1
