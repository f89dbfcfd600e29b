"""What a worker does with tasks: runs, results, retries, refusals. In this process, in bursts."""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings

from emq_django import enqueue
from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import claim, read
from emq_django.protocol.ids import mint
from emq_django.task_backend import codec
from emq_django.task_backend.codec import Envelope
from emq_django.task_backend.compat import (
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
    task_finished,
    task_started,
)
from emq_django.task_backend.failures import TaskExpired, TriesUsedUp, WorkerLost
from emq_django.task_backend.results import ResultMissing
from tests.task_backend import zoo
from tests.worker.processes import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from emq_django.task_backend.results import EmqTaskResult
    from tests.task_backend.conftest import Desk

pytestmark = pytest.mark.django_db(transaction=True)

SUCCESSFUL, FAILED = TaskResultStatus.SUCCESSFUL, TaskResultStatus.FAILED


@pytest.fixture
def heard() -> Iterator[list[tuple[str, Any, Any]]]:
    """(signal, status, errors) of what started and finished."""
    events: list[tuple[str, Any, Any]] = []

    def on_start(task_result: Any, **_: Any) -> None:
        events.append(("started", task_result.status, len(task_result.errors)))

    def on_finish(task_result: Any, **_: Any) -> None:
        events.append(("finished", task_result.status, len(task_result.errors)))

    task_started.connect(on_start)
    task_finished.connect(on_finish)
    yield events
    task_started.disconnect(on_start)
    task_finished.disconnect(on_finish)


def read_back(result: EmqTaskResult[..., Any]) -> EmqTaskResult[..., Any]:
    return task_backends["default"].get_result(result.id)  # type: ignore[return-value]


def test_a_task_runs_and_its_result_is_read(desk: Desk, heard: list[Any]) -> None:
    result = zoo.add.using(queue_name=desk.queue).enqueue(2, b=3)

    desk.run()
    result.refresh()

    assert result.status == SUCCESSFUL
    assert result.is_finished
    assert result.return_value == 5
    assert result.attempts == 1
    assert result.errors == []
    times = [result.enqueued_at, result.started_at, result.last_attempted_at, result.finished_at]
    assert all(one is not None for one in times)
    assert times == sorted(times)  # type: ignore[type-var]
    assert heard == [("started", "RUNNING", 0), ("finished", SUCCESSFUL, 0)]


def test_a_result_has_the_arguments_that_were_sent(desk: Desk) -> None:
    result = zoo.echo.using(queue_name=desk.queue).enqueue(1, {"a": [2]}, key="é")

    desk.run()
    found = read_back(result)

    assert found.return_value == [[1, {"a": [2]}], {"key": "é"}]
    assert (found.args, found.kwargs) == ([1, {"a": [2]}], {"key": "é"})
    assert found.task == result.task


def test_a_result_goes_after_its_time(desk: Desk, redis_client: redis.Redis, queue: str) -> None:
    with desk.set(RESULT_TTL_S=100):
        result = zoo.add.using(queue_name=desk.queue).enqueue(1)
        desk.run()
        key = keys(queue).row(result.id.rpartition(":")[2]) + b":result"

        assert 90 < redis_client.ttl(key) <= 100
        redis_client.delete(key)  # its time is over
        with pytest.raises(TaskResultDoesNotExist, match="not kept"):
            result.refresh()


def test_a_result_that_is_not_wanted_is_not_kept(
    desk: Desk, redis_client: redis.Redis, queue: str
) -> None:
    wanted = zoo.add.using(queue_name=desk.queue).enqueue(1)
    unwanted = zoo.leaves_no_result.using(queue_name=desk.queue).enqueue()
    desk.run()

    assert read_back(wanted).return_value == 2
    with pytest.raises(TaskResultDoesNotExist):
        read_back(unwanted)
    with desk.set(RESULT_TTL_S=0):
        nothing = zoo.add.using(queue_name=desk.queue).enqueue(1)
        desk.run()
        with pytest.raises(TaskResultDoesNotExist):
            read_back(nothing)


def test_the_queue_remembers_the_last_ids_that_ended(
    desk: Desk, redis_client: redis.Redis, queue: str
) -> None:
    with desk.set(FINISHED_KEPT=3):
        results = [zoo.add.using(queue_name=desk.queue).enqueue(n) for n in range(5)]
        desk.run(concurrency=1)

    remembered: Any = redis_client.zrange(keys(queue).base + b"dj:finished", 0, -1)
    assert [one.decode() for one in remembered] == [
        one.id.rpartition(":")[2] for one in results[2:]
    ]


