"""What a declaration may say, how other backends take it, and what the system checks find."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import django
import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import override_settings
from django.utils.module_loading import import_string

from emq_django import Backoff, Verdict, outbox, task
from emq_django.errors import ConfigError
from emq_django.task_backend import checks, options, registry, tracing
from emq_django.task_backend.backend import EmqBackend
from emq_django.task_backend.compat import (
    TASKS_LOGGER,
    BaseTaskBackend,
    InvalidTask,
    task_backends,
)
from emq_django.task_backend.task import EmqTask, option_names
from emq_django.worker import aio, limits
from emq_django.worker.outcomes import SoftTimeLimit
from emq_django.workers import options_for
from tests.task_backend import zoo
from tests.task_backend.conftest import TASKS

if TYPE_CHECKING:
    from tests.task_backend.conftest import Desk

django_s_task: Any = import_string(f"{TASKS_LOGGER}.task")
BACKENDS = BaseTaskBackend.__module__.rpartition(".")[0]
IMMEDIATE = {"default": {"BACKEND": f"{BACKENDS}.immediate.ImmediateBackend", "QUEUES": []}}
DUMMY = {"default": {"BACKEND": f"{BACKENDS}.dummy.DummyBackend", "QUEUES": []}}


def plain(a: int = 0) -> int:
    return a


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"max_attempts": 0}, "max_attempts=0"),
        ({"max_attempts": True}, "max_attempts=True"),
        ({"max_attempts": 1.5}, "max_attempts=1.5"),
        ({"lease_ms": 99}, "lease_ms=99"),
        ({"soft_time_limit_s": 0}, "soft_time_limit_s=0"),
        ({"time_limit_s": "1"}, "time_limit_s='1'"),
        ({"soft_time_limit_s": 2, "time_limit_s": 1}, "above time_limit_s"),
        ({"expires_in_s": float("nan")}, "expires_in_s=nan"),
        ({"expires_in_s": timedelta(0)}, "expires_in_s"),
        ({"result_ttl_s": -1}, "result_ttl_s=-1"),
        ({"backoff": -1}, "backoff=-1"),
        ({"backoff": "fast"}, "a Backoff, or a function"),
        ({"backoff": Backoff}, "returns ms"),
        ({"retry_on": "ValueError"}, "exception class"),
        ({"give_up_on": (ValueError, 1)}, "give_up_on"),
        ({"unique": 1.5}, "unique=1.5"),
        ({"lane": 7}, "lane=7"),
    ],
)
def test_an_option_that_can_t_work_is_refused_at_import(
    desk: Desk, keywords: dict[str, Any], says: str
) -> None:
    declare: Any = task
    with pytest.raises(InvalidTask, match=says.replace("(", r"\(")):
        declare(**keywords)(plain)


@pytest.mark.parametrize("numbers", [{"base_ms": -1}, {"cap_ms": 1.5}, {"base_ms": 9, "cap_ms": 8}])
def test_a_backoff_that_can_t_work_is_refused(numbers: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask, match="backoff"):
        Backoff(**numbers)


def test_a_backoff_doubles_up_to_its_cap() -> None:
    exact = Backoff(base_ms=100, cap_ms=500, jitter=False)
    drawn = Backoff(base_ms=100, cap_ms=500)

    assert [exact(tries) for tries in (1, 2, 3, 4)] == [100, 200, 400, 500]
    assert all(0 <= drawn(tries) <= exact(tries) for tries in range(1, 50))


def test_a_task_s_own_policy_comes_before_its_queue_s(desk: Desk) -> None:
    desk.queues[desk.queue] = {"MAX_ATTEMPTS": 9, "BACKOFF_BASE_MS": 0, "BACKOFF_CAP_MS": 0}
    with desk.set():
        own = options.policy_of(task(max_attempts=2, backoff=lambda n: n * 7)(plain), desk.queue)
        fixed = options.policy_of(task(backoff=5)(plain), desk.queue)
        none = options.policy_of(task(plain), desk.queue)

    assert (own.max_attempts, own.pause_ms(3)) == (2, 21)
    assert (fixed.max_attempts, fixed.pause_ms(3)) == (9, 5)
    assert (none.max_attempts, none.pause_ms(3)) == (9, 0)


def test_run_after_is_not_for_the_decorator(desk: Desk) -> None:
    with pytest.raises(TypeError, match="using"):
        task(run_after=None)(plain)  # type: ignore[call-overload]


def test_a_queue_that_is_not_listed_is_refused_with_what_to_do() -> None:
    backend = {"BACKEND": "emq_django.task_backend.EmqBackend", "QUEUES": ["emails", "reports"]}
    says = r"'emials' is not valid .* TASKS\['default'\]\['QUEUES'\].* Did you mean 'emails'"
    with override_settings(TASKS={"default": backend}), pytest.raises(InvalidTask, match=says):
        task(queue_name="emials")(plain)


def test_a_nested_function_is_no_task(desk: Desk) -> None:
    def nested() -> None:
        """Can't be found by its path."""

    with pytest.raises(InvalidTask):
        task(nested)


