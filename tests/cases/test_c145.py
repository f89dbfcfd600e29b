"""C145: of several databases the one that is named counts; without a name it is the default."""

from __future__ import annotations

import contextlib
import inspect
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group
from django.db import transaction
from django.test import override_settings

import emq_django
from emq_django import enqueue_on_commit, outbox
from tests.cases.commits import Rollback, finds, groups
from tests.outbox.conftest import known, postgres
from tests.postgres import ALIAS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import DjangoDbBlocker

    from tests.postgres import Postgres
    from tests.task_backend.conftest import Desk

__all__ = ["groups", "postgres"]


class Router:
    """Sends groups to the other database."""

    def db_for_write(self, model: Any, **_: Any) -> str | None:
        return ALIAS if model is Group else None

    db_for_read = db_for_write


@pytest.fixture
def other(
    groups: Postgres, transactional_db: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[str]:
    with django_db_blocker.unblock(), known(groups):
        yield ALIAS
        Group.objects.using(ALIAS).all().delete()


def test_the_named_database_counts(desk: Desk, other: str) -> None:
    task = finds.using(queue_name=desk.queue)
    with override_settings(DATABASE_ROUTERS=[Router()]):
        with transaction.atomic(), transaction.atomic(using=other):
            Group.objects.create(name="x")
            result = enqueue_on_commit(task, ("x", other), using=other)
            assert desk.counts().pending == 0
        desk.run()
        assert task.get_result(result.id).return_value is True

        with transaction.atomic(), contextlib.suppress(Rollback), transaction.atomic(using=other):
            Group.objects.create(name="y")
            enqueue_on_commit(task, ("y", other), using=other)
            raise Rollback

    assert desk.counts().pending == 0


def test_without_a_name_it_is_the_default(desk: Desk, other: str) -> None:
    task = finds.using(queue_name=desk.queue)
    with transaction.atomic(using=other):
        task.enqueue_on_commit("x", other)  # none is open on the default database: it leaves now
        assert desk.counts().pending == 1
    with transaction.atomic():
        with contextlib.suppress(Rollback), transaction.atomic(using=other):
            task.enqueue_on_commit("x", other)
            raise Rollback
        assert desk.counts().pending == 1
    assert desk.counts().pending == 2


@pytest.mark.parametrize(
    "call",
    [
        emq_django.enqueue, emq_django.enqueue_in, emq_django.enqueue_at, enqueue_on_commit,
        outbox.enqueue, outbox.enqueue_in, outbox.enqueue_at, outbox.enqueue_task,
    ],
    ids=lambda call: f"{call.__module__}.{call.__name__}",
)  # fmt: skip
def test_every_variant_takes_the_name(call: Any) -> None:
    assert "using" in inspect.signature(call).parameters
