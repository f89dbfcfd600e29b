"""The keywords of a task beyond Django's own: checked when it is declared, read for each call.

Pure but for the clock that a caller hands in. Works on any Task: one that Django made for another
backend simply has none of these options.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from inspect import BoundArguments, Parameter, Signature
from typing import Any, Final

from django.db.models import Model

from emq_django.conf import conf
from emq_django.errors import InvalidArguments, InvalidInput
from emq_django.lanes import lane_for
from emq_django.protocol.enqueue import LARGEST_UNIQUE_BYTES
from emq_django.protocol.numbers import LARGEST_MS
from emq_django.task_backend.codec import canonical
from emq_django.task_backend.compat import InvalidTask
from emq_django.worker.retry import Policy, ceiling_ms, delay_ms

Kinds = tuple[type[BaseException], ...]

_MIN_LEASE_MS: Final = 100  # as for a queue: below this a renewal may come too late


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The pause before another try: it doubles from ``base_ms`` up to ``cap_ms``.

    With ``jitter`` any pause from 0 to that ceiling is equally likely, which spreads tasks that
    failed together.
    """

    base_ms: int = 1_000
    cap_ms: int = 600_000
    jitter: bool = True

    def __post_init__(self) -> None:
        for name in ("base_ms", "cap_ms"):
            _whole(f"backoff: {name}", getattr(self, name), 0, LARGEST_MS)
        if self.cap_ms < self.base_ms:
            raise InvalidTask(f"backoff: cap_ms={self.cap_ms} is below base_ms={self.base_ms}.")

    def __call__(self, tries: int) -> int:
        """Return the pause in ms after the ``tries``-th bad run (1 is the first)."""
        pause = delay_ms if self.jitter else ceiling_ms
        return pause(tries, self.base_ms, self.cap_ms)


def checked(task: Any) -> dict[str, Any]:
    """Check a task's options; return those that were given in a form that is not kept.

    Raises:
        InvalidTask: an option can't work. The message names it, its value and the remedy.
    """
    if task.max_attempts is not None:
        _whole("max_attempts", task.max_attempts, 1, LARGEST_MS)
    if task.lease_ms is not None:
        _whole("lease_ms", task.lease_ms, _MIN_LEASE_MS, LARGEST_MS)
    for name in ("time_limit_s", "soft_time_limit_s", "expires_in_s"):
        _seconds(name, getattr(task, name), least=0.001)
    _seconds("result_ttl_s", task.result_ttl_s, least=0)
    _check_backoff(task.backoff)
    if not isinstance(task.unique, bool | str) and not callable(task.unique):
        raise InvalidTask(
            f"unique={task.unique!r}: give True, a key, or a function of the arguments."
        )
    if task.lane is not None and not isinstance(task.lane, str) and not callable(task.lane):
        raise InvalidTask(f"lane={task.lane!r}: give a lane, or a function of the arguments.")
    soft_s, hard_s = task.soft_time_limit_s, task.time_limit_s
    if soft_s is not None and hard_s is not None and soft_s > hard_s:
        raise InvalidTask(f"soft_time_limit_s={soft_s} is above time_limit_s={hard_s}.")
    return {
        "retry_on": None if task.retry_on is None else _kinds("retry_on", task.retry_on),
        "give_up_on": _kinds("give_up_on", task.give_up_on),
    }


def policy_of(task: Any, queue: str) -> Policy:
    """Return when a task is run again: its own options, else those of its queue."""
    its = conf().queue(queue)
    max_attempts = getattr(task, "max_attempts", None)
    backoff = getattr(task, "backoff", None)
    if backoff is None:
        backoff = _usual_backoff(its.backoff_base_ms, its.backoff_cap_ms)
    return Policy(
        max_attempts=its.max_attempts if max_attempts is None else max_attempts,
        pause_ms=backoff if callable(backoff) else lambda _: backoff,
        retry_on=getattr(task, "retry_on", None),
        give_up_on=getattr(task, "give_up_on", ()),
    )


@lru_cache(maxsize=512)
def _usual_backoff(base_ms: int, cap_ms: int) -> Backoff:
    return Backoff(base_ms=base_ms, cap_ms=cap_ms)


