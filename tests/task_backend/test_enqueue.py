"""What enqueue checks, sends and answers."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings
from django.utils import timezone

from emq_django import Verdict
from emq_django.errors import InvalidArguments, InvalidInput, InvalidLane, PayloadTooLarge
from emq_django.task_backend import sending
from emq_django.task_backend.backend import Cancelled, EmqBackend
from emq_django.task_backend.compat import InvalidTask, TaskResultDoesNotExist, TaskResultStatus
from emq_django.task_backend.compat import task_enqueued as enqueued
from tests.task_backend import zoo
from tests.task_backend.conftest import TASKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django.fixtures import Settings

    from tests.task_backend.conftest import Desk


@pytest.fixture
def heard() -> Iterator[list[Any]]:
    """The results that task_enqueued brought."""
    results: list[Any] = []

    def hear(sender: type, task_result: Any, **_: Any) -> None:
        results.append(task_result)

    enqueued.connect(hear)
    yield results
    enqueued.disconnect(hear)


def test_a_call_is_one_json_envelope_with_the_task_s_path(desk: Desk) -> None:
    result = zoo.echo.using(queue_name=desk.queue).enqueue(1, "é", key=[None, True])

    payload = desk.field(result.id, "payload")
    assert payload is not None
    assert json.loads(payload) == {
        "v": 1,
        "task": "tests.task_backend.zoo.echo",
        "args": [1, "é"],
        "kwargs": {"key": [None, True]},
    }
    assert len(payload) < 120  # no white space, text as it is


def test_the_answer_says_what_was_sent(desk: Desk, heard: list[Any]) -> None:
    before = timezone.now()
    result = zoo.add.using(queue_name=desk.queue).enqueue(1, b=2)

    assert result.id.startswith(f"{desk.queue}:JOB")
    assert result.status == TaskResultStatus.READY
    assert result.verdict is Verdict.ENQUEUED
    assert (result.args, result.kwargs) == ([1], {"b": 2})
    assert result.enqueued_at is not None
    assert before - timedelta(seconds=1) < result.enqueued_at <= timezone.now()
    assert heard == [result]
    assert zoo.add.get_result(result.id) == result


async def test_the_async_twins_do_the_same(desk: Desk, heard: list[Any]) -> None:
    result = await zoo.add.using(queue_name=desk.queue).aenqueue(1, b=2)
    many = await zoo.add.using(queue_name=desk.queue).aenqueue_many([(1,), (2,)])

    assert await zoo.add.aget_result(result.id) == result
    assert heard == [result, *many]
    assert await zoo.add.acancel(result.id) == Cancelled.CANCELLED
    await many[0].arefresh()
    assert many[0].status == TaskResultStatus.READY


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ((1, 2), [1, 2]),
        (b"text", "text"),
        ({1: "a", None: "b"}, {"1": "a", "null": "b"}),
        ({"deep": [(1,), range(2)]}, {"deep": [[1], [0, 1]]}),
        (TaskResultStatus.READY, "READY"),
        (1.5, 1.5),
        ("😀", "😀"),
    ],
)
def test_the_caller_sees_what_the_worker_will_see(desk: Desk, given: Any, seen: Any) -> None:
    result = zoo.echo.using(queue_name=desk.queue).enqueue(given, key=given)

    assert (result.args, result.kwargs) == ([seen], {"key": seen})
    assert type(result.args[0]) is type(seen)
    assert zoo.echo.get_result(result.id).args == [seen]


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        (math.nan, InvalidArguments, "NaN"),
        ([math.inf], InvalidArguments, "can't be JSON"),
        ({1: "a", "1": "b"}, InvalidArguments, "'1'"),
        ("half \ud83d", InvalidArguments, "surrogate"),
        ({1, 2}, TypeError, "set"),
        (datetime(2026, 1, 1, tzinfo=UTC), TypeError, "datetime"),
        (b"\xff", ValueError, "bytes"),
        ("x" * 1_100_000, PayloadTooLarge, "MAX_PAYLOAD_BYTES"),
    ],
)
def test_what_json_can_t_carry_is_refused_before_anything_is_sent(
    desk: Desk, given: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        zoo.echo.using(queue_name=desk.queue).enqueue(given)

    assert desk.counts().pending == 0


def test_the_argument_that_json_can_t_carry_is_named(desk: Desk) -> None:
    to_desk = zoo.echo.using(queue_name=desk.queue)

    with pytest.raises(TypeError, match=r"argument 2 can't be sent: pass what .* primary key"):
        to_desk.enqueue("fine", object())
    with pytest.raises(TypeError, match="argument 'key' can't be sent"):
        to_desk.enqueue("fine", key=[{1, 2}])


def test_arguments_that_contain_themselves_are_refused(desk: Desk) -> None:
    circle: list[Any] = []
    circle.append(circle)

    with pytest.raises(InvalidArguments, match="nested"):
        zoo.echo.using(queue_name=desk.queue).enqueue(circle)


def test_a_change_of_the_arguments_after_the_call_changes_nothing(desk: Desk) -> None:
    given = [1]
    result = zoo.echo.using(queue_name=desk.queue).enqueue(given)
    given.append(2)

    assert result.args == [[1]]


def test_run_after_parks_a_call_until_its_time(desk: Desk) -> None:
    later = timezone.now() + timedelta(hours=1)
    result = zoo.add.using(queue_name=desk.queue, run_after=later).enqueue(1)

    assert result.verdict is Verdict.SCHEDULED
    assert desk.counts().scheduled == 1
    read = zoo.add.get_result(result.id)
    assert read.status == TaskResultStatus.READY
    assert read.task.run_after is not None
    assert abs(read.task.run_after - later) < timedelta(milliseconds=1)


@override_settings(USE_TZ=False, TIME_ZONE="Europe/Berlin")
def test_without_time_zones_run_after_is_local_time(desk: Desk) -> None:
    later = datetime.now() + timedelta(hours=1)  # noqa: DTZ005 - that is what USE_TZ=False means
    result = zoo.add.using(queue_name=desk.queue, run_after=later).enqueue(1)

    due_ms = desk.counts().next_due_ms
    assert due_ms is not None
    assert abs(due_ms / 1_000 - later.timestamp()) < 1
    assert result.enqueued_at is not None
    assert timezone.is_naive(result.enqueued_at)


def test_a_time_in_the_past_is_due_at_once(desk: Desk) -> None:
    long_ago = datetime(1960, 1, 1, tzinfo=UTC)
    zoo.noted.using(queue_name=desk.queue, run_after=long_ago).enqueue("past")

    desk.run()

    assert [one["name"] for one in desk.notes("ran")] == ["past"]


def test_many_calls_leave_in_one_flush(
    desk: Desk, monitor: Callable[[], Any], heard: list[Any]
) -> None:
    task = zoo.add.using(queue_name=desk.queue)
    task.enqueue(0)
    with monitor() as recording:
        results = task.enqueue_many([(1,), [2, 3], {"a": 4}, task.bind(5, b=6)])

    assert [(one.args, one.kwargs) for one in results] == [
        ([1], {}), ([2, 3], {}), ([], {"a": 4}), ([5], {"b": 6}),
    ]  # fmt: skip
    assert desk.counts().pending == 5
    assert len([one for one in recording.commands if "evalsha" in str(one).lower()]) == 1
    assert heard[1:] == list(results)
    assert results[-1] is results[3]
    assert len(results[1:3]) == 2


def test_many_calls_that_differ_in_lane_leave_in_one_flush(desk: Desk) -> None:
    lanes = ["USR00000000001", "USR00000000002", None]
    results = zoo.in_a_lane.using(queue_name=desk.queue).enqueue_many([(lane,) for lane in lanes])

    counts = desk.counts()
    assert (counts.pending, counts.lane_pending) == (1, 2)
    assert [one.verdict for one in results] == [Verdict.ENQUEUED] * 3


def test_many_calls_can_be_due_later_and_unique(desk: Desk) -> None:
    later = timezone.now() + timedelta(hours=1)
    task = zoo.unique_by_arguments.using(queue_name=desk.queue, run_after=later)
    results = task.enqueue_many([(1,), (2,), (1,)])

    assert [one.verdict for one in results] == [
        Verdict.SCHEDULED, Verdict.SCHEDULED, Verdict.DUPLICATE,
    ]  # fmt: skip
    assert results[2].id == results[0].id
    assert desk.counts().scheduled == 2


def test_no_calls_are_no_flush(desk: Desk) -> None:
    assert list(zoo.add.using(queue_name=desk.queue).enqueue_many([])) == []


def test_one_bad_call_of_many_keeps_all_out(desk: Desk) -> None:
    with pytest.raises(InvalidArguments):
        zoo.echo.using(queue_name=desk.queue).enqueue_many([(1,), (math.nan,)])
    with pytest.raises(TypeError, match="bind"):
        zoo.echo.using(queue_name=desk.queue).enqueue_many(["text"])

    assert desk.counts().pending == 0


def test_a_lane_must_be_one(desk: Desk) -> None:
    with pytest.raises(InvalidLane):
        zoo.in_a_lane.using(queue_name=desk.queue).enqueue("tenant 7")


def test_a_duplicate_is_answered_by_the_job_that_lives(desk: Desk, heard: list[Any]) -> None:
    task = zoo.unique_by_arguments.using(queue_name=desk.queue)
    first = task.enqueue(1, b=2)
    same = task.enqueue(1, b=2)
    other = task.enqueue(1, b=3)

    assert same.id == first.id
    assert same.verdict is Verdict.DUPLICATE
    assert other.id != first.id
    assert heard == [first, other]
    assert desk.counts().pending == 2


async def test_an_async_duplicate_is_answered_by_the_job_that_lives(desk: Desk) -> None:
    task = zoo.unique_by_key.using(queue_name=desk.queue)

    first, second = await task.aenqueue(), await task.aenqueue()

    assert (second.id, second.verdict) == (first.id, Verdict.DUPLICATE)


def test_a_call_is_unique_however_its_arguments_are_spelt(desk: Desk) -> None:
    task: Any = zoo.unique_by_arguments.using(queue_name=desk.queue)

    alike = [task.enqueue(1, 2), task.enqueue(1, b=2), task.enqueue(b=2, a=1)]
    other = task.enqueue(2, 1)

    assert len({one.id for one in alike}) == 1
    assert other.id != alike[0].id


MISFITS = [
    ((), {}, "missing a required argument: 'a'"),
    ((1, 2, 3), {}, "too many positional arguments"),
    ((1,), {"c": 3}, "unexpected keyword argument 'c'"),
    ((1,), {"a": 1}, "multiple values for argument 'a'"),
]


@pytest.mark.parametrize(("args", "kwargs", "says"), MISFITS)
def test_a_call_that_the_task_can_t_take_is_refused_before_anything_is_sent(
    desk: Desk, args: tuple[Any, ...], kwargs: dict[str, Any], says: str
) -> None:
    task: Any = zoo.add.using(queue_name=desk.queue)
    with pytest.raises(InvalidArguments, match=rf"zoo\.add can't be called like this: .*{says}"):
        task.enqueue(*args, **kwargs)
    with pytest.raises(InvalidArguments, match=says):
        task.enqueue_many([task.bind(1), task.bind(*args, **kwargs)])
    with_lane = task.using(lane=lambda a: TENANT)
    with pytest.raises(InvalidArguments, match=says):  # not the function for the lane is blamed
        with_lane.enqueue(*args, **kwargs)
    assert desk.counts().pending == desk.counts().lane_pending == 0


def test_what_a_decorator_adds_or_collects_is_not_asked_of_the_caller(desk: Desk) -> None:
    zoo.with_a_tool.using(queue_name=desk.queue).enqueue("name")
    zoo.echo.using(queue_name=desk.queue).enqueue(1, 2, x=3)
    task: Any = zoo.async_add.using(queue_name=desk.queue)
    task.enqueue(1, 2)  # the context is not the caller's to give

    with pytest.raises(InvalidArguments, match="too many"):
        task.enqueue(None, 1, 2)
    assert desk.counts().pending == 3


def test_a_unique_key_is_free_when_its_job_has_ended(desk: Desk) -> None:
    task = zoo.unique_by_key.using(queue_name=desk.queue)
    first = task.enqueue()
    desk.run()
    second = task.enqueue()
    task.cancel(second.id)
    third = task.enqueue()

    assert len({first.id, second.id, third.id}) == 3


def test_a_function_decides_what_is_unique(desk: Desk) -> None:
    task: Any = zoo.unique_by_function.using(queue_name=desk.queue)

    ids = [task.enqueue(*args).id for args in [(1, "a"), (1, "b"), (2, "a"), (0,), (0,)]]

    assert ids[0] == ids[1]
    assert len(set(ids)) == 4


TENANT = "USR00000000001"


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((TENANT, "rows"), {}),
        ((TENANT,), {"path": "rows"}),
        ((), {"path": "rows", "tenant": TENANT}),
        ((TENANT,), {}),  # the default of the task, which the function asks for
    ],
)
def test_a_function_of_the_arguments_gets_them_by_their_names(
    desk: Desk, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    task: Any = zoo.by_name.using(queue_name=desk.queue)
    job = task.enqueue(*args, **kwargs)

    assert desk.counts().lane_pending == 1
    again = task.using(unique=f"{TENANT}-rows").enqueue(TENANT)
    assert (again.verdict, again.id) == (Verdict.DUPLICATE, job.id)


def test_the_context_is_no_argument_for_a_function_of_the_arguments(desk: Desk) -> None:
    task: Any = zoo.by_name_with_context.using(queue_name=desk.queue)
    first = task.enqueue(7, "rows")

    assert task.enqueue(tenant=8, path="rows").id == first.id
    assert task.enqueue(7, "columns").id != first.id


@pytest.mark.parametrize(
    "function",
    [
        lambda other, *_: f"{other}",
        lambda other, second="": f"{other}",
        lambda other, /, note="": f"{other}",
        "{}".format,  # has no signature with names
    ],
    ids=["collects", "has-a-default", "by-position", "builtin"],
)
def test_a_function_with_names_of_its_own_gets_the_arguments_as_given(
    desk: Desk, function: Callable[..., str]
) -> None:
    task: Any = zoo.unique_by_function.using(queue_name=desk.queue, unique=function)

    first = task.enqueue(7, "a")
    assert task.enqueue(7, "b").id == first.id
    assert task.enqueue(8, "a").id != first.id


@pytest.mark.parametrize("option", ["lane", "unique"])
def test_a_function_of_the_arguments_that_fails_is_told_of_by_name(desk: Desk, option: str) -> None:
    options: dict[str, Any] = {option: lambda number: number["tenant"]}
    task: Any = zoo.echo.using(queue_name=desk.queue, **options)

    with pytest.raises(InvalidInput, match=rf"^{option} of task .*\.zoo\.echo raised") as caught:
        task.enqueue(7)
    assert isinstance(caught.value.__cause__, TypeError)


def test_a_key_of_any_length_is_unique(desk: Desk) -> None:
    task = zoo.unique_by_key.using(queue_name=desk.queue, unique="k" * 1_000)

    assert task.enqueue().id == task.enqueue().id


@pytest.mark.parametrize("key", ["", 7])
def test_a_key_that_is_none_is_refused(desk: Desk, key: Any) -> None:
    with pytest.raises(InvalidInput, match="unique"):
        zoo.unique_by_key.using(queue_name=desk.queue, unique=lambda: key).enqueue()


def test_a_call_that_waits_can_be_cancelled(desk: Desk) -> None:
    result = zoo.noted.using(queue_name=desk.queue).enqueue("never")

    assert zoo.noted.cancel(result.id) == Cancelled.CANCELLED
    assert zoo.noted.cancel(result.id) == Cancelled.GONE
    desk.run()
    assert desk.notes() == []
    with pytest.raises(TaskResultDoesNotExist):
        result.refresh()


def test_a_call_that_has_ended_can_t_be_cancelled(desk: Desk) -> None:
    good = zoo.add.using(queue_name=desk.queue).enqueue(1)
    bad = zoo.fails.using(queue_name=desk.queue).enqueue()
    desk.run()

    assert zoo.add.cancel(good.id) == Cancelled.FINISHED
    assert zoo.fails.cancel(bad.id) == Cancelled.FINISHED
    bad.refresh()
    assert bad.status == TaskResultStatus.FAILED


@pytest.mark.parametrize(
    "wanted", ["", "x", "q:", ":JOB00000000001", "q:JOB1", "{q}:JOB00000000001"]
)
def test_what_is_no_result_id_does_not_exist(desk: Desk, wanted: str) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        zoo.add.get_result(wanted)


def test_a_result_belongs_to_its_task(desk: Desk) -> None:
    result = zoo.add.using(queue_name=desk.queue).enqueue(1)

    with pytest.raises(Exception, match="does not match"):
        zoo.echo.get_result(result.id)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"priority": 1}, "priority"),
        ({"queue_name": "a{b"}, "queue"),
        ({"run_after": datetime(2026, 1, 1)}, "aware"),  # noqa: DTZ001
    ],
)
def test_a_task_that_can_t_run_is_refused(desk: Desk, wrong: Any, says: str) -> None:
    with pytest.raises(InvalidTask, match=says):
        zoo.add.using(**wrong)


def test_a_task_is_validated_once_and_anew_when_the_settings_change(
    desk: Desk, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    validated: list[Any] = []
    validate = sending.validate

    def noted(task: Any, backend: Any) -> None:
        validated.append(task)
        validate(task, backend)

    monkeypatch.setattr(sending, "validate", noted)
    task = zoo.add.using(queue_name=desk.queue)
    for _ in range(3):
        task.enqueue(1, 2)
    task.enqueue_many([[1, 2]])
    assert validated == [task]

    settings.EMQ = {**settings.EMQ, "QUEUES": {desk.queue: {"MAX_ATTEMPTS": 2}}}

    task.enqueue(1, 2)
    assert validated == [task, task]


def test_a_backend_that_decides_for_each_call_is_asked_for_each(desk: Desk) -> None:
    backend = Refusing("default", TASKS["default"])
    task = zoo.add.using(queue_name=desk.queue)
    backend.enqueue(task, [1, 2], {})

    Refusing.refuses = True
    try:
        with pytest.raises(InvalidTask, match="not now"):
            backend.enqueue(task, [1, 2], {})
    finally:
        Refusing.refuses = False


class Refusing(EmqBackend):
    refuses = False

    def validate_task(self, task: Any) -> None:
        super().validate_task(task)
        if self.refuses:
            raise InvalidTask("not now")


def test_a_backend_does_not_keep_every_task_that_it_has_seen(desk: Desk) -> None:
    backend = EmqBackend("default", TASKS["default"])

    for number in range(600):
        backend._validate(zoo.add.using(queue_name=desk.queue, run_after=_later(number)))

    assert len(backend._valid) <= 256


def _later(seconds: int) -> datetime:
    return timezone.now() + timedelta(seconds=seconds)
