"""emq_django.testing: isolation, runs, assertions and their messages, the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.test import override_settings
from django.utils import timezone

from emq_django import enqueue, enqueue_in, testing
from emq_django.conf import conf
from emq_django.errors import ConfigError
from emq_django.timetable import entries as timetable
from tests.task_backend import zoo
from tests.task_backend.conftest import TASKS

if TYPE_CHECKING:
    from collections.abc import Iterator


LANE = "USR0KHTOWnGLuC"
RAW = {"QUEUES": {"raw": {"HANDLER": "tests.testing.test_helpers.handle"}}}
handled: list[bytes] = []

pytestmark = pytest.mark.server


def handle(job: Any) -> None:
    handled.append(job.payload)
    if job.payload == b"bad":
        raise LookupError("planned")


@pytest.fixture(autouse=True)
def prefix(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("EMQ_TEST_LEDGER", str(tmp_path / "ledger"))
    handled.clear()
    with override_settings(TASKS=TASKS), testing.isolated() as made:
        yield made


def test_two_isolated_tests_do_not_see_each_other() -> None:
    zoo.add.enqueue(1)
    with testing.isolated():
        assert testing.enqueued() == []
    assert len(testing.enqueued()) == 1


def test_override_emq_keeps_the_rest() -> None:
    with testing.override_emq(MAX_PAYLOAD_BYTES=5):
        assert settings.EMQ["CONNECTION"] == "queue"
        assert conf().max_payload_bytes == 5
    assert conf().max_payload_bytes != 5


def test_run_pending_runs_tasks_and_raw_jobs_and_what_they_enqueue() -> None:
    with testing.override_emq(**RAW):
        enqueue("raw", b"hello")
        result = zoo.add.enqueue(1, b=2)
        ran = testing.run_pending()

    assert handled == [b"hello"]
    result.refresh()
    assert result.return_value == 3
    assert sorted((one.queue, one.task) for one in ran) == [
        ("default", "tests.task_backend.zoo.add"), ("raw", ""),
    ]  # fmt: skip
    assert all(one.error is None for one in ran)


def test_what_a_job_raises_goes_to_the_test_after_it_was_settled() -> None:
    with testing.override_emq(**RAW):
        enqueue("raw", b"bad")
        with pytest.raises(LookupError, match="planned"):
            testing.run_pending("raw")
        assert [job.due is not None for job in testing.enqueued("raw")] == [True]
        enqueue("raw", b"bad")
        assert isinstance(testing.run_pending("raw", raise_errors=False)[0].error, LookupError)


def test_jobs_that_enqueue_each_other_for_ever_end_in_a_failure() -> None:
    with testing.override_emq(**RAW):
        for _ in range(4):
            enqueue("raw", b"x")
        with pytest.raises(AssertionError, match="more jobs after 3"):
            testing.run_pending("raw", most=3)


def test_a_queue_that_nobody_serves_is_refused_by_name() -> None:
    with override_settings(TASKS={}), pytest.raises(ConfigError, match="no handler"):
        testing.run_pending("raw")
    with override_settings(TASKS={}), pytest.raises(ConfigError, match="no queue to run"):
        testing.run_pending()


def test_immediate_runs_each_task_and_raises_what_it_raises() -> None:
    with testing.immediate():
        result = zoo.add.enqueue(1, b=1)
        result.refresh()
        assert result.return_value == 2
        with pytest.raises(PermissionError):
            zoo.gives_up.enqueue()
        many = zoo.add.enqueue_many([(1,), (2,)])
    assert testing.enqueued() == []
    many[1].refresh()
    assert many[1].return_value == 3
    zoo.add.enqueue(1)
    assert len(testing.enqueued()) == 1


async def test_the_async_twins() -> None:
    result = await zoo.async_add.aenqueue(1, 2)
    assert [job.args for job in await testing.aenqueued()] == [[1, 2]]

    await testing.arun_pending()

    await result.arefresh()
    assert str(result.return_value) == "3"


# --- assertions ----------------------------------------------------------------------------------


def test_assert_enqueued_finds_by_every_part() -> None:
    zoo.add.using(lane=LANE).enqueue(1, b=2)
    enqueue("raw", b"bytes", lane=LANE)
    enqueue_in("raw", b"later", timedelta(hours=1))

    found = testing.assert_enqueued(zoo.add, args=(1,), kwargs={"b": 2}, lane=LANE, times=1)
    assert str(found[0]) == f"tests.task_backend.zoo.add(1, b=2) queue=default lane={LANE}"
    testing.assert_enqueued("tests.task_backend.zoo.add")
    testing.assert_enqueued(queue="raw", payload=b"bytes", lane=LANE)
    testing.assert_enqueued(queue="raw", payload=b"later", lane=None)
    testing.assert_enqueued(queue="raw", times=2)
    testing.assert_enqueued(times=3)
    testing.assert_not_enqueued(zoo.add, args=[2])
    testing.assert_not_enqueued(zoo.noted)


def test_a_failure_says_what_is_there_instead() -> None:
    zoo.add.enqueue(5, b=6)
    zoo.noted.enqueue("x")

    with pytest.raises(AssertionError) as caught:
        testing.assert_enqueued(zoo.add, args=[6])

    assert str(caught.value).splitlines() == [
        "expected at least one job of tests.task_backend.zoo.add args=[6], found 0",
        "enqueued (2):",
        "  ~ tests.task_backend.zoo.add(5, b=6) queue=default",
        "      args: [5], not [6]",
        "    tests.task_backend.zoo.noted('x') queue=default",
    ]
    with pytest.raises(AssertionError, match="expected 0 jobs of any kind, found 2"):
        testing.assert_not_enqueued()
    with pytest.raises(AssertionError, match="expected 2 jobs of"):
        testing.assert_enqueued(zoo.add, times=2)


def test_a_failure_with_nothing_there_says_so() -> None:
    with pytest.raises(AssertionError, match="nothing is enqueued"):
        testing.assert_enqueued(zoo.add)


# --- time ----------------------------------------------------------------------------------------


def test_delayed_jobs_fall_due_when_the_clock_says_so() -> None:
    clock = testing.Clock()
    for hours in (1, 2, 30):
        later = timezone.now() + timedelta(hours=hours)
        zoo.add.using(run_after=later).enqueue(hours)

    clock.advance(minutes=59)
    assert testing.run_pending() == []
    clock.advance(minutes=2)
    assert len(testing.run_pending()) == 1
    clock.advance(hours=20)
    assert len(testing.run_pending()) == 1
    clock.advance(timedelta(hours=10))
    assert len(testing.run_pending()) == 1


def test_a_job_delayed_after_the_clock_moved_counts_from_then() -> None:
    clock = testing.Clock()
    clock.advance(days=5)
    enqueue_in("default", b"x", timedelta(hours=1))

    clock.advance(minutes=30)
    assert testing.enqueued()[0].due is not None
    clock.advance(minutes=31)
    assert testing.enqueued()[0].due is None


def test_the_clock_only_goes_forward() -> None:
    clock = testing.Clock()
    with pytest.raises(ValueError, match="in the past"):
        clock.advance(seconds=-1)
    with pytest.raises(ValueError, match="naive"):
        clock.advance_to(datetime(2030, 1, 1))  # noqa: DTZ001
    before = clock.now()
    clock.advance(days=1)
    assert timedelta(days=1) <= clock.now() - before < timedelta(days=1, minutes=1)


def test_periodic_tasks_are_enqueued_for_each_of_their_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timetable, "_declared", {})
    its = {
        "six": {"TASK": "tests.task_backend.zoo.noted", "CRON": "0 6 * * *", "ARGS": ["six"]},
        "hourly": {"TASK": "tests.task_backend.zoo.noted", "EVERY_S": 3_600, "ARGS": ["hour"]},
    }
    with testing.override_emq(PERIODIC=its, TASK_MODULES=[]):
        clock, no_clock = testing.Clock(), testing.Clock(periodic=[])
        no_clock.advance(days=1)
        testing.assert_not_enqueued()
        midnight = (clock.now() + timedelta(days=1)).replace(hour=0, minute=0, second=0)
        testing.Clock(periodic=["six"])
        six_only = testing.Clock(periodic=["six"])
        six_only.advance_to(midnight.astimezone(UTC) + timedelta(days=2, hours=7))
        testing.assert_enqueued(zoo.noted, args=["hour"], times=0)
        sixes = len(testing.assert_enqueued(zoo.noted, args=["six"]))
        clock.advance(hours=3)
        testing.assert_enqueued(zoo.noted, args=["hour"], times=3)

    assert sixes in {3, 4}
