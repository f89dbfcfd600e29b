"""C141: what a block that fails on purpose sends: the call says which of the two it wants."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from django.db import transaction

from emq_django import enqueue, enqueue_on_commit
from tests.cases.commits import Rollback, alias, finds, groups
from tests.outbox.conftest import postgres

if TYPE_CHECKING:
    from tests.task_backend.conftest import Desk

__all__ = ["alias", "groups", "postgres"]


def test_on_commit_sends_nothing_and_now_sends_one(desk: Desk, alias: str) -> None:
    task = finds.using(queue_name=desk.queue)
    with contextlib.suppress(Rollback), transaction.atomic(using=alias):
        enqueue_on_commit(task, ("login refused", alias), using=alias)
        enqueue(desk.queue, b"login refused", on_commit=True, using=alias)
        raise Rollback
    assert desk.counts().pending == 0

    with contextlib.suppress(Rollback), transaction.atomic(using=alias):
        task.enqueue("login refused", alias)
        enqueue(desk.queue, b"login refused")
        raise Rollback
    assert desk.counts().pending == 2


def test_inside_a_callback_a_call_leaves_at_once(desk: Desk, alias: str) -> None:
    seen: list[int] = []

    def callback() -> None:
        enqueue_on_commit(finds.using(queue_name=desk.queue), ("x", alias), using=alias)
        seen.append(desk.counts().pending)

    with transaction.atomic(using=alias):
        transaction.on_commit(callback, using=alias)

    assert seen == [1]
    assert desk.counts().pending == 1