def test_a_value_that_is_too_large_is_not_kept_and_says_so(desk: Desk) -> None:
    with desk.set(RESULT_MAX_BYTES=100):
        small = zoo.returns.using(queue_name=desk.queue).enqueue(98)
        large = zoo.returns.using(queue_name=desk.queue).enqueue(99)
        desk.run()

    assert read_back(small).return_value == "x" * 98
    large.refresh()
    assert large.status == SUCCESSFUL
    with pytest.raises(ResultMissing, match=r"101 bytes.*RESULT_MAX_BYTES"):
        _ = large.return_value


def test_arguments_that_are_too_large_go_with_the_job(desk: Desk) -> None:
    with desk.set(RESULT_MAX_BYTES=200):
        result = zoo.echo.using(queue_name=desk.queue).enqueue("x" * 300)
        desk.run()

    found = read_back(result)
    assert found.status == SUCCESSFUL
    assert found.task.func is zoo.echo.func
    assert (found.args, found.kwargs) == ([], {})
    assert "RESULT_MAX_BYTES" in found.missing


def test_a_task_that_fails_is_run_again_and_then_given_up(
    desk: Desk, heard: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    result = zoo.fails.using(queue_name=desk.queue).enqueue()

    desk.run()
    result.refresh()

    assert len(desk.notes("failed")) == 3
    assert result.status == FAILED
    assert result.attempts == 3
    assert [one.exception_class for one in result.errors] == [LookupError] * 3
    assert "planned" in result.errors[0].traceback
    assert "zoo.py" in result.errors[0].traceback.splitlines()[1]  # none of our own frames before
    assert result.errors[0].traceback.startswith("Traceback (most recent call last):\n")
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value
    assert [one for one in heard if one[0] == "finished"] == [("finished", FAILED, 1)]
    assert desk.counts().dead == 1
    logged = [one for one in caplog.records if one.name.startswith("django") and one.exc_info]
    assert len(logged) == 1  # Django's own receiver, with the traceback


def test_a_task_that_fails_first_succeeds_with_its_errors_told(desk: Desk) -> None:
    result = zoo.fails_first.using(queue_name=desk.queue).enqueue(2)

    desk.run()
    result.refresh()

    assert result.return_value == 3
    assert result.attempts == 3
    assert [one.traceback.splitlines()[-1] for one in result.errors] == [
        "LookupError: run 1", "LookupError: run 2",
    ]  # fmt: skip
    assert [(one["attempt"], one["token"]) for one in desk.notes("ran")] == [(1, 1), (2, 2), (3, 3)]
    assert len(set(result.worker_ids)) == 1
    assert result.started_at is not None
    assert result.last_attempted_at is not None
    assert result.started_at <= result.last_attempted_at


def test_some_exceptions_are_not_worth_another_run(desk: Desk) -> None:
    for task in (zoo.gives_up.using(queue_name=desk.queue),):
        task.enqueue()
    zoo.retries_on.using(queue_name=desk.queue).enqueue("timeout")
    zoo.retries_on.using(queue_name=desk.queue).enqueue("key")

    desk.run()

    kinds = [one.get("kind") for one in desk.notes("ran")]
    assert sorted(map(str, kinds)) == ["None", "key", "timeout", "timeout", "timeout"]


def test_a_task_may_ask_for_another_run(desk: Desk) -> None:
    result = zoo.asks_for_another_run.using(queue_name=desk.queue).enqueue()

    desk.run()

    assert len(desk.notes("ran")) == 2
    assert read_back(result).status == FAILED


def test_while_it_waits_for_another_run_a_task_is_ready_with_its_error(desk: Desk) -> None:
    result = zoo.fails.using(queue_name=desk.queue).enqueue()
    policy = zoo.fails.backoff
    object.__setattr__(zoo.fails, "backoff", 3_600_000)
    try:
        desk.run()
    finally:
        object.__setattr__(zoo.fails, "backoff", policy)
    result.refresh()

    assert result.status == TaskResultStatus.READY
    assert len(result.errors) == 1
    assert desk.counts().scheduled == 1


@pytest.mark.parametrize("task", [zoo.returns_a_set, zoo.returns_nan])
def test_a_value_that_json_has_not_is_a_failure(desk: Desk, task: Any) -> None:
    result = task.using(queue_name=desk.queue).enqueue()

    desk.run()

    assert read_back(result).status == FAILED


def test_arguments_that_no_longer_fit_are_a_failure(desk: Desk) -> None:
    envelope = codec.Envelope("tests.task_backend.zoo.fails", [1, 2, 3], {})
    receipt = enqueue(desk.queue, codec.encode(envelope))  # by a deploy that knew another one

    desk.run()

    result = task_backends["default"].get_result(f"{desk.queue}:{receipt.id}")
    assert [one.exception_class for one in result.errors] == [TypeError] * 3


def test_a_call_that_has_expired_is_not_run(desk: Desk, heard: list[Any]) -> None:
    late = zoo.noted.using(queue_name=desk.queue, expires_in_s=0.001).enqueue("late")
    timely = zoo.noted.using(queue_name=desk.queue, expires_in_s=60).enqueue("timely")
    time.sleep(0.002)  # the shortest time that a call can expire in

    desk.run()
    late.refresh()

    assert [one["name"] for one in desk.notes()] == ["timely"]
    assert late.status == FAILED
    assert [one.exception_class for one in late.errors] == [TaskExpired]
    assert read_back(timely).status == SUCCESSFUL
    assert desk.counts().dead == 0
    assert ("finished", FAILED, 1) in heard


def test_an_async_task_runs_on_the_loop_with_its_context(desk: Desk) -> None:
    result: Any = zoo.async_add.using(queue_name=desk.queue).enqueue(2, 3)

    desk.run()
    result.refresh()

    assert result.return_value == 5
    assert result.progress == "half"


def test_async_tasks_run_at_the_same_time(desk: Desk) -> None:
    for _ in range(4):
        zoo.async_meets.using(queue_name=desk.queue).enqueue(4)

    desk.run(concurrency=4)

    assert len(desk.notes("met")) == 4


def test_an_async_task_may_use_the_orm_and_leaves_no_connection(desk: Desk) -> None:
    result = zoo.async_counts_users.using(queue_name=desk.queue).enqueue()

    desk.run()

    assert read_back(result).return_value == 0


@pytest.mark.parametrize("task", [zoo.spins, zoo.async_sleeps_long])
def test_a_soft_time_limit_ends_a_run(desk: Desk, task: Any) -> None:
    result = task.using(queue_name=desk.queue).enqueue()

    desk.run()
    result.refresh()

    assert result.status == FAILED
    assert [one.exception_class.__name__ for one in result.errors] == ["SoftTimeLimit"]
    assert "after 0.2 s" in result.errors[0].traceback
    assert len(desk.notes("cleaned up")) == 1


def test_a_hard_limit_is_raised_where_no_parent_could_kill(desk: Desk) -> None:
    result: Any = zoo.spins_without_a_soft_limit.using(queue_name=desk.queue).enqueue()

    desk.run()
    result.refresh()

    assert result.status == FAILED
    assert [one.exception_class.__name__ for one in result.errors] == ["SoftTimeLimit"]
    assert "after 0.2 s" in result.errors[0].traceback


def test_a_limit_that_is_not_reached_changes_nothing(desk: Desk) -> None:
    result = zoo.is_quick.using(queue_name=desk.queue).enqueue()

    desk.run()

    assert read_back(result).return_value == "quick"


def test_progress_and_log_stay_readable(desk: Desk, redis_client: redis.Redis, queue: str) -> None:
    result = zoo.reports.using(queue_name=desk.queue).enqueue()

    desk.run()
    result.refresh()

    assert result.progress == "0.5"
    log = keys(queue).row(result.id.rpartition(":")[2]) + b":logs"
    assert redis_client.lrange(log, 0, -1) == [b"first line", b"second line"]
    assert redis_client.ttl(log) > 0


def test_a_dead_task_that_lost_its_workers_says_so(desk: Desk) -> None:
    result = zoo.add.using(queue_name=desk.queue).enqueue(1)
    named, wire = keys(desk.queue), wire_for(keys(desk.queue))
    for _ in range(2):
        wire.run(claim.take(named, "gone", 1, max_stalled=3))
        until(lambda: desk.counts().expired == 1, "the lease is over")
        desk_reap(desk)
    read = read_back(result)
    assert (read.status, read.worker_ids) == (TaskResultStatus.READY, ["lost", "lost"])
    wire.run(claim.take(named, "gone", 1, max_stalled=3))
    until(lambda: desk.counts().expired == 1, "the lease is over")
    desk_reap(desk)

    dead = read_back(result)

    assert dead.status == FAILED
    assert [one.exception_class for one in dead.errors] == [WorkerLost]
    assert "lost 3 times" in dead.errors[0].traceback


def desk_reap(desk: Desk) -> None:
    from emq_django.protocol import upkeep

    wire_for(keys(desk.queue)).run(upkeep.reap(keys(desk.queue)))


def test_while_it_runs_a_task_is_running(desk: Desk) -> None:
    result = zoo.add.using(queue_name=desk.queue).enqueue(1)
    wire_for(keys(desk.queue)).run(claim.take(keys(desk.queue), "worker-1", 30_000))
    result.refresh()

    assert result.status == TaskResultStatus.RUNNING
    assert result.worker_ids == ["worker-1"]
    assert result.started_at is not None
    assert result.finished_at is None
    assert zoo.add.cancel(result.id) == "asked"


def test_a_task_that_no_worker_knows_is_put_aside_and_costs_no_try(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = send_raw(desk, Envelope("tests.task_backend.zoo.not_yet_there", [], {}))

    desk.run()

    row = wire_for(keys(desk.queue)).run(read.row(keys(desk.queue), job_id))
    assert row is not None
    assert row.held_by == "schedule"
    assert row.score is not None
    assert 4_000 < row.score - row.now_ms <= 15_000
    assert "failures" not in row.fields
    assert "knows no task 'tests.task_backend.zoo.not_yet_there'" in caplog.text


def test_a_task_that_nobody_knows_for_its_grace_time_is_dead(desk: Desk) -> None:
    with desk.set(UNKNOWN_TASK_GRACE_S=0):
        job_id = send_raw(desk, Envelope("nowhere.at_all", [], {}))
        desk.run()

    assert desk.counts().dead == 1
    error = desk.field(f"{desk.queue}:{job_id}", "last_error")
    assert error is not None
    assert b"TASK_MODULES" in error


@pytest.mark.parametrize(
    "path",
    ["os.system", "tests.task_backend.zoo.note", "emq_django.task_backend.runner.run",
     "tests.task_backend.zoo.json.dumps"],
)  # fmt: skip
def test_only_a_task_can_be_named(desk: Desk, path: str) -> None:
    with desk.set(UNKNOWN_TASK_GRACE_S=0):
        send_raw(desk, Envelope(path, ["echo"], {}))
        desk.run()

    assert desk.counts().dead == 1


def test_nothing_is_imported_because_a_payload_asks_for_it(desk: Desk) -> None:
    import sys

    with desk.set(UNKNOWN_TASK_GRACE_S=0):
        send_raw(desk, Envelope("tests.task_backend.never_imported.task", [], {}))
        desk.run()

    assert "tests.task_backend.never_imported" not in sys.modules


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xff", b"null", b"[]", b"{}", b"not json", b'{"v":2,"task":"a.b"}',
     b'{"v":1,"task":"a"}', b'{"v":1,"task":"a.b","args":{}}',
     b'{"v":1,"task":"a.b","expires":"x"}',
     b'{"v":1,"task":"a.b","args":[NaN]}', b"[" * 100_000],
)  # fmt: skip
def test_a_payload_that_is_no_task_dies_at_once_with_the_reason(desk: Desk, payload: bytes) -> None:
    receipt = enqueue(desk.queue, payload)

    desk.run()

    assert desk.counts().dead == 1
    error = desk.field(f"{desk.queue}:{receipt.id}", "last_error")
    assert error is not None
    assert error.startswith(b"emq_django.task_backend.failures.PayloadRefused: the payload is")
    assert b"signature" not in error
    with pytest.raises(TaskResultDoesNotExist):
        task_backends["default"].get_result(f"{desk.queue}:{receipt.id}")


