"""The entries of the timetable: those of ``EMQ["PERIODIC"]`` and those of the decorator.

An entry's name is its identity on the server: renaming the function of an entry that has a name of
its own changes nothing, while another name starts afresh.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.signals import setting_changed

from emq_django.conf import PeriodicConf, conf, keys
from emq_django.errors import ConfigError, InvalidInput
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.numbers import LARGEST_MS
from emq_django.protocol.periodic import name_bytes
from emq_django.timetable import slots
from emq_django.timetable.slots import CATCH_UPS, CatchUp, Policy, Schedule

# The task layer is loaded late: Django 5.2 has none without the backport, and then no entries.
if TYPE_CHECKING:
    from emq_django.task_backend.compat import Task

T = TypeVar("T", bound="Task[..., Any]")

_MOST_MADE_UP: Final = 1_000

# What modules declared, by name. Filled while they are imported.
_declared: dict[str, Entry] = {}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One schedule and what it enqueues. ``find`` returns its task, or raises ConfigError."""

    name: str
    find: Callable[[], Task[..., Any]] = field(repr=False)
    schedule: Schedule
    policy: Policy = field(default_factory=Policy)
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def task(self) -> Task[..., Any]:
        """Return the task. Raises ConfigError where there is none."""
        return self.find()

    @property
    def queue(self) -> Queue:
        """Return the keys of the queue that its jobs go to."""
        from emq_django.task_backend.queues import band

        task = self.task
        return keys(band(task.queue_name, task.priority))

    def check(self) -> None:
        """Raise ConfigError or InvalidInput where the entry can't be fired."""
        from emq_django.task_backend import options

        _ = self.queue
        try:
            options.refuse_misfit(self.task, self.args, self.kwargs)
        except InvalidInput as exc:
            raise ConfigError(f"periodic task {self.name!r}: {exc}.") from exc

    @property
    def is_ours(self) -> bool:
        """Whether its task belongs to a backend of this package; another's fires nothing."""
        from emq_django.task_backend.backend import EmqBackend
        from emq_django.task_backend.compat import task_backends

        return isinstance(task_backends[self.task.backend], EmqBackend)


def periodic(
    cron: str | None = None,
    *,
    every: float | timedelta | None = None,
    tz: str | None = None,
    name: str | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    catch_up: CatchUp = "skip",
    catch_up_max: int = 100,
    late_s: float = 30.0,
) -> Callable[[T], T]:
    """Have workers enqueue a task again and again: stands above ``@task``.

    Args:
        cron: minute, hour, day, month and weekday, such as ``"*/5 * * * *"``.
        every: seconds or a timedelta, in place of ``cron``.
        tz: the time zone that ``cron`` speaks of; without it, ``settings.TIME_ZONE``.
        name: who the entry is, to the server and to operators; without it, the task's path.
        args: positional arguments of each job.
        kwargs: keyword arguments of each job.
        catch_up: what becomes of times that passed while no worker ran: "skip" leaves them out,
            "one" makes up for the last, "all" for each.
        catch_up_max: "all" makes up for no more than so many.
        late_s: a time that is no older than this was not missed.

    Raises:
        ConfigError: the schedule can't work, or its name is taken.
    """
    from emq_django.task_backend.compat import Task

    def wrap(task: T) -> T:
        if not isinstance(task, Task):
            raise ConfigError(f"@periodic stands above @task, and {task!r} is no task.")
        called = task.module_path if name is None else name
        what = f"@periodic of {task.module_path}"
        before = _declared.get(called)
        if before is not None and before.find() is task:
            raise ConfigError(
                f"{what}: there are two schedules called {called!r}: give each a name= of its own."
            )
        _declared[called] = Entry(
            name=_name(called, what),
            find=lambda: task,
            schedule=_schedule(cron, every, tz, what),
            policy=_policy(catch_up, catch_up_max, late_s, what),
            args=tuple(args),
            kwargs=dict(kwargs or {}),
        )
        return task

    return wrap


def may_have_entries() -> bool:
    """Whether this project has tasks at all. Without, the task layer can't always be imported."""
    return bool(conf().periodic or getattr(settings, "TASKS", None))


