"""Each test of the outbox on SQLite and on PostgreSQL."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import pytest
from django.core.management import call_command
from django.db import connections

from emq_django.outbox.models import OutboxJob
from tests.postgres import ALIAS, NoPostgres, Postgres

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def postgres(django_db_blocker: pytest.FixtureRequest) -> Iterator[Postgres]:
    """A private PostgreSQL server with the outbox's table, as the alias `postgres`."""
    try:
        server = Postgres()
    except NoPostgres as exc:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no PostgreSQL: {exc}")
    with django_db_blocker.unblock(), known(server):  # type: ignore[attr-defined]
        call_command("migrate", "emq_outbox", database=ALIAS, verbosity=0)
    yield server
    server.close()


@contextlib.contextmanager
def known(server: Postgres) -> Iterator[None]:
    """Have Django know the server as a database."""
    connections.settings.update(
        {ALIAS: connections.configure_settings({"default": {}, ALIAS: server.settings})[ALIAS]}
    )
    try:
        yield
    finally:
        connections[ALIAS].close()
        del connections[ALIAS]
        del connections.settings[ALIAS]


@pytest.fixture(params=["sqlite", "postgres"])
def alias(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[str]:
    """The alias of a database with an empty outbox."""
    if request.param == "sqlite":
        yield "default"
        return
    server = request.getfixturevalue("postgres")
    with request.getfixturevalue("django_db_blocker").unblock(), known(server):
        yield ALIAS
        OutboxJob.objects.using(ALIAS).all().delete()
