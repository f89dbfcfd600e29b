"""enqueue_on_commit against real transactions: what leaves, when, and in how many flushes."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction
from django.test import TestCase, override_settings

from emq_django import Verdict, enqueue_on_commit
from emq_django.conf import keys
from emq_django.errors import InvalidArguments, WireError
from emq_django.protocol.ids import mint
from emq_django.task_backend.compat import TaskResultDoesNotExist, task_enqueued
from tests.task_backend import zoo

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from tests.task_backend.conftest import Desk

pytestmark = pytest.mark.django_db(transaction=True)


class Rollback(Exception):
    pass


def waiting(desk: Desk) -> int:
    return desk.counts().pending


def flushes(recording: Any) -> int:
    return len([one for one in recording.commands if "evalsha" in str(one).lower()])


def test_a_call_leaves_when_the_transaction_commits(desk: Desk) -> None:
    task = zoo.add.using(queue_name=desk.queue)
    with transaction.atomic():
        result = task.enqueue_on_commit(1, b=2)
        assert result.verdict is Verdict.DEFERRED
        assert waiting(desk) == 0
        with pytest.raises(TaskResultDoesNotExist):
            task.get_result(result.id)

    assert task.get_result(result.id) == result  # under the id that was told


def test_a_rollback_sends_nothing(desk: Desk) -> None:
    heard: list[Any] = []

    def hear(**_: Any) -> None:
        heard.append(1)

    task_enqueued.connect(hear)
    try:
        with contextlib.suppress(Rollback), transaction.atomic():
            zoo.add.using(queue_name=desk.queue).enqueue_on_commit(1)
            raise Rollback
    finally:
        task_enqueued.disconnect(hear)

    assert waiting(desk) == 0
    assert heard == []


def test_outside_a_transaction_a_call_leaves_at_once(desk: Desk) -> None:
    result = zoo.add.using(queue_name=desk.queue).enqueue_on_commit(1)

    assert result.verdict is Verdict.ENQUEUED
    assert waiting(desk) == 1


def test_the_calls_of_a_commit_leave_in_one_flush(desk: Desk, monitor: Callable[[], Any]) -> None:
    add = zoo.add.using(queue_name=desk.queue)
    echo = zoo.echo.using(queue_name=desk.queue)
    add.enqueue(0)
    with monitor() as recording, transaction.atomic():
        results: list[Any] = [add.enqueue_on_commit(n) for n in range(5)]
        with transaction.atomic():
            results.append(echo.enqueue_on_commit("nested"))
        results.append(add.enqueue_on_commit(6))

    assert flushes(recording) == 1
    assert waiting(desk) == 8
    assert [add.get_backend().get_result(one.id).args for one in results] == [
        one.args for one in results
    ]


def test_calls_of_a_commit_that_differ_leave_in_one_flush(
    desk: Desk, monitor: Callable[[], Any]
) -> None:
    zoo.unique_by_key.using(queue_name=desk.queue).enqueue()
    zoo.in_a_lane.using(queue_name=desk.queue).enqueue("USR00000000009")
    with monitor() as recording, transaction.atomic():
        for lane in ("USR00000000001", "USR00000000002", None):
            zoo.in_a_lane.using(queue_name=desk.queue).enqueue_on_commit(lane)
        zoo.unique_by_arguments.using(queue_name=desk.queue).enqueue_on_commit(1)

    names = [str(one).lower() for one in recording.commands]
    assert sum("evalsha" in name for name in names) == 4
    assert waiting(desk) == 3
    assert desk.counts().lane_pending == 3


def test_a_savepoint_that_rolls_back_takes_its_calls_along(
    desk: Desk, monitor: Callable[[], Any]
) -> None:
    task = zoo.noted.using(queue_name=desk.queue)
    task.enqueue("before")
    with monitor() as recording, transaction.atomic():
        task.enqueue_on_commit("first")
        with contextlib.suppress(Rollback), transaction.atomic():
            task.enqueue_on_commit("lost")
            with transaction.atomic():
                task.enqueue_on_commit("lost too")
            raise Rollback
        with transaction.atomic():
            task.enqueue_on_commit("second")
        task.enqueue_on_commit("third")

    assert flushes(recording) == 1
    desk.run(concurrency=1)
    assert [one["name"] for one in desk.notes()] == ["before", "first", "second", "third"]


def test_a_savepoint_that_rolls_back_last_is_lost_alone(desk: Desk) -> None:
    task = zoo.noted.using(queue_name=desk.queue)
    with transaction.atomic():
        task.enqueue_on_commit("kept")
        with transaction.atomic():
            task.enqueue_on_commit("kept too")
        with contextlib.suppress(Rollback), transaction.atomic():
            task.enqueue_on_commit("lost")
            raise Rollback

    desk.run(concurrency=1)
    assert [one["name"] for one in desk.notes()] == ["kept", "kept too"]


def test_other_callbacks_keep_their_place_between_calls(desk: Desk) -> None:
    seen: list[int] = []
    task = zoo.add.using(queue_name=desk.queue)
    with transaction.atomic():
        task.enqueue_on_commit(1)
        transaction.on_commit(lambda: seen.append(waiting(desk)))
        task.enqueue_on_commit(2)
        task.enqueue_on_commit(3)

    assert seen == [1]
    assert waiting(desk) == 3


def test_each_transaction_is_on_its_own(desk: Desk) -> None:
    task = zoo.add.using(queue_name=desk.queue)
    for n in range(3):
        with transaction.atomic():
            task.enqueue_on_commit(n)
        assert waiting(desk) == n + 1


def test_another_database_is_named_with_using(desk: Desk) -> None:
    task = zoo.add.using(queue_name=desk.queue)
    with transaction.atomic():
        result = enqueue_on_commit(task, (1,), {"b": 2}, using="default")
        assert waiting(desk) == 0
    assert task.get_result(result.id).kwargs == {"b": 2}
    with pytest.raises(Exception, match="nowhere"):
        enqueue_on_commit(task, (1,), using="nowhere")


def test_bad_arguments_are_refused_inside_the_transaction(desk: Desk) -> None:
    with pytest.raises(InvalidArguments), transaction.atomic():
        zoo.echo.using(queue_name=desk.queue).enqueue_on_commit(math.nan)


def test_arguments_are_those_of_the_call_not_of_the_commit(desk: Desk) -> None:
    given = [1]
    task = zoo.echo.using(queue_name=desk.queue)
    with transaction.atomic():
        result = task.enqueue_on_commit(given)
        given.append(2)

    assert task.get_result(result.id).args == [[1]]


def test_an_announced_id_that_is_taken_is_replaced(
    desk: Desk, redis_client: redis.Redis, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    taken = mint.one()
    redis_client.hset(keys(desk.queue).row(taken), "payload", "of another job")
    usual = mint.one
    answers = iter([taken])
    monkeypatch.setattr(mint, "one", lambda *args: next(answers, None) or usual(*args))

    with transaction.atomic():
        zoo.noted.using(queue_name=desk.queue).enqueue_on_commit("mine")

    desk.run()
    assert [one["name"] for one in desk.notes()] == ["mine"]
    assert f"the id {taken} that was announced" in caplog.text


def test_a_call_whose_key_is_taken_at_commit_is_not_sent(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "emq_django.enqueue")
    task = zoo.unique_by_key.using(queue_name=desk.queue)
    first = task.enqueue()
    with transaction.atomic():
        task.enqueue_on_commit()

    assert waiting(desk) == 1
    assert first.id.rpartition(":")[2] in caplog.text


def test_a_server_that_is_away_is_an_error_at_the_commit(desk: Desk) -> None:
    with (
        override_settings(EMQ={"CONNECTION": "redis://127.0.0.1:1/0", "ENQUEUE_DEADLINE_S": 0}),
        pytest.raises(WireError),
        transaction.atomic(),
    ):
        zoo.add.using(queue_name=desk.queue).enqueue_on_commit(1)


def test_a_test_case_that_captures_callbacks_sees_the_calls(desk: Desk) -> None:
    with transaction.atomic(), TestCase.captureOnCommitCallbacks(execute=True) as callbacks:
        for n in range(3):
            zoo.add.using(queue_name=desk.queue).enqueue_on_commit(n)

    assert len(callbacks) == 1
    assert waiting(desk) == 3
