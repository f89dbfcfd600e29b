"""The decorator and what it makes: a Django task with this backend's options and verbs.

On Django 6.1 ``django.tasks.task`` takes the same keywords, because it asks the backend for its
class. This one works on every supported version, and type checkers know its keywords.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NamedTuple,
    ParamSpec,
    TypeVar,
    cast,
    overload,
)

from emq_django.task_backend import options
from emq_django.task_backend.compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    DEFAULT_TASK_PRIORITY,
    DEFAULT_TASK_QUEUE_NAME,
    GenericTask,
    Task,
    task_backends,
)
from emq_django.task_backend.options import Backoff

if TYPE_CHECKING:
    from typing import Literal

    from django.db.models import Model

    from emq_django.task_backend.backend import Cancelled, EmqBackend
    from emq_django.task_backend.context import EmqTaskContext
    from emq_django.task_backend.results import EmqTaskResult

P = ParamSpec("P")
R = TypeVar("R")

Seconds = float | timedelta
Kinds = type[BaseException] | tuple[type[BaseException], ...]


class Arguments(NamedTuple):
    """The arguments of one call of a bulk; ``task.bind(...)`` makes them."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class EmqTask(GenericTask[P, R], Generic[P, R]):
    """A task with what Django's lacks.

    Attributes:
        max_attempts: bad runs (failed, or lost with their worker) before it is given up; None: the
            queue's own.
        backoff: pause before another try: a ``Backoff``, ms, or a function of the bad runs so far
            that returns ms; None: the queue's own.
        retry_on: only these exceptions are worth another run; None: all.
        give_up_on: these never are.
        soft_time_limit_s: raises ``SoftTimeLimit`` in a run that takes longer.
        time_limit_s: ends a run that takes longer, by killing its process.
        lane: whose turn it is: a lane or a model instance, or a function of the arguments.
        unique: one live job at a time: True for these arguments, or a key, or a function of the
            arguments that returns a key or None.
        expires_in_s: don't start it later than this after it was enqueued.
        lease_ms: None: the queue's own.
        result_ttl_s: None: ``EMQ["RESULT_TTL_S"]``; 0 keeps no result.
    """

    max_attempts: int | None = None
    backoff: Backoff | int | Callable[[int], int] | None = None
    retry_on: Kinds | None = None
    give_up_on: Kinds = ()
    soft_time_limit_s: Seconds | None = None
    time_limit_s: Seconds | None = None
    lane: str | Model | Callable[..., str | Model | None] | None = None
    unique: bool | str | Callable[..., str | None] = False
    expires_in_s: Seconds | None = None
    lease_ms: int | None = None
    result_ttl_s: Seconds | None = None

    def __post_init__(self) -> None:
        for name, value in options.checked(self).items():
            object.__setattr__(self, name, value)
        Task.__post_init__(self)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | None = None,
        backend: str | None = None,
        lane: str | Model | Callable[..., str | Model | None] | None = None,
        unique: bool | str | Callable[..., str | None] | None = None,
        expires_in_s: Seconds | None = None,
    ) -> EmqTask[P, R]:
        """Return this task with other values for its next calls.

        What a worker reads from the task itself (retries, limits, lease) can't differ by call.
        """
        given: dict[str, Any] = {
            "priority": priority, "queue_name": queue_name, "run_after": run_after,
            "backend": backend, "lane": lane, "unique": unique, "expires_in_s": expires_in_s,
        }  # fmt: skip
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> EmqTaskResult[P, R]:
        """Enqueue one call. A duplicate's result is that of the job that lives."""
        backend: Any = self._backend
        return cast("EmqTaskResult[P, R]", backend.enqueue(self, args, kwargs))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> EmqTaskResult[P, R]:
        """Enqueue one call; the async twin of ``enqueue``."""
        backend: Any = self._backend
        return cast("EmqTaskResult[P, R]", await backend.aenqueue(self, args, kwargs))

    if TYPE_CHECKING:

        def get_result(self, result_id: str) -> EmqTaskResult[P, R]:
            """Return what is known of a call."""

        async def aget_result(self, result_id: str) -> EmqTaskResult[P, R]:
            """Return what is known of a call; the async twin of ``get_result``."""

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Arguments:
        """Return the arguments of one call for ``enqueue_many``."""
        return Arguments(args, kwargs)

    def enqueue_many(self, calls: Iterable[Any]) -> Sequence[EmqTaskResult[P, R]]:
        """Enqueue many calls in one flush; a result for each, in input order.

        ``calls`` are what ``bind`` returns, tuples or lists of positional arguments, or dicts of
        keyword arguments. Everything is checked before anything is sent. Not atomic as a whole:
        ``PartlyEnqueued`` says in ``outcomes`` what was admitted.
        """
        return self._backend.enqueue_many(self, [_arguments(one) for one in calls])

    async def aenqueue_many(self, calls: Iterable[Any]) -> Sequence[EmqTaskResult[P, R]]:
        """Enqueue many calls; the async twin of ``enqueue_many``."""
        return await self._backend.aenqueue_many(self, [_arguments(one) for one in calls])

    def enqueue_on_commit(self, *args: P.args, **kwargs: P.kwargs) -> EmqTaskResult[P, R]:
        """Enqueue when the default database's transaction commits, never if it rolls back.

        The id is known at once. Outside a transaction the call is sent at once. For another
        database there is ``emq_django.enqueue_on_commit(task, args, kwargs, using=...)``.
        """
        return self._backend.enqueue_on_commit(self, args, kwargs)

    def cancel(self, result_id: str) -> Cancelled:
        """Take a call that has not started off its queue; ask one that runs to end."""
        return self._backend.cancel(result_id)

    async def acancel(self, result_id: str) -> Cancelled:
        """Take a call off its queue, or ask it to end; the async twin of ``cancel``."""
        return await self._backend.acancel(result_id)

    @property
    def _backend(self) -> EmqBackend:
        backend = task_backends[self.backend]
        if hasattr(backend, "enqueue_many"):
            return cast("EmqBackend", backend)
        from emq_django.task_backend.elsewhere import Elsewhere

        return cast("EmqBackend", Elsewhere(backend))


