"""enqueue(on_commit=True): sent when the transaction commits, never when it rolls back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group
from django.db import transaction
from django.utils.connection import ConnectionDoesNotExist

import emq_django
from emq_django import Verdict, enqueue, enqueue_at, enqueue_in
from emq_django.conf import keys
from emq_django.errors import InvalidInput, ServerFull, Unreachable
from emq_django.protocol import ids
from tests.servers import free_port

if TYPE_CHECKING:
    import redis
    from pytest_django.fixtures import Settings

    from tests.monitoring import Recording

pytestmark = pytest.mark.django_db(transaction=True)


class Rollback(Exception):
    """Ends a block of a test."""


@pytest.fixture
def waiting(queue: str, redis_client: redis.Redis) -> Callable[[], int]:
    """Return how many jobs are in the queue."""
    return lambda: redis_client.zcard(keys(queue).pending)


def test_a_commit_sends_the_job_that_was_announced(
    queue: str, waiting: Callable[[], int], redis_client: redis.Redis
) -> None:
    with transaction.atomic():
        receipt = enqueue(queue, b"x", on_commit=True)
        assert receipt.verdict is Verdict.DEFERRED
        assert waiting() == 0

    assert redis_client.hget(keys(queue).row(receipt.id), "payload") == b"x"
    assert waiting() == 1


def test_a_rollback_sends_nothing(
    queue: str, monitor: Callable[[], AbstractContextManager[Recording]]
) -> None:
    with monitor() as recording, suppress(Rollback), transaction.atomic():
        enqueue(queue, b"x", on_commit=True)
        enqueue_in(queue, b"x", 5, on_commit=True)
        raise Rollback

    assert recording.commands == []


@pytest.mark.parametrize("park", [
    lambda queue: enqueue_in(queue, b"x", timedelta(minutes=1), on_commit=True),
    lambda queue: enqueue_at(queue, b"x", 5, on_commit=True),
], ids=["in", "at"])  # fmt: skip
def test_parked_jobs_wait_for_the_commit_too(
    queue: str, redis_client: redis.Redis, park: Callable[[str], Any]
) -> None:
    with transaction.atomic():
        receipt = park(queue)
        assert receipt.verdict is Verdict.DEFERRED

    assert redis_client.zscore(keys(queue).schedule, receipt.id) is not None


def test_a_savepoint_that_rolls_back_takes_its_jobs_along(
    queue: str, redis_client: redis.Redis
) -> None:
    with transaction.atomic():
        kept = [enqueue(queue, b"outer", on_commit=True).id]
        with suppress(Rollback), transaction.atomic():
            enqueue(queue, b"lost", on_commit=True)
            raise Rollback
        with transaction.atomic():
            kept.append(enqueue(queue, b"inner", on_commit=True).id)
        assert redis_client.exists(keys(queue).pending) == 0

    members = redis_client.zrange(keys(queue).pending, 0, -1)
    assert members == [job_id.encode() for job_id in kept]


def test_outside_a_transaction_the_job_is_sent_at_once(
    queue: str, waiting: Callable[[], int]
) -> None:
    assert enqueue(queue, b"x", on_commit=True).verdict is Verdict.ENQUEUED
    assert waiting() == 1


def test_without_autocommit_django_says_why_it_cannot_wait(
    queue: str, waiting: Callable[[], int]
) -> None:
    transaction.set_autocommit(False)
    try:
        with pytest.raises(transaction.TransactionManagementError, match="on_commit"):
            enqueue(queue, b"x", on_commit=True)
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)

    assert waiting() == 0


def test_without_on_commit_a_transaction_does_not_matter(
    queue: str, waiting: Callable[[], int]
) -> None:
    with suppress(Rollback), transaction.atomic():
        assert enqueue(queue, b"x").verdict is Verdict.ENQUEUED
        raise Rollback

    assert waiting() == 1


def test_a_database_that_is_not_configured_is_an_error(
    queue: str, waiting: Callable[[], int]
) -> None:
    with pytest.raises(ConnectionDoesNotExist, match="missing"):
        enqueue(queue, b"x", on_commit=True, using="missing")

    assert waiting() == 0


def test_bad_arguments_are_refused_before_the_commit(queue: str) -> None:
    with transaction.atomic(), pytest.raises(InvalidInput):
        enqueue(queue, "text", on_commit=True)  # type: ignore[arg-type]


def test_a_caller_id_is_announced_as_it_is_and_a_duplicate_is_no_error(
    queue: str, redis_client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = enqueue(queue, b"first").id

    with transaction.atomic():
        receipt = enqueue(queue, b"second", job_id=job_id, on_commit=True)

    assert receipt.id == job_id
    assert redis_client.hget(keys(queue).row(job_id), "payload") == b"first"
    assert caplog.records == []


def test_an_announced_id_that_is_taken_is_sent_under_another_and_logged(
    queue: str,
    waiting: Callable[[], int],
    redis_client: redis.Redis,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR, "emq_django.enqueue"), transaction.atomic():
        announced = enqueue(queue, b"ours", on_commit=True).id
        enqueue(queue, b"theirs", job_id=announced)

    assert waiting() == 2
    (record,) = caplog.records
    first, named, second = record.args  # type: ignore[misc]
    assert (first, named, record.levelno) == (announced, queue, logging.ERROR)
    assert redis_client.hget(keys(queue).row(announced), "payload") == b"theirs"
    assert redis_client.hget(keys(queue).row(str(second)), "payload") == b"ours"


def test_an_id_is_minted_when_it_is_announced(queue: str, redis_client: redis.Redis) -> None:
    with transaction.atomic():
        announced = enqueue(queue, b"x", on_commit=True).id
        later = ids.mint.one()

    assert announced < later
    assert redis_client.zrange(keys(queue).pending, 0, -1) == [announced.encode()]


def test_a_queue_that_is_away_at_the_commit_is_told_and_the_rows_stay(
    queue: str, settings: Settings
) -> None:
    settings.EMQ = {**settings.EMQ, "CONNECTION": f"redis://127.0.0.1:{free_port()}/0"}

    def save() -> None:
        with transaction.atomic():
            Group.objects.create(name="kept")
            enqueue(queue, b"x", on_commit=True)

    with pytest.raises(Unreachable):
        save()

    assert Group.objects.filter(name="kept").exists()


def test_a_via_object_runs_the_call_at_the_commit(queue: str, waiting: Callable[[], int]) -> None:
    class Full:
        asked = 0

        def run(self, call: Any) -> Any:
            self.asked += 1
            raise ServerFull("full")

    via = Full()

    def save() -> None:
        with transaction.atomic():
            emq_django.enqueue(queue, b"x", on_commit=True, via=via)
            assert via.asked == 0

    with pytest.raises(ServerFull):
        save()

    assert (via.asked, waiting()) == (1, 0)