def entries() -> dict[str, Entry]:
    """Return all entries by name, after importing the project's task modules.

    Raises ConfigError for the first one that can't work.
    """
    if not may_have_entries():
        return {}
    try:
        from emq_django.task_backend import registry
    except ImportError as exc:
        raise ConfigError(f"periodic tasks: {exc}.") from exc
    if conf().task_modules:
        registry.discover()
    found = dict(_declared)
    for name, its in _configured().items():
        if name in found:
            raise ConfigError(
                f'EMQ["PERIODIC"][{name!r}]: @periodic has an entry of this name too; choose'
                " another."
            )
        found[name] = its
    return found


@cache
def _configured() -> dict[str, Entry]:
    return {name: _of_settings(its) for name, its in conf().periodic.items()}


def _of_settings(its: PeriodicConf) -> Entry:
    what = f'EMQ["PERIODIC"][{its.name!r}]'
    if its.task is None:
        raise ConfigError(f'{what}: give "TASK", the dotted path of a task.')
    return Entry(
        name=_name(its.name, what),
        find=lambda: _found(its, what),
        schedule=_schedule(its.cron, its.every_s, its.tz, what),
        policy=_policy(its.catch_up, its.catch_up_max, its.late_s, what),
        args=tuple(its.args),
        kwargs=dict(its.kwargs or {}),
    )


def _found(its: PeriodicConf, what: str) -> Task[..., Any]:
    from emq_django.task_backend import registry
    from emq_django.task_backend.compat import InvalidTask

    task = registry.find_or_discover(str(its.task))
    if task is None:
        raise ConfigError(
            f'{what}["TASK"] is {its.task!r}, and there is no such task: give the path of a'
            ' function with @task, in a module that EMQ["TASK_MODULES"] names.'
        )
    if its.queue is None:
        return task
    try:
        return task.using(queue_name=its.queue)
    except InvalidTask as exc:
        raise ConfigError(f'{what}["QUEUE"] is {its.queue!r}: {exc}') from exc


def _schedule(cron: object, every: object, tz: object, what: str) -> Schedule:
    if (cron is None) == (every is None):
        raise ConfigError(f"{what}: give a cron expression or an interval, one of the two.")
    if cron is None:
        if tz is not None:
            raise ConfigError(f"{what}: an interval knows no time zone: leave out {tz!r}.")
        return slots.every(every, what)
    return slots.cron(cron, _zone(tz, what), what)


def _zone(tz: object, what: str) -> ZoneInfo:
    name = settings.TIME_ZONE if tz is None else tz
    try:
        return ZoneInfo(name)  # type: ignore[arg-type] # what is no text raises
    except (ValueError, KeyError, TypeError, OSError) as exc:  # a name that is none, or a folder
        raise ConfigError(
            f"{what}: tz={name!r} is no time zone: give a name such as 'Europe/Berlin'."
        ) from exc


def _policy(catch_up: object, at_most: object, late_s: object, what: str) -> Policy:
    if catch_up not in CATCH_UPS:
        raise ConfigError(f"{what}: catch_up={catch_up!r}: give one of {', '.join(CATCH_UPS)}.")
    if type(at_most) is not int or not 1 <= at_most <= _MOST_MADE_UP:
        raise ConfigError(f"{what}: catch_up_max={at_most!r}: give 1 to {_MOST_MADE_UP}.")
    if not isinstance(late_s, int | float) or not 0 <= late_s <= LARGEST_MS / 1_000:
        raise ConfigError(f"{what}: late_s={late_s!r}: give seconds, 0 or more.")
    return Policy(catch_up=catch_up, at_most=at_most, late_ms=round(late_s * 1_000))


def _name(name: object, what: str) -> str:
    try:
        name_bytes(name)  # type: ignore[arg-type]
    except InvalidInput as exc:
        raise ConfigError(f"{what}: {exc}.") from exc
    return str(name)


def _reset(*, setting: str, **_: object) -> None:
    if setting in {"EMQ", "TASKS", "TIME_ZONE", "INSTALLED_APPS"}:
        _configured.cache_clear()


setting_changed.connect(_reset, dispatch_uid="emq_django.timetable.entries")
