"""Django around one job: database connections, transactions, context."""

from __future__ import annotations

import contextvars
import threading
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.core.cache import caches
from django.core.cache.backends.locmem import LocMemCache
from django.db import connection, connections, transaction
from django.test import override_settings
from django.utils import timezone, translation

from emq_django import job_context
from emq_django.job_context import DjangoHooks, TransactionLeftOpen
from emq_django.worker.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.django_db(transaction=True)

JOB = Job(id="JOB00000000001", payload=b"")
MARK: contextvars.ContextVar[str] = contextvars.ContextVar("MARK", default="unset")


def on_a_slot(*jobs: Callable[[], Any]) -> list[BaseException | None]:
    """Run jobs one after the other on a thread of their own, as a slot does."""
    failures: list[BaseException | None] = []

    def serve() -> None:
        hooks = DjangoHooks()
        for job in jobs:
            try:
                hooks.around(JOB, job)
                failures.append(None)
            except BaseException as exc:  # noqa: BLE001
                failures.append(exc)
        hooks.thread_ends()

    thread = threading.Thread(target=serve)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    return failures


def query() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def test_a_connection_that_broke_is_replaced_before_the_next_job() -> None:
    seen: list[object] = []

    def breaks_it() -> None:
        query()
        seen.append(connection.connection)
        connection.connection.close()
        connection.errors_occurred = True

    def uses_it() -> None:
        query()
        seen.append(connection.connection)

    assert on_a_slot(breaks_it, uses_it) == [None, None]
    assert seen[0] is not seen[1]


def test_two_jobs_in_a_row_share_the_look_between_them_and_later_ones_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []
    look = job_context._without_old_connections

    def counted() -> frozenset[str]:
        looks.append(len(ran))
        return look()

    now_s, ran = [100.0], []
    monkeypatch.setattr(job_context, "_without_old_connections", counted)
    monkeypatch.setattr("emq_django.job_context.time.monotonic", lambda: now_s[0])
    hooks = DjangoHooks()

    for pause_s in (0, 0.001, 5):
        now_s[0] += pause_s
        hooks.around(JOB, lambda: ran.append(1))

    assert looks == [0, 1, 2, 2, 3]


def test_after_a_job_that_failed_the_next_one_has_a_look_of_its_own() -> None:
    hooks = DjangoHooks()

    def fails() -> None:
        query()
        raise LookupError

    with pytest.raises(LookupError):
        hooks.around(JOB, fails)
    query()  # by a policy, say, which is asked now
    connection.connection.close()
    connection.errors_occurred = True

    hooks.around(JOB, query)


def test_a_transaction_from_before_is_left_alone_in_each_of_many_jobs() -> None:
    hooks = DjangoHooks()
    with transaction.atomic():
        connection.errors_occurred = True  # as after an error that a savepoint took back
        for _ in range(3):
            hooks.around(JOB, query)
        assert connection.in_atomic_block
    hooks = DjangoHooks()
    for _ in range(2):
        with pytest.raises(TransactionLeftOpen):
            hooks.around(JOB, lambda: transaction.atomic().__enter__())
        hooks.around(JOB, query)


def test_a_transaction_left_open_fails_the_job_and_is_rolled_back() -> None:
    def forgets() -> None:
        query()
        transaction.atomic().__enter__()
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE left_open (id integer)")

    seen: list[object] = []

    def next_job() -> None:
        seen.append(connection.in_atomic_block)
        seen.append("left_open" in connection.introspection.table_names())

    failure, none = on_a_slot(forgets, next_job)

    assert isinstance(failure, TransactionLeftOpen)
    assert "default" in str(failure)
    assert none is None
    assert seen == [False, False]


def test_what_a_job_raised_stands_before_the_transaction_it_left_open() -> None:
    def forgets_and_raises() -> None:
        query()
        transaction.atomic().__enter__()
        raise LookupError("mine")

    assert isinstance(on_a_slot(forgets_and_raises)[0], LookupError)


def test_autocommit_left_off_does_not_reach_the_next_job() -> None:
    def turns_it_off() -> None:
        query()
        transaction.set_autocommit(False)

    seen: list[bool] = []

    assert on_a_slot(turns_it_off, lambda: seen.append(transaction.get_autocommit())) == [None] * 2
    assert seen == [True]


def test_language_time_zone_and_context_of_a_job_end_with_it() -> None:
    def changes() -> None:
        translation.activate("de")
        timezone.activate("Asia/Tokyo")
        MARK.set("set")

    seen: list[str] = []

    def next_job() -> None:
        seen.extend([translation.get_language(), timezone.get_current_timezone_name(), MARK.get()])

    assert on_a_slot(changes, next_job) == [None, None]
    assert seen == ["en-us", "UTC", "unset"]


def test_jobs_of_a_thread_share_its_cache_clients() -> None:
    seen: list[object] = []

    on_a_slot(lambda: seen.append(caches["default"]), lambda: seen.append(caches["default"]))

    assert seen[0] is seen[1]


@override_settings(CACHES={"default": {"BACKEND": "nowhere.Cache"}})
def test_a_cache_that_cannot_be_built_does_not_stop_a_job() -> None:
    assert on_a_slot(query) == [None]


def test_connections_are_closed_when_the_thread_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 60)
    seen: list[Any] = []

    def uses_it() -> None:
        query()
        seen.append(connections["default"])

    def next_job() -> None:
        seen.append(connection.connection is not None)

    on_a_slot(uses_it, next_job)

    wrapper, was_open_between_jobs = seen
    assert was_open_between_jobs
    assert wrapper.connection is None


class Closable(LocMemCache):
    """A cache with something to close."""

    closed: list[int] = []

    def close(self, **_: object) -> None:
        self.closed.append(threading.get_ident())


@pytest.mark.parametrize("broken", [{}, {"broken": {"BACKEND": "nowhere.Cache"}}])
def test_caches_are_closed_after_each_job(broken: dict[str, Any]) -> None:
    """Also where another one can't be built."""
    Closable.closed.clear()
    closable = {"BACKEND": f"{__name__}.Closable"}
    with override_settings(CACHES={**settings.CACHES, **broken, "closable": closable}):
        assert on_a_slot(lambda: None, lambda: caches["closable"].get("x")) == [None, None]

    assert len(Closable.closed) == 2
