"""TaskResult: what enqueue answers at once, and what is read back from a row or a result.

A result's id is ``<queue>:<JOB id>``, since nothing else tells in which queue to look. Times are
the producer's clock for ``enqueued_at`` (it stands in the id), the worker's for the runs, and the
server's for the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    NamedTuple,
    ParamSpec,
    TypeVar,
    cast,
    overload,
)

from django.conf import settings
from django.utils import timezone

from emq_django.conf import conf
from emq_django.protocol import ids
from emq_django.protocol.records import Verdict
from emq_django.protocol.results import Left
from emq_django.task_backend import registry
from emq_django.task_backend.codec import Envelope, decode, verified
from emq_django.task_backend.compat import (
    GenericTaskResult,
    Task,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
)
from emq_django.task_backend.failures import PayloadRefused, WorkerLost
from emq_django.worker.outcomes import JobCancelled

if TYPE_CHECKING:
    from emq_django.task_backend.backend import Cancelled, EmqBackend

P = ParamSpec("P")
R = TypeVar("R")

LOST: Final = "lost"  # stands in worker_ids for a worker that vanished with its name
_OWN_FIELDS: Final = ("progress", "missing")
_STATUS: Final = {
    "active": TaskResultStatus.RUNNING,
    "completed": TaskResultStatus.SUCCESSFUL,
    "dead": TaskResultStatus.FAILED,
    "failed": TaskResultStatus.FAILED,
}


class ResultMissing(ValueError):
    """The task ended well, but what it returned was too large to be kept."""


@dataclass(frozen=True, kw_only=True)
class EmqTaskResult(GenericTaskResult[P, R], Generic[P, R]):  # type: ignore[misc] # is frozen
    """Django's TaskResult and three things more.

    Attributes:
        verdict: what enqueue was answered; None for a result that was read.
        progress: what the task last noted by ``context.emq.progress``.
        missing: why the return value, or the arguments, can't be shown; empty when they can.
    """

    verdict: Verdict | None = field(default=None, compare=False)
    progress: str | None = field(default=None, compare=False)
    missing: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        # Django's would normalise the arguments, which are in their JSON form here. The value is
        # set because a base with slots has no default for it.
        object.__setattr__(self, "_return_value", None)

    @property
    def return_value(self) -> R:
        """What the task returned, as JSON carries it. Raises ValueError before it ended well."""
        if self.missing and self.status == TaskResultStatus.SUCCESSFUL:
            raise ResultMissing(self.missing)
        # Not super(): dataclasses with slots make it fail in Python 3.11.
        return TaskResult.return_value.fget(self)  # type: ignore[attr-defined,no-any-return]

    def refresh(self) -> None:
        """Read everything again."""
        self._take(self.task.get_backend().get_result(self.id))

    async def arefresh(self) -> None:
        """Read everything again; the async twin of ``refresh``."""
        self._take(await self.task.get_backend().aget_result(self.id))

    def cancel(self) -> Cancelled:
        """Take the call off its queue if it has not started; ask it to end if it runs."""
        return _backend_of(self.task).cancel(self.id)

    async def acancel(self) -> Cancelled:
        """Take the call off its queue, or ask it to end; the async twin of ``cancel``."""
        return await _backend_of(self.task).acancel(self.id)

    def _take(self, fresh: Any) -> None:
        for name in (*_REFRESHED, *_OWN_FIELDS):
            object.__setattr__(self, name, getattr(fresh, name))


_REFRESHED: Final = (
    "errors", "_return_value", "finished_at", "started_at", "last_attempted_at", "status",
    "enqueued_at", "worker_ids",
)  # fmt: skip


def result_id(queue: str, job_id: str) -> str:
    """Return the id under which a job's result is found."""
    return f"{queue}:{job_id}"


def parted(wanted: object) -> tuple[str, str]:
    """Return queue and job id. Raises TaskResultDoesNotExist for what is no result id."""
    queue, _, job_id = wanted.rpartition(":") if isinstance(wanted, str) else ("", "", "")
    if not queue or not ids.is_branded(job_id):
        raise TaskResultDoesNotExist(f"{wanted!r}: an id reads '<queue>:<job id>'")
    return queue, job_id


def new(
    task: Task[P, R],
    backend: str,
    queue: str,
    job_id: str,
    args: list[Any],
    kwargs: dict[str, Any],
    verdict: Verdict | None,
) -> EmqTaskResult[P, R]:
    """Return the result of a call that was just sent. The arguments are in their JSON form."""
    return EmqTaskResult(
        task=task,
        id=result_id(queue, job_id),
        status=TaskResultStatus.READY,
        enqueued_at=moment(ids.minted_ms(job_id)),
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=args,
        kwargs=kwargs,
        backend=backend,
        errors=[],
        worker_ids=[],
        verdict=verdict,
    )