def without_context(a: int) -> int:
    return a


def with_context_elsewhere(a: int, context: Any) -> int:
    return a


def without_arguments() -> None:
    """Takes nothing."""


@pytest.mark.parametrize(
    "function",
    [without_context, with_context_elsewhere, without_arguments],
    ids=lambda f: f.__name__,
)
def test_a_task_with_context_takes_it_first(desk: Desk, function: Any) -> None:
    """As Django and the backport say it, from their decorator and from ours."""
    declare: Any = task
    for decorator in (declare, django_s_task):
        with pytest.raises(InvalidTask, match="first argument of 'context'"):
            decorator(takes_context=True)(function)


renamed = task(plain)


@pytest.mark.django_db
def test_a_task_that_no_worker_would_find_by_its_name_is_refused_at_the_call(desk: Desk) -> None:
    lost = renamed.using(queue_name=desk.queue)
    says = r"no task at tests\.task_backend\.test_declare\.plain, where a worker looks"

    for enter in (
        lambda: lost.enqueue(1),
        lambda: lost.enqueue_many([(1,)]),
        lambda: lost.enqueue_on_commit(1),
        lambda: outbox.enqueue_task(lost, [1]),
    ):
        with pytest.raises(InvalidTask, match=says):
            enter()
    assert desk.counts().pending == 0


async def test_the_async_twins_refuse_it_too(desk: Desk) -> None:
    lost = renamed.using(queue_name=desk.queue)

    with pytest.raises(InvalidTask, match="no task at"):
        await lost.aenqueue(1)
    with pytest.raises(InvalidTask, match="no task at"):
        await lost.aenqueue_many([(1,)])


SCRIPT = """
import django
django.setup()
from emq_django import task
from emq_django.task_backend.compat import InvalidTask

@task
def greet(name):
    return name

def sent():
    try:
        greet.enqueue("a")
    except InvalidTask as exc:
        return str(exc)
"""


@pytest.mark.parametrize("as_main", [True, False])
def test_a_task_of_the_script_or_the_shell_is_refused(as_main: bool) -> None:
    """A worker has another ``__main__``; what a shell defines has no module at all."""
    code = SCRIPT if as_main else f"space = {{}}\nexec({SCRIPT!r}, space)\nsent = space['sent']\n"
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.task_backend.settings"}
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nprint(sent())"],
        env=environment, capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip

    assert "greet is in the script or the shell that this process was started" in done.stdout
    assert "keep greet in a module of an app, such as its tasks.py" in done.stdout


@pytest.mark.skipif(django.VERSION < (6, 1), reason="the keywords came with Django 6.1")
def test_django_s_own_decorator_takes_the_same_keywords(desk: Desk) -> None:
    from django.tasks import task as django_task

    made: Any = django_task(max_attempts=3, lane="USR00000000001")(plain)  # type: ignore[call-overload]

    assert isinstance(made, EmqTask)
    assert (made.max_attempts, made.lane) == (3, "USR00000000001")
    assert "max_attempts" in option_names()


@pytest.mark.skipif(django.VERSION < (6, 1), reason="tasks can be pickled since Django 6.1")
def test_a_task_and_its_result_survive_pickling(desk: Desk) -> None:
    result = zoo.add.using(queue_name=desk.queue).enqueue(1)

    assert pickle.loads(pickle.dumps(result)) == result
    assert pickle.loads(pickle.dumps(zoo.fails)) == zoo.fails


@override_settings(TASKS=IMMEDIATE)
def test_a_project_s_tasks_run_on_django_s_immediate_backend() -> None:
    assert zoo.add.enqueue(1, b=2).return_value == 3
    assert [one.return_value for one in zoo.add.enqueue_many([(1,), (2,)])] == [2, 3]


@pytest.mark.django_db(transaction=True)
@override_settings(TASKS=DUMMY)
def test_a_project_s_tasks_are_noted_by_django_s_dummy_backend() -> None:
    dummy: Any = task_backends["default"]
    assert zoo.add.enqueue_on_commit(0).id
    with transaction.atomic():
        waiting = zoo.add.enqueue_on_commit(1, b=2)
        assert (waiting.id, len(dummy.results)) == ("", 1)

    assert [one.args for one in dummy.results] == [[0], [1]]
    with pytest.raises(NotImplementedError, match="DummyBackend"):
        zoo.add.cancel("x")


@override_settings(TASKS=DUMMY)
async def test_the_async_verbs_work_on_another_backend_too() -> None:
    assert len(await zoo.add.aenqueue_many([(1,), (2,)])) == 2
    with pytest.raises(NotImplementedError):
        await zoo.add.acancel("x")