def test_signed_payloads_run_and_others_do_not(desk: Desk) -> None:
    unsigned = zoo.noted.using(queue_name=desk.queue).enqueue("unsigned")
    with desk.set(SIGN_PAYLOADS=True):
        signed = zoo.noted.using(queue_name=desk.queue).enqueue("signed")
        payload = desk.field(signed.id, "payload")
        assert payload is not None
        bent = enqueue(desk.queue, payload.replace(b"signed", b"forged"))
        elsewhere = enqueue(desk.queue, codec.sign(payload.rpartition(b":")[0], "another"))
        desk.run()

        assert [one["name"] for one in desk.notes()] == ["signed"]
        assert read_back(signed).return_value == "signed"
    reasons = {
        one: desk.field(f"{desk.queue}:{one.rpartition(':')[2]}", "last_error")
        for one in (unsigned.id, bent.id, elsewhere.id)
    }
    assert b"not signed" in (reasons[unsigned.id] or b"")
    assert b"signature is wrong" in (reasons[bent.id] or b"")
    assert b"signature is wrong" in (reasons[elsewhere.id] or b"")


@override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["only for the tests"])
def test_a_key_may_be_changed_while_jobs_wait(desk: Desk) -> None:
    with desk.set(SIGN_PAYLOADS=True):
        with override_settings(SECRET_KEY="only for the tests", SECRET_KEY_FALLBACKS=[]):
            zoo.noted.using(queue_name=desk.queue).enqueue("old key")
        desk.run()

    assert [one["name"] for one in desk.notes()] == ["old key"]