def enqueue_on_commit(
    task: EmqTask[..., R],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    using: str | None = None,
) -> EmqTaskResult[..., R]:
    """Enqueue a call when the transaction of database ``using`` commits."""
    return task._backend.enqueue_on_commit(task, args, kwargs or {}, using=using)  # noqa: SLF001


def option_names() -> list[str]:
    """Return the names of this backend's own options."""
    its_own = {field.name for field in fields(Task)}
    return [field.name for field in fields(EmqTask) if field.name not in its_own]


@overload
def task(function: Callable[P, R], /) -> EmqTask[P, R]: ...
@overload
def task(
    *,
    takes_context: Literal[True],
    priority: int = ...,
    queue_name: str = ...,
    backend: str = ...,
    max_attempts: int | None = ...,
    backoff: Backoff | int | Callable[[int], int] | None = ...,
    retry_on: Kinds | None = ...,
    give_up_on: Kinds = ...,
    soft_time_limit_s: Seconds | None = ...,
    time_limit_s: Seconds | None = ...,
    lane: str | Model | Callable[..., str | Model | None] | None = ...,
    unique: bool | str | Callable[..., str | None] = ...,
    expires_in_s: Seconds | None = ...,
    lease_ms: int | None = ...,
    result_ttl_s: Seconds | None = ...,
) -> Callable[[Callable[Concatenate[EmqTaskContext, P], R]], EmqTask[P, R]]: ...
@overload
def task(
    *,
    takes_context: Literal[False] = False,
    priority: int = ...,
    queue_name: str = ...,
    backend: str = ...,
    max_attempts: int | None = ...,
    backoff: Backoff | int | Callable[[int], int] | None = ...,
    retry_on: Kinds | None = ...,
    give_up_on: Kinds = ...,
    soft_time_limit_s: Seconds | None = ...,
    time_limit_s: Seconds | None = ...,
    lane: str | Model | Callable[..., str | Model | None] | None = ...,
    unique: bool | str | Callable[..., str | None] = ...,
    expires_in_s: Seconds | None = ...,
    lease_ms: int | None = ...,
    result_ttl_s: Seconds | None = ...,
) -> Callable[[Callable[P, R]], EmqTask[P, R]]: ...
def task(function: Callable[..., Any] | None = None, /, **keywords: Any) -> Any:
    """Make a module-level function a task, with the keywords of Django's decorator and our own.

    ``@task`` or ``@task(max_attempts=3, ...)``; see ``EmqTask`` for what each keyword means.
    """
    if "run_after" in keywords:
        raise TypeError(
            "run_after is not the same for every call: give it to .using(run_after=...)"
        )

    def wrap(wrapped: Callable[..., Any]) -> EmqTask[..., Any]:
        backend = keywords.get("backend", DEFAULT_TASK_BACKEND_ALIAS)
        kind = task_backends[backend].task_class
        # Another backend (Django's immediate or dummy one in tests) may not know our keywords.
        return (kind if issubclass(kind, EmqTask) else EmqTask)(
            func=wrapped,
            **{
                "priority": DEFAULT_TASK_PRIORITY,
                "queue_name": DEFAULT_TASK_QUEUE_NAME,
                "backend": backend,
                "takes_context": False,
                "run_after": None,
                **keywords,
            },
        )

    return wrap if function is None else wrap(function)


def _arguments(call: Any) -> Arguments:
    if isinstance(call, Arguments):
        return call
    if isinstance(call, Mapping):
        return Arguments((), dict(call))
    if isinstance(call, list | tuple):
        return Arguments(tuple(call), {})
    raise TypeError(
        f"{call!r} is no set of arguments: give task.bind(...), a tuple of positional arguments or"
        " a dict of keyword arguments"
    )