def read(left: Left | None, queue: str, job_id: str, alias: str) -> EmqTaskResult[..., Any]:
    """Return what a row or a result says. Raises TaskResultDoesNotExist.

    A result that names a task which this process doesn't have can't be shown either.
    """
    name = result_id(queue, job_id)
    if left is None:
        raise TaskResultDoesNotExist(f"{name}: no such job, or its result is not kept any more")
    envelope, missing = _envelope(left, queue, name)
    task = registry.find_or_discover(envelope.task)
    if task is None:
        raise TaskResultDoesNotExist(f"{name}: there is no task {envelope.task!r} in this process")
    runs = _runs(left)
    found: EmqTaskResult[..., Any] = EmqTaskResult(
        task=as_called(task, envelope, conf().base_of(queue), alias),
        id=name,
        status=_STATUS.get(left.text("state"), TaskResultStatus.READY),
        enqueued_at=moment(ids.minted_ms(job_id)),
        started_at=runs.started_at,
        finished_at=runs.finished_at,
        last_attempted_at=runs.last_attempted_at,
        args=envelope.args,
        kwargs=envelope.kwargs,
        backend=alias,
        errors=runs.errors,
        worker_ids=runs.worker_ids,
        progress=left.text("progress") or None,
        missing=missing,
    )
    if found.status == TaskResultStatus.SUCCESSFUL:
        _set_value(found, left)
    return found


def as_called(task: Task[P, R], envelope: Envelope, queue: str, alias: str) -> Task[P, R]:
    """Return a task with the values that this call was made with."""
    run_after = None
    if envelope.run_after_ms is not None:
        run_after = moment(envelope.run_after_ms)
    wanted: dict[str, Any] = {
        "queue_name": queue,
        "backend": alias,
        "priority": envelope.priority,
        "run_after": run_after,
    }
    changes = {name: value for name, value in wanted.items() if getattr(task, name) != value}
    return replace(task, **changes) if changes else task


def moment(unix_ms: int) -> datetime:
    """Return a time as Django's ``timezone.now`` gives it: aware where USE_TZ says so."""
    aware = datetime.fromtimestamp(unix_ms / 1_000, UTC)
    return aware if settings.USE_TZ else timezone.make_naive(aware)


class LazyResults(Sequence[EmqTaskResult[P, R]]):
    """The results of a bulk, each built when it is first looked at."""

    def __init__(self, makers: Sequence[Callable[[], EmqTaskResult[P, R]]]) -> None:
        self._makers = makers
        self._made: dict[int, EmqTaskResult[P, R]] = {}

    def __len__(self) -> int:
        return len(self._makers)

    @overload
    def __getitem__(self, index: int) -> EmqTaskResult[P, R]: ...
    @overload
    def __getitem__(self, index: slice) -> list[EmqTaskResult[P, R]]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self._at(place) for place in range(len(self))[index]]
        return self._at(range(len(self))[index])

    def __repr__(self) -> str:
        return f"<{len(self)} results>"

    def _at(self, index: int) -> EmqTaskResult[P, R]:
        if index not in self._made:
            self._made[index] = self._makers[index]()
        return self._made[index]


def _backend_of(task: Task[..., Any]) -> EmqBackend:
    backend: Any = task.get_backend()
    return cast("EmqBackend", backend)


class _Runs(NamedTuple):
    errors: list[TaskError]
    worker_ids: list[str]
    started_at: datetime | None
    finished_at: datetime | None
    last_attempted_at: datetime | None


def _runs(left: Left) -> _Runs:
    """Return what is known of a job's runs: those that failed, and the last one."""
    records = [json.loads(line) for line in left.text("errors").split("\n") if line]
    errors = [TaskError(exception_class_path=one["e"], traceback=one["t"]) for one in records]
    # A lost lease leaves no record, so where it stood in the row of runs is not known.
    workers = [LOST] * (left.number("stalled") or 0) + [one["w"] for one in records]
    started = [one["s"] for one in records]
    finished = left.number("finished")
    state = left.text("state")
    if state == "active":
        workers.append(left.text("worker").rpartition(":")[0])
        started.append(left.number("taken"))
    elif state == "completed":
        workers.append(left.text("worker"))
        started.append(left.number("taken"))
    elif state == "dead":
        finished = records[-1]["f"] if records else None
        if len(records) < 1 or left.text("last_error").startswith(("stalled:", "cancelled:")):
            errors.append(_unrecorded(left.text("last_error")))
    known = [ms for ms in started if ms is not None]
    return _Runs(
        errors,
        workers,
        started_at=moment(known[0]) if known else None,
        finished_at=None if finished is None else moment(finished),
        last_attempted_at=moment(known[-1]) if known else None,
    )


def _unrecorded(text: str) -> TaskError:
    kind = JobCancelled if text.startswith("cancelled:") else WorkerLost
    path = f"{kind.__module__}.{kind.__qualname__}"
    return TaskError(exception_class_path=path, traceback=text)


def _envelope(left: Left, queue: str, name: str) -> tuple[Envelope, str]:
    """Return what was enqueued, and why it is not all there."""
    payload = left.fields["payload"]
    if payload is None:
        text = f"the arguments of {name} were larger than EMQ['RESULT_MAX_BYTES'] and are not kept"
        return Envelope(left.text("task"), [], {}), text
    try:
        return decode(verified(payload, conf().base_of(queue), required=False)), ""
    except PayloadRefused as exc:
        raise TaskResultDoesNotExist(f"{name}: {exc}") from exc


def _set_value(found: EmqTaskResult[..., Any], left: Left) -> None:
    value = left.fields["value"]
    if value is None:
        size = left.number("value_bytes")
        text = (
            f"what {found.id} returned has {size:,} bytes, more than EMQ['RESULT_MAX_BYTES']: let"
            " the task store it and return where"
        )
        object.__setattr__(found, "missing", text)
        return
    object.__setattr__(found, "_return_value", json.loads(value))