def test_a_listener_that_fails_does_not_fail_the_task(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(**_: Any) -> None:
        raise RuntimeError("a receiver's own fault")

    for signal in (task_started, task_finished):
        signal.connect(broken)
    try:
        result = zoo.add.using(queue_name=desk.queue).enqueue(1)
        desk.run()
    finally:
        for signal in (task_started, task_finished):
            signal.disconnect(broken)

    assert read_back(result).return_value == 2
    assert "a receiver's own fault" in caplog.text


def test_priorities_are_three_queues_that_are_served_as_one(desk: Desk) -> None:
    desk.queues[desk.queue] = {"PRIORITIES": True}
    with desk.set():
        task = zoo.noted.using(queue_name=desk.queue)
        results = [task.using(priority=p).enqueue(str(p)) for p in (-5, 0, 5)]
        assert [desk.counts(f"{desk.queue}{band}").pending for band in ("", ".high", ".low")] == [
            1, 1, 1,
        ]  # fmt: skip
        desk.run(concurrency=1)

        assert [one["name"] for one in desk.notes()] == ["5", "0", "-5"]
        for result in results:
            found = read_back(result)
            assert found.return_value == found.args[0]
            assert found.task.queue_name == desk.queue
            assert str(found.task.priority) == found.args[0]


def test_a_flood_of_urgent_jobs_leaves_the_others_a_share(desk: Desk) -> None:
    desk.queues[desk.queue] = {"PRIORITIES": True}
    with desk.set():
        task = zoo.noted.using(queue_name=desk.queue)
        task.using(priority=1).enqueue_many([("high",)] * 60)
        task.enqueue_many([("middle",)] * 3)
        task.using(priority=-1).enqueue_many([("low",)] * 3)
        desk.run(concurrency=1)

    names = [one["name"] for one in desk.notes()]
    assert names.index("middle") < 12
    assert names.index("low") < 12


def test_raw_queues_and_task_queues_are_served_by_one_worker(desk: Desk) -> None:
    raw = f"{desk.queue}-raw"
    desk.queues[raw] = {"HANDLER": "tests.task_backend.zoo.on_raw"}
    with desk.set():
        enqueue(raw, b"bytes")
        zoo.noted.using(queue_name=desk.queue).enqueue("task")
        desk.run(raw, desk.queue)

    assert sorted(one["name"] for one in desk.notes()) == ["raw", "task"]


def test_a_lost_lease_cancels_an_async_task(desk: Desk, redis_client: redis.Redis) -> None:
    import threading

    result = zoo.async_sleeps.using(queue_name=desk.queue).enqueue(30)
    row = keys(desk.queue).row(result.id.rpartition(":")[2])

    def steal() -> None:
        desk.noted("started")
        redis_client.delete(row)  # as if another worker had finished it

    thread = threading.Thread(target=steal)
    thread.start()
    begin = time.monotonic()
    desk.run()
    thread.join()

    assert time.monotonic() - begin < 15
    assert [one["lost"] for one in desk.notes("cancelled")] == [True]


def send_raw(desk: Desk, envelope: Envelope) -> str:
    job_id = mint.one()
    enqueue(desk.queue, codec.encode(envelope), job_id=job_id)
    return job_id


def test_what_a_worker_logs_of_a_task_is_one_line_per_end(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "emq_django.worker")
    result = zoo.add.using(queue_name=desk.queue).enqueue(1)

    desk.run()

    lines = [
        one.getMessage()
        for one in caplog.records
        if result.id.rpartition(":")[2] in one.getMessage()
    ]
    assert [line for line in lines if line.startswith("completed")]
    assert json.dumps(lines).count("completed") == 1


def test_a_task_that_may_fail_less_often_than_it_has_is_not_run_again(
    desk: Desk, redis_client: redis.Redis
) -> None:
    """A deploy lowered its max_attempts while the job waited for another run."""
    result: Any = zoo.fails.using(queue_name=desk.queue).enqueue()
    job_id = result.id.rpartition(":")[2]
    redis_client.hset(keys(desk.queue).row(job_id), "failures", "3")

    desk.run()
    result.refresh()

    assert [one.exception_class for one in result.errors] == [TriesUsedUp]
    assert desk.notes("failed") == []
