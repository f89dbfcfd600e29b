"""C136: the database ends every session, and the next job does not notice.

With PostgreSQL, where a session that was ended is only noticed by using it. A worker's threads
stand in for requests: what Django promises a view under these settings holds for a job.
"""

from __future__ import annotations

import contextlib
import os
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections
from django.db.utils import InterfaceError, OperationalError

from emq_django.job_context import DjangoHooks
from emq_django.task_backend import runner
from emq_django.worker import aio
from emq_django.worker.job import Job
from tests.postgres import ALIAS, NoPostgres, Postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.slow

JOB = Job(id="JOB00000000001", payload=b"")
LOST = (OperationalError, InterfaceError)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    try:
        server = Postgres()
    except NoPostgres as exc:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no PostgreSQL: {exc}")
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _allowed(django_db_blocker: Any) -> Iterator[None]:
    """The databases here are the test's own: nothing is wrapped in a transaction."""
    with django_db_blocker.unblock():
        yield


@contextlib.contextmanager
def known(server: Postgres, **options: Any) -> Iterator[None]:
    """Have Django know the server as a database, in every thread."""
    its = {**server.settings, **options}
    connections.settings[ALIAS] = connections.configure_settings({"default": {}, ALIAS: its})[ALIAS]
    try:
        yield
    finally:
        end_sessions(server)
        del connections.settings[ALIAS]


def end_sessions(server: Postgres) -> None:
    """End every session, as a restart, a firewall or an idle limit does."""
    import psycopg

    with psycopg.connect(host=str(server.folder), user="tests", dbname="postgres") as own:
        own.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE usename = 'tests' AND pid <> pg_backend_pid()"
        )


class Slot:
    """One thread that runs jobs one after the other, as a slot of a worker does."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._ended: SimpleQueue[BaseException | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def run(self, job: Callable[[], None]) -> BaseException | None:
        """Run one job; return what it raised."""
        self._jobs.put(job)
        return self._ended.get(timeout=30)

    def __enter__(self) -> Slot:
        return self

    def __exit__(self, *_: object) -> None:
        self._jobs.put(None)
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        hooks = DjangoHooks()
        while (job := self._jobs.get()) is not None:
            try:
                hooks.around(JOB, job)
                self._ended.put(None)
            except BaseException as exc:  # noqa: BLE001 - the test looks at it
                self._ended.put(exc)
        hooks.thread_ends()


def query() -> None:
    with connections[ALIAS].cursor() as cursor:
        cursor.execute("SELECT 1")


def query_in_a_task() -> None:
    """The same from an async task, as the task backend runs it. Django's async ORM is this."""
    aio.run(runner._with_own_thread(sync_to_async(query)))


def query_in_a_handler() -> None:
    """The same from a raw handler that is wrapped, as the refusal of an async one advises."""
    async_to_sync(sync_to_async(query))()


@pytest.mark.parametrize("job", [query, query_in_a_task, query_in_a_handler])
@pytest.mark.parametrize(
    ("max_age_s", "health_checks"), [(0, False), (0, True), (60, True), (None, True)]
)
def test_the_second_job_ends_at_its_first_attempt(
    postgres: Postgres,
    job: Callable[[], None],
    max_age_s: int | None,
    health_checks: bool,
) -> None:
    options = {"CONN_MAX_AGE": max_age_s, "CONN_HEALTH_CHECKS": health_checks}
    with known(postgres, **options), Slot() as slot:
        assert slot.run(job) is None
        end_sessions(postgres)

        assert [slot.run(job) for _ in range(3)] == [None] * 3


@pytest.mark.parametrize("max_age_s", [60, None])
def test_without_health_checks_one_job_pays_as_one_view_would(
    postgres: Postgres, max_age_s: int | None
) -> None:
    with known(postgres, CONN_MAX_AGE=max_age_s), Slot() as slot:
        assert slot.run(query) is None
        end_sessions(postgres)

        first, second = slot.run(query), slot.run(query)

        assert isinstance(first, LOST)
        assert second is None


@pytest.mark.parametrize("max_age_s", [0, 60, None])
def test_a_loss_inside_a_job_costs_that_attempt_only(
    postgres: Postgres, max_age_s: int | None
) -> None:
    def loses_it() -> None:
        query()
        end_sessions(postgres)
        query()

    with known(postgres, CONN_MAX_AGE=max_age_s), Slot() as slot:
        assert isinstance(slot.run(loses_it), LOST)
        assert slot.run(query) is None


def test_the_drivers_connection_closed_underneath_is_not_used_again(postgres: Postgres) -> None:
    def closes_it() -> None:
        query()
        connections[ALIAS].connection.close()

    with known(postgres, CONN_MAX_AGE=None, CONN_HEALTH_CHECKS=True), Slot() as slot:
        assert slot.run(closes_it) is None
        assert slot.run(query) is None


def test_a_restart_between_two_jobs_costs_no_attempt(postgres: Postgres) -> None:
    with (
        known(postgres, CONN_MAX_AGE=None, CONN_HEALTH_CHECKS=True),
        Slot() as one, Slot() as two, Slot() as three,
    ):  # fmt: skip
        slots = [one, two, three]
        assert [slot.run(query) for slot in slots] == [None] * 3
        end_sessions(postgres)
        assert [slot.run(query) for slot in slots] == [None] * 3
