"""enqueue(on_commit=True, using=...): the commit of the named database counts, and no other."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from django.db import connections as databases
from django.db import transaction

from emq_django import Verdict, enqueue
from emq_django.conf import keys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis
    from pytest_django import DjangoDbBlocker


class Rollback(Exception):
    """Ends a block of a test."""


@pytest.fixture
def other(django_db_blocker: DjangoDbBlocker, tmp_path: Path) -> Iterator[str]:
    """A second database beside the default one. Nothing is written to either."""
    databases.databases["other"] = {
        **databases.databases["default"],
        "NAME": str(tmp_path / "other.sqlite3"),
    }
    with django_db_blocker.unblock():
        yield "other"
        databases["other"].close()
        databases["default"].close()
    del databases["other"]
    del databases.databases["other"]


def test_using_names_the_database_whose_commit_counts(
    queue: str, other: str, redis_client: redis.Redis
) -> None:
    def waiting() -> int:
        return redis_client.zcard(keys(queue).pending)

    with transaction.atomic(), transaction.atomic(using=other):
        assert enqueue(queue, b"x", on_commit=True, using=other).verdict is Verdict.DEFERRED
        assert enqueue(queue, b"y", on_commit=True).verdict is Verdict.DEFERRED
        assert waiting() == 0
    assert waiting() == 2

    with transaction.atomic():
        now = enqueue(queue, b"z", on_commit=True, using=other)
        assert now.verdict is Verdict.ENQUEUED
    with suppress(Rollback), transaction.atomic():
        with transaction.atomic(using=other):
            enqueue(queue, b"z", on_commit=True, using=other)
        raise Rollback
    assert waiting() == 4
