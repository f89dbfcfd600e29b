"""A row and a call in one transaction, on SQLite and PostgreSQL, with a quick worker beside it."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connections

from emq_django import task, testing
from tests.outbox.conftest import known
from tests.postgres import ALIAS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import DjangoDbBlocker

    from tests.postgres import Postgres


class Rollback(Exception):
    """Ends a transaction on purpose."""


@task(max_attempts=1)
def finds(name: str, alias: str) -> bool:
    """Tell whether the row of a group is there."""
    return Group.objects.using(alias).filter(name=name).exists()


@pytest.fixture(scope="session")
def groups(postgres: Postgres, django_db_blocker: DjangoDbBlocker) -> Postgres:
    """The PostgreSQL server, with a table of groups."""
    with django_db_blocker.unblock(), known(postgres):
        call_command("migrate", "auth", database=ALIAS, verbosity=0)
    return postgres


@pytest.fixture(params=["sqlite", "postgres"])
def alias(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[str]:
    """The alias of a database with an empty table of groups."""
    if request.param == "sqlite":
        yield "default"
        return
    server = request.getfixturevalue("groups")
    with request.getfixturevalue("django_db_blocker").unblock(), known(server):
        yield ALIAS
        Group.objects.using(ALIAS).all().delete()


@contextlib.contextmanager
def quick_worker(queue: str) -> Iterator[list[testing.Ran]]:
    """Run what is enqueued the moment it is there, on a thread of its own; gives what ran."""
    ran: list[testing.Ran] = []
    end = threading.Event()

    def work() -> None:
        try:
            while not end.is_set():
                ran.extend(testing.run_pending(queue, raise_errors=False))
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield ran
    finally:
        end.set()
        thread.join()


def wait_for(ran: list[testing.Ran], count: int) -> None:
    deadline_s = time.monotonic() + 30
    while len(ran) < count:
        assert time.monotonic() < deadline_s, f"{len(ran)} of {count} jobs ran"
        time.sleep(0.005)