def test_the_checks_find_queues_that_can_t_be_and_options_that_do_nothing() -> None:
    params = {"QUEUES": ["a{b", "raw", "fine"], "OPTIONS": {"ttl": 1}}
    emq = {"CONNECTION": "queue", "QUEUES": {"raw": {"HANDLER": "tests.task_backend.zoo.on_raw"}}}
    with override_settings(EMQ=emq):
        found = list(EmqBackend("default", params).check())
    with override_settings(EMQ={"CONNECTIONS": 1}):
        none = list(checks.check_backend(EmqBackend("default", params)))

    assert [one.id for one in found] == ["emq.E021", "emq.E022", "emq.W023"]
    assert none == []  # another check says what is wrong with EMQ


def test_a_worker_serves_the_queues_of_its_tasks_without_being_told() -> None:
    tasks = {"default": {"BACKEND": "emq_django.task_backend.EmqBackend", "QUEUES": ["b", "a"]}}
    emq = {
        "CONNECTION": "queue",
        "TASK_MODULES": [],
        "QUEUES": {"a": {"PRIORITIES": True}, "raw": {"HANDLER": "tests.task_backend.zoo.on_raw"}},
    }
    with override_settings(TASKS=tasks, EMQ=emq):
        options = options_for()

    served = [one.keys.name for one in options.queues]
    assert served == ["a.high", "a", "a.low", "raw", "b"]


@pytest.mark.parametrize("name", ["elsewhere", "emials"])
def test_a_queue_of_nobody_is_refused(name: str) -> None:
    tasks = {"default": {"BACKEND": "emq_django.task_backend.EmqBackend", "QUEUES": ["emails"]}}
    with override_settings(TASKS=tasks), pytest.raises(ConfigError, match="TASKS"):
        options_for([name])


def test_a_task_module_that_is_not_there_stops_the_worker_in_a_line() -> None:
    says = r"the tasks in no\.such\.module can't be imported: No module named 'no'; .*TASK_MODULES"
    emq = {"CONNECTION": "queue", "TASK_MODULES": ["no.such.module"]}
    with override_settings(EMQ=emq, TASKS=TASKS):
        with pytest.raises(ConfigError, match=says):
            registry.discover()
        with pytest.raises(CommandError, match=says):
            call_command("emq_worker", "default", "--burst")


def test_a_task_module_that_wants_tasks_of_a_django_without_is_told_what_to_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def older(name: str) -> None:
        raise ModuleNotFoundError("No module named 'django.tasks'", name="django.tasks")

    monkeypatch.setattr("emq_django.task_backend.registry.importlib.import_module", older)
    with (
        override_settings(EMQ={"CONNECTION": "queue", "TASK_MODULES": ["shop.tasks"]}),
        pytest.raises(ConfigError, match=r"shop\.tasks .*: write `from emq_django import task`"),
    ):
        registry.discover()


@pytest.mark.parametrize("path", ["nowhere", "nowhere.task", "tests.task_backend.zoo.add.x"])
def test_a_path_that_leads_nowhere_finds_nothing(path: str) -> None:
    assert registry.find(path) is None
    assert registry.find("tests.task_backend.zoo.add") is zoo.add


def test_without_open_telemetry_no_trace_is_carried() -> None:
    assert "opentelemetry.trace" not in sys.modules
    assert tracing.current() is None
    with tracing.continued({"traceparent": "x"}):
        pass


def test_a_trace_goes_along_with_a_call(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The four names of OpenTelemetry's API that are used, in place of the package."""
    import types

    seen: list[Any] = []
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}

    def attach(extracted: Any) -> str:
        seen.append(extracted)
        return "token"

    package = types.ModuleType("opentelemetry")
    propagate: Any = types.ModuleType("opentelemetry.propagate")
    propagate.inject = lambda carrier: carrier.update(trace)
    propagate.extract = dict
    context: Any = types.ModuleType("opentelemetry.context")
    context.attach = attach
    context.detach = seen.append
    for module in (package, propagate, context, types.ModuleType("opentelemetry.trace")):
        monkeypatch.setitem(sys.modules, module.__name__, module)

    zoo.noted.using(queue_name=desk.queue).enqueue("traced")
    desk.run()

    assert seen == [trace, "token"]


def test_a_limit_is_raised_in_the_code_that_runs() -> None:
    def endless() -> None:
        while True:
            pass

    with pytest.raises(SoftTimeLimit, match=r"after 0\.05 s"):
        limits.call(endless, 0.05)
    assert limits.call(lambda: "quick", 60) == "quick"
    with pytest.raises(LookupError):
        limits.call({}.popitem, 60)


def test_a_coroutine_that_returns_although_it_was_cancelled_has_its_value() -> None:
    import asyncio

    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "all the same"
        return "slept"

    try:
        assert aio.run(stubborn(), limit_s=0.05) == "all the same"
        with pytest.raises(aio.LeaseLost):
            aio.run(asyncio.sleep(60), is_lost=lambda: True)
    finally:
        aio.close()
    aio.close()  # with no loop there is nothing to close


def test_a_duplicate_says_so_in_its_verdict(desk: Desk) -> None:
    task_ = zoo.unique_by_key.using(queue_name=desk.queue)

    assert [task_.enqueue().verdict for _ in range(2)] == [Verdict.ENQUEUED, Verdict.DUPLICATE]
