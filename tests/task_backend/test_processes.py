"""Tasks in worker processes: end to end, killed, stopped, raced and half deployed."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import read
from emq_django.task_backend.compat import TaskResultStatus
from emq_django.worker.outcomes import HardTimeLimit
from tests.task_backend import zoo
from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.task_backend.conftest import Desk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def done(*results: Any) -> bool:
    for result in results:
        result.refresh()
    return all(result.is_finished for result in results)


def test_a_worker_process_runs_what_a_web_process_enqueues(desk: Desk) -> None:
    desk.start("--concurrency", "4")
    good = zoo.add.using(queue_name=desk.queue).enqueue(2, b=3)
    bad = zoo.fails.using(queue_name=desk.queue).enqueue()
    async_one = zoo.async_add.using(queue_name=desk.queue).enqueue(1, 1)
    many = zoo.noted.using(queue_name=desk.queue).enqueue_many([(str(n),) for n in range(50)])

    until(lambda: done(good, bad, async_one, *many), "all have ended")

    assert good.return_value == 5
    assert bad.status == TaskResultStatus.FAILED
    assert len(bad.errors) == 3
    assert async_one.progress == "half"
    assert sorted(one.return_value for one in many) == sorted(str(n) for n in range(50))
    assert "Traceback" not in desk.workers[0].log().replace("Traceback (most recent call last)", "")


def test_a_task_of_a_killed_worker_runs_again_as_its_second_attempt(desk: Desk) -> None:
    desk.queues[desk.queue] = {"LEASE_MS": 1_000}
    first = desk.start()
    result = zoo.tells_its_attempt.using(queue_name=desk.queue).enqueue()
    desk.noted("attempt")
    first.kill()
    desk.start()

    until(lambda: done(result), "it has ended")

    assert [one["attempt"] for one in desk.notes("attempt")] == [1, 2]
    assert result.return_value == 2
    assert result.worker_ids[0] == "lost"
    assert result.attempts == 2


def test_a_lease_of_its_own_outlives_the_queue_s(desk: Desk) -> None:
    """The queue's lease would be over while the interpreter is stopped, the task's is not."""
    desk.queues[desk.queue] = {"LEASE_MS": 1_000}
    desk.start()
    result = zoo.holds_a_long_lease.using(queue_name=desk.queue).enqueue()

    until(lambda: done(result), "it has ended")

    assert result.return_value > 30_000


RACER = """
import django, sys
django.setup()
from tests.task_backend import zoo
task = zoo.unique_by_key.using(queue_name=sys.argv[1])
sys.stdin.readline()
results = [task.enqueue() for _ in range(200)]
print(*{one.id for one in results}, sum(one.verdict == "enqueued" for one in results))
"""


def test_two_processes_that_race_for_a_unique_key_enqueue_one_job(desk: Desk) -> None:
    import os

    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.task_backend.settings",
        "EMQ_TEST_QUEUES": f'{{"{desk.queue}": {{}}}}',
    }
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, desk.queue],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    answers = [racer.communicate(timeout=60)[0].split() for racer in racers]

    assert desk.counts().pending == 1
    assert {one for answer in answers for one in answer[:-1]} == {answers[0][0]}
    assert sum(int(answer[-1]) for answer in answers) == 1


def test_a_deploy_that_reaches_one_worker_first_loses_nothing(desk: Desk) -> None:
    """The old worker puts the new task's job aside; the new one runs it when it is due again."""
    desk.emq["TASK_MODULES"] = []
    old = desk.start()
    result = zoo.noted.using(queue_name=desk.queue).enqueue("new")
    old.wait_for_log("put aside")
    old.kill()
    desk.emq["TASK_MODULES"] = ["tests.task_backend.zoo"]
    desk.start()

    until(lambda: done(result), "the new worker ran it")

    assert result.return_value == "new"
    assert [one["name"] for one in desk.notes("ran")] == ["new"]
    assert result.errors == []


def test_a_hard_limit_ends_a_task_that_nothing_else_can_end(desk: Desk) -> None:
    worker = desk.start()
    stuck = zoo.blocks_for_ever.using(queue_name=desk.queue).enqueue()
    until(lambda: done(stuck), "it was given up")
    after = zoo.add.using(queue_name=desk.queue).enqueue(1)
    until(lambda: done(after), "the worker goes on")

    assert stuck.status == TaskResultStatus.FAILED
    assert len(desk.notes("blocked")) == 2
    assert worker.process.poll() is None


@pytest.mark.parametrize(
    ("task", "limit_s"), [(zoo.blocks_for_ever, 0), (zoo.blocks_without_a_limit, 1)],
    ids=["of the task", "of the queue"],
)  # fmt: skip
def test_each_run_that_a_hard_limit_ends_is_an_error_and_has_its_worker(
    desk: Desk, task: Any, limit_s: float
) -> None:
    desk.queues[desk.queue] = {"HARD_LIMIT_S": limit_s}
    worker = desk.start("--processes", "1")
    stuck = task.using(queue_name=desk.queue).enqueue()

    until(lambda: done(stuck), "it was given up")

    assert stuck.status == TaskResultStatus.FAILED
    assert [one.exception_class for one in stuck.errors] == [HardTimeLimit] * 2
    # The limit of a task counts from when it is set, a little later than its run.
    assert re.search(r"still running after 1(\.\d+)? s", stuck.errors[0].traceback)
    assert stuck.attempts == 2
    assert stuck.worker_ids == worker.incarnations()[:2]
    assert stuck.started_at < stuck.last_attempted_at < stuck.finished_at


def test_a_task_whose_only_try_the_hard_limit_ends_is_dead_of_it_at_once(desk: Desk) -> None:
    desk.start()
    stuck = zoo.blocks_once.using(queue_name=desk.queue).enqueue()

    until(lambda: done(stuck), "it was given up")

    assert [one.exception_class for one in stuck.errors] == [HardTimeLimit]
    assert stuck.attempts == 1
    assert (desk.field(stuck.id, "last_error") or b"").startswith(b"HardTimeLimit: still running")
    assert desk.field(stuck.id, "attempts") == b"1"  # no worker has claimed it again


def test_a_task_that_a_hard_limit_ended_waits_for_its_own_pause_and_shows_why(desk: Desk) -> None:
    desk.start()
    stuck = zoo.blocks_and_waits_long.using(queue_name=desk.queue).enqueue()

    def failed_once() -> bool:
        stuck.refresh()
        return bool(stuck.errors)

    until(failed_once, "its first run has failed")

    named = keys(desk.queue)
    row = wire_for(named).run(read.row(named, stuck.id.rpartition(":")[2]))
    assert row is not None
    assert row.score is not None
    assert row.score - row.now_ms > 1_800_000  # the queue's pause would be a second at most
    assert stuck.status == TaskResultStatus.READY
    assert [one.exception_class for one in stuck.errors] == [HardTimeLimit]
    assert stuck.attempts == 1


def test_a_task_that_was_asked_to_end_and_had_to_be_killed_is_not_run_again(desk: Desk) -> None:
    desk.start()
    stuck = zoo.blocks_for_a_while.using(queue_name=desk.queue).enqueue()
    desk.noted("blocked")
    assert stuck.cancel() == "asked"

    until(lambda: done(stuck), "it is dead, an hour before it would run again")

    assert [one.exception_class for one in stuck.errors] == [HardTimeLimit]
    assert len(desk.notes("blocked")) == 1
