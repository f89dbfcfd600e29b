"""Whatever a handler does, its job ends as documented and the worker goes on."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.task_backend.compat import TASKS_LOGGER, TaskResultStatus
from tests.task_backend import zoo as tasks
from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.task_backend.conftest import Desk
    from tests.worker.processes import Bench

DIE_WITH = {
    "ValueError": "ValueError: no",
    "SystemExit": "SystemExit: a job may not end the worker",
    "KeyboardInterrupt": "KeyboardInterrupt",
    "GeneratorExit": "GeneratorExit",
    "StopIteration": "StopIteration",
    "CancelledError": "asyncio.exceptions.CancelledError",
    "OwnBase": "tests.worker.zoo.OwnBase: mine",
    "RecursionError": "RecursionError: maximum recursion depth exceeded",
    "MemoryError": "MemoryError",
    "Hostile": "tests.worker.zoo.Hostile: (no message: its str() raised SystemExit)",
    "HugeMessage": "ValueError: xxx",
    "Injection": "ValueError: first\n2026-01-01 INFO forged",
    "Group": "ExceptionGroup: several (2 sub-exceptions)",
    "Retry": "emq_django.worker.outcomes.Retry: later",
    "GiveUp": "emq_django.worker.outcomes.GiveUp: no such account",
    "Unpicklable": "tests.worker.zoo.Unpicklable: has a lock",
    "SignalHandler": "ValueError: signal only works in main thread",
    "Connection": "django.db.utils.ProgrammingError: Cannot operate on a closed database",
    "Transaction": "emq_django.job_context.TransactionLeftOpen: the job left a transaction open",
}
# What a coroutine that raises it ends with, where that is something else than for a handler.
DIE_ASYNC = {
    "StopIteration": "RuntimeError: coroutine raised StopIteration",
    "LoopClosed": "RuntimeError: Cannot close a running event loop",
    "LoopSignal": "RuntimeError: set_wakeup_fd only works in main thread",
}
# The ORM refuses to work in a coroutine, and these two ask for another run.
NOT_ASYNC = {"Connection", "Transaction", "Retry"}
LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (DEBUG|INFO|WARNING|ERROR) ")


def test_what_job_code_raises_ends_its_job_and_nothing_else(bench: Bench) -> None:
    bench.settings = {"MAX_ATTEMPTS": 1}
    jobs = {odd: bench.add(**{"raise": odd}) for odd in DIE_WITH}
    good = bench.add()

    worker = bench.burst("--concurrency", "2")

    for odd, text in DIE_WITH.items():
        assert bench.held_by(jobs[odd]) == "dead", odd
        error = bench.field(jobs[odd], "last_error") or ""
        assert error.startswith(text), odd
        assert len(error) < 9_000
        assert bench.field(jobs[odd], "failures") == "1"
    # The last one returns: what it left open is seen behind it.
    assert bench.ledger.count("end") == {good: 1, jobs["Transaction"]: 1}
    lines = worker.log().splitlines()
    assert not [line for line in lines if not LINE.match(line)]
    assert max(map(len, lines)) < 1_000
    assert sum(" dead queue=" in line for line in lines) == len(DIE_WITH)


def test_a_connection_that_a_job_broke_is_not_the_next_jobs(bench: Bench) -> None:
    bench.settings = {"MAX_ATTEMPTS": 1}
    broke = bench.add(**{"raise": "Connection"})
    after = bench.add(**{"raise": "Transaction"})

    bench.burst("--concurrency", "1")

    for job_id, odd in ((broke, "Connection"), (after, "Transaction")):
        assert (bench.field(job_id, "last_error") or "").startswith(DIE_WITH[odd])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("odd", ["Thread", "Fork"])
def test_a_handler_that_leaves_a_thread_or_a_child_completes_once(bench: Bench, odd: str) -> None:
    job_id = bench.add(**{"raise": odd})

    worker = bench.burst()

    assert bench.ledger.count("end") == {job_id: 1}
    assert bench.empty()
    assert bench.counts().dead == 0
    assert worker.log().count("completed queue=") == 1


def test_a_failed_job_waits_in_schedule_and_runs_again(bench: Bench) -> None:
    bench.settings = {"MAX_ATTEMPTS": 3, "BACKOFF_BASE_MS": 0}
    job_id = bench.add(**{"raise": "ValueError"})

    worker = bench.burst()

    assert [note.token for note in bench.ledger.notes("start")] == [1, 2, 3]
    assert bench.held_by(job_id) == "dead"
    assert bench.field(job_id, "failures") == "3"
    assert worker.log().count("failed queue=") == 2
    assert worker.log().count("dead queue=") == 1


def test_no_attempts_at_all_means_one_run(bench: Bench) -> None:
    bench.settings = {"MAX_ATTEMPTS": 0}
    job_id = bench.add(**{"raise": "ValueError"})

    bench.burst()

    assert len(bench.ledger.notes("start")) == 1
    assert bench.held_by(job_id) == "dead"


def test_a_retry_names_its_own_pause(bench: Bench) -> None:
    job_id = bench.add(**{"raise": "Retry"})

    bench.burst()

    row = bench.row(job_id)
    assert row is not None
    assert row.held_by == "schedule"
    assert row.score is not None
    assert 590_000 < row.score - row.now_ms <= 600_000


def test_giving_up_ends_the_job_at_its_first_try(bench: Bench) -> None:
    job_id = bench.add(**{"raise": "GiveUp"})

    bench.burst()

    assert bench.held_by(job_id) == "dead"
    assert len(bench.ledger.notes("start")) == 1


# What goes well all the same


def test_language_and_time_zone_of_a_handler_end_with_it(bench: Bench) -> None:
    bench.settings = {"MAX_ATTEMPTS": 1}
    first, second = (bench.add(**{"raise": "Zone"}) for _ in range(2))

    bench.burst("--concurrency", "1")

    assert bench.ledger.count("end") == {first: 1, second: 1}


def test_a_transaction_that_was_left_open_does_not_reach_the_next_job(bench: Bench) -> None:
    bench.settings = {"MAX_ATTEMPTS": 1}
    bench.add(**{"raise": "Transaction"})
    good = bench.add(query=True)

    bench.burst("--concurrency", "1")

    assert bench.ledger.count("end")[good] == 1
    assert bench.counts().dead == 1


def test_half_a_gigabyte_is_borne(bench: Bench) -> None:
    job, other = bench.add(**{"raise": "Memory"}), bench.add()

    bench.burst("--concurrency", "1")

    assert bench.ledger.count("end") == {job: 1, other: 1}


def test_who_lets_no_thread_run_keeps_its_lease(bench: Bench) -> None:
    bench.settings = {"LEASE_MS": 800}
    worker = bench.start("--concurrency", "2")
    job = bench.add(**{"raise": "Hog"})

    until(lambda: bench.ledger.count("end") == {job: 1}, "it has ended")

    until(bench.empty, "and is reported")
    assert bench.ledger.count("start") == {job: 1}
    assert "lease lost" not in worker.log()


@pytest.mark.parametrize("task", [tasks.odd, tasks.async_odd])
def test_a_job_that_ends_its_process_is_dead_after_three_and_the_others_run(
    desk: Desk, task: Any
) -> None:
    worker = desk.start("--concurrency", "2")
    bad = task.using(queue_name=desk.queue).enqueue("Exit")
    until(lambda: ended(bad), "it is given up", 60)
    good = tasks.noted.using(queue_name=desk.queue).enqueue("good")

    until(lambda: ended(good), "the other has ended")
    assert bad.status == TaskResultStatus.FAILED
    assert "lost 3 times" in bad.errors[0].traceback
    assert worker.process.poll() is None


# The same in coroutines


def ended(result: Any) -> bool:
    result.refresh()
    return bool(result.is_finished)


@pytest.mark.parametrize("task", [tasks.odd, tasks.async_odd])
def test_what_a_task_raises_ends_its_job_and_nothing_else(desk: Desk, task: Any) -> None:
    own = DIE_ASYNC if task is tasks.async_odd else {}
    kinds = {**DIE_WITH, **own}
    if task is tasks.async_odd:
        kinds = {kind: text for kind, text in kinds.items() if kind not in NOT_ASYNC}
    else:
        del kinds["Retry"], kinds["Transaction"]  # shown above, as a handler
    worker = desk.start("--concurrency", "4")
    odd = task.using(queue_name=desk.queue)
    results = {kind: odd.enqueue(kind) for kind in kinds}
    good: Any = tasks.async_add.using(queue_name=desk.queue).enqueue(1, 2)

    until(lambda: all(map(ended, [good, *results.values()])), "all have ended", 60)

    assert good.return_value == 3
    for kind, result in results.items():
        assert result.status == TaskResultStatus.FAILED, kind
        assert len(result.errors) == 1, kind
        error = (desk.field(result.id, "last_error") or b"").decode()
        assert error.startswith(kinds[kind]), kind
    if TASKS_LOGGER == "django.tasks":  # the backport's own logger writes tracebacks
        assert not [line for line in worker.log().splitlines() if not LINE.match(line)]
    worker.signal(signal.SIGTERM)
    assert worker.exit_code() == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("kind", ["Thread", "Fork", "Zone", "Memory", "Hog", "Blocks"])
def test_a_coroutine_that_does_this_completes_and_others_run_on(desk: Desk, kind: str) -> None:
    desk.queues[desk.queue] = {"LEASE_MS": 800}
    worker = desk.start("--concurrency", "3")
    odd: Any = tasks.async_odd.using(queue_name=desk.queue).enqueue(kind)
    others = [
        tasks.async_add.using(queue_name=desk.queue).enqueue(1, 2),
        tasks.noted.using(queue_name=desk.queue).enqueue("good"),
    ]

    until(lambda: all(map(ended, [odd, *others])), "all have ended", 60)

    assert odd.return_value == kind, odd.errors
    assert odd.attempts == 1
    assert "lease lost" not in worker.log()


@pytest.mark.parametrize("kind", ["LoopStopped", "InTheBackground", "SystemExit"])
def test_a_loop_that_is_stopped_goes_on_for_the_others(desk: Desk, kind: str) -> None:
    worker = desk.start("--concurrency", "3")
    beside = tasks.async_sleeps.using(queue_name=desk.queue).enqueue(1.0)
    desk.noted("started")
    odd: Any = tasks.async_odd.using(queue_name=desk.queue).enqueue(kind)
    after: Any = tasks.async_add.using(queue_name=desk.queue).enqueue(1, 2)

    until(lambda: all(map(ended, [beside, odd, after])), "all have ended")

    assert beside.status == TaskResultStatus.SUCCESSFUL
    assert after.return_value == 3
    failed = kind == "SystemExit"
    assert odd.status == (TaskResultStatus.FAILED if failed else TaskResultStatus.SUCCESSFUL)
    assert worker.process.poll() is None