def refuse_misfit(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise InvalidArguments for a call that the task's function can't be called with."""
    why = _misfit(task.func, task.takes_context, len(args), tuple(kwargs))
    if why:
        raise InvalidArguments(f"{task.module_path} can't be called like this: {why}")


@lru_cache(maxsize=1_024)
def _misfit(
    function: Callable[..., Any], takes_context: bool, count: int, names: tuple[str, ...]
) -> str:
    """Return why so many arguments and these names don't fit; empty where they do.

    Of a decorated function what stands in its place is asked: a wrapper may add arguments.
    """
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(*[None] * (count + takes_context), **dict.fromkeys(names))
    except TypeError as exc:
        return str(exc)
    return ""


def lane_of(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Return the lane of one call. Its value is checked where the job is admitted.

    Raises InvalidInput where the task's own function for it fails.
    """
    lane = getattr(task, "lane", None)
    if callable(lane):
        lane = _asked("lane", lane, task, args, kwargs)
    return lane_for(lane) if isinstance(lane, Model) else lane


def unique_key_of(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return the unique key of one call, empty for none; a long one becomes its digest.

    Raises InvalidInput where the task's own function for it fails, or gives no key.
    """
    unique = getattr(task, "unique", False)
    if callable(unique):
        unique = _asked("unique", unique, task, args, kwargs)
    if unique is None or unique is False:
        return ""
    if unique is True:
        args, kwargs = _spelt_alike(task, args, kwargs)
        return f"{task.module_path}:{_digest(canonical(args, kwargs))}"
    if not isinstance(unique, str) or not unique:
        raise InvalidInput(
            f"unique of task {task.module_path} gave {unique!r}: give text that is not empty,"
            " or None"
        )
    if len(unique.encode("utf-8", "surrogatepass")) > LARGEST_UNIQUE_BYTES:
        return _digest(unique)
    return unique


def expires_ms_of(task: Any, now_ms: int) -> int | None:
    """Return the time after which a call sent now may not start."""
    seconds = seconds_of(getattr(task, "expires_in_s", None))
    return None if seconds is None else now_ms + round(seconds * 1_000)


def limits_s_of(task: Any) -> tuple[float | None, float | None]:
    """Return for how long a run may go on: until it is told to end, and until it is ended."""
    soft_s, hard_s = getattr(task, "soft_time_limit_s", None), getattr(task, "time_limit_s", None)
    return seconds_of(soft_s), seconds_of(hard_s)


def seconds_of(value: float | timedelta | None) -> float | None:
    """Return a duration, which may be a timedelta, in seconds."""
    return value.total_seconds() if isinstance(value, timedelta) else value


def _spelt_alike(
    task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the arguments by name, where all have one: `f(1)` and `f(n=1)` are one call."""
    tasks = _signature(task.func)
    if tasks is not None:
        named = _by_name(tasks, task.takes_context, args, kwargs)
        if named is not None:
            return (), named
    return args, kwargs


def _asked(
    option: str,
    function: Callable[..., Any],
    task: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """Return what a function of the arguments says for one call of the task."""
    args, kwargs = _for_function(function, task, args, kwargs)
    try:
        return function(*args, **kwargs)
    except Exception as exc:
        raise InvalidInput(
            f"{option} of task {task.module_path} raised {type(exc).__name__}: {exc}"
        ) from exc


def _for_function(
    function: Callable[..., Any], task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the arguments of a call as the function takes them: by the task's names, if it can.

    One that collects positional arguments, or whose parameters have names of their own, gets them
    as the caller gave them.
    """
    as_given = args, kwargs
    its, tasks = _signature(function), _signature(task.func)
    if its is None or tasks is None:
        return as_given
    named = _by_name(tasks, task.takes_context, args, kwargs)
    if named is None:
        return as_given
    needed = [one for one in its.parameters.values() if one.default is Parameter.empty]
    for one in needed:
        default = getattr(tasks.parameters.get(one.name), "default", Parameter.empty)
        if default is not Parameter.empty:
            named.setdefault(one.name, default)
    known = {*tasks.parameters, *named}
    own_names = any(
        one.kind is Parameter.VAR_POSITIONAL
        or (one.kind is not Parameter.VAR_KEYWORD and one.name not in known)
        for one in its.parameters.values()
    )
    if own_names and _bound(its, args, kwargs):
        return as_given
    return ((), named) if _bound(its, (), named) else as_given


def _by_name(
    tasks: Signature, takes_context: bool, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return a call's arguments by the names of the task's parameters; None where some have none.

    None too for a call that doesn't fit the task.
    """
    bound = _bound(tasks, (None, *args) if takes_context else args, kwargs)
    if bound is None:
        return None
    named: dict[str, Any] = {}
    for number, (name, value) in enumerate(bound.arguments.items()):
        kind = tasks.parameters[name].kind
        if takes_context and number == 0:
            continue
        if kind in {Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL}:
            return None
        named.update(value if kind is Parameter.VAR_KEYWORD else {name: value})
    return named


def _bound(
    signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> BoundArguments | None:
    try:
        return signature.bind(*args, **kwargs)
    except TypeError:
        return None


def _signature(function: Callable[..., Any]) -> Signature | None:
    try:
        return _known_signature(function)
    except (TypeError, ValueError):  # a builtin without one, or an object without a hash
        return None


# Reading a signature takes longer than encoding a call.
_known_signature = lru_cache(maxsize=512)(inspect.signature)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _check_backoff(backoff: object) -> None:
    if backoff is None or isinstance(backoff, Backoff):
        return
    if not callable(backoff):
        _whole("backoff", backoff, 0, LARGEST_MS, ", a Backoff, or a function of the tries so far")
        return
    unfit: tuple[Callable[[object], bool], ...] = (inspect.isclass, inspect.iscoroutinefunction)
    if any(is_unfit(backoff) for is_unfit in unfit):
        raise InvalidTask(
            f"backoff={backoff!r}: give a function that takes the bad runs so far and returns ms."
        )


def _whole(name: str, value: object, least: int, most: int, also: str = "") -> None:
    if type(value) is not int or not least <= value <= most:
        raise InvalidTask(f"{name}={value!r}: give a whole number from {least} to {most:,}{also}.")


def _seconds(name: str, value: Any, least: float) -> None:
    if value is None:
        return
    seconds: Any = seconds_of(value)
    is_number = type(seconds) in {int, float}
    if not is_number or not least <= seconds <= LARGEST_MS / 1_000:
        raise InvalidTask(f"{name}={value!r}: give seconds (or a timedelta), {least} or more.")


def _kinds(name: str, value: object) -> Kinds:
    kinds = tuple(value) if isinstance(value, Iterable) and not inspect.isclass(value) else (value,)
    for kind in kinds:
        if not inspect.isclass(kind) or not issubclass(kind, BaseException):
            raise InvalidTask(f"{name}={value!r}: give an exception class, or a tuple of them.")
    return kinds
