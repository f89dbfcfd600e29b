"""Runs a task for the worker: the handler of every task queue, and the policy of its jobs.

payload -> envelope -> Task -> call -> what is kept. A worker that does not know the task puts the
job aside; everything else that goes wrong is an exception, and the worker judges it.
"""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import json
import logging
import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Final

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import connections
from django.dispatch import Signal

from emq_django.conf import conf
from emq_django.protocol import ids
from emq_django.protocol.results import Kept
from emq_django.task_backend import codec, options, registry, results, tracing
from emq_django.task_backend.codec import Envelope
from emq_django.task_backend.compat import (
    Task,
    TaskError,
    TaskResultStatus,
    task_finished,
    task_started,
)
from emq_django.task_backend.context import EmqTaskContext, Run
from emq_django.task_backend.failures import PayloadRefused, TaskExpired, TriesUsedUp
from emq_django.task_backend.queues import alias_of, kind_of
from emq_django.task_backend.results import EmqTaskResult
from emq_django.worker import aio, limits
from emq_django.worker.afterwards import is_ctrl_c
from emq_django.worker.job import Job
from emq_django.worker.outcomes import Completed, Failed, Parked, SoftTimeLimit
from emq_django.worker.retry import Policy
from emq_django.worker.run import judge

logger = logging.getLogger("emq_django.tasks")

_LOOKS_MS: Final = (5_000, 15_000)  # between two looks for a worker that knows the task


def run(job: Job) -> Completed | Parked:
    """Run the task that a job's payload names.

    Raises:
        PayloadRefused, TaskExpired: the job ends without a run.
        BaseException: whatever the task raises.
    """
    queue = conf().base_of(job.queue)
    envelope = _envelope(job, queue)
    task = registry.find(envelope.task)
    if task is None:
        return _put_aside(envelope.task)
    call = _Call(job, task, envelope, queue)
    if envelope.expires_ms is not None and _now_ms() > envelope.expires_ms:
        return call.expire()
    lease_ms = getattr(task, "lease_ms", None)
    if lease_ms is not None:
        job.set_lease_ms(lease_ms)
    with tracing.continued(envelope.trace):
        # A context that is the run's alone can be entered again, for those who hear of its end.
        context = contextvars.copy_context()
        return context.run(call.run, context)


def policy_of(job: Job) -> Policy:
    """Return what a failed job may still hope for; never raises for a payload that is no task."""
    task, queue = None, conf().base_of(job.queue)
    with contextlib.suppress(PayloadRefused):
        task = registry.find(_envelope(job, queue).task)
    return options.policy_of(task, queue)


@dataclass(frozen=True, slots=True)
class _Call:
    """One run of one task."""

    job: Job
    task: Task[..., Any]
    envelope: Envelope
    queue: str  # whose band the job's may be

    def run(self, context: contextvars.Context) -> Completed:
        """Call the task, and return what is to be kept. ``context``: that this is called in."""
        began_ms = _now_ms()
        result = self._result(began_ms)
        _send(task_started, result)
        self.job.when_ended(lambda ended: context.run(_tell, result, ended))
        text, value = codec.carried(self._value(result))
        _set(result, _return_value=value, finished_at=results.moment(_now_ms()))
        return Completed(kept=self._kept(text, began_ms))

    def expire(self) -> Completed:
        """End the job without a run: its result says that it failed."""
        now_ms = _now_ms()
        late_s = (now_ms - (self.envelope.expires_ms or 0)) / 1_000
        exc = TaskExpired(f"its turn came {late_s:.1f} s after it expired; it was not run")
        result = self._result(now_ms)
        failed = judge(exc, self.job, self._policy(), now_ms)
        # For the server the job is completed; to whoever asked for its value it has failed.
        self.job.when_ended(lambda _: _tell(result, replace(failed, cause=None)))
        logger.warning(
            "expired queue=%s id=%s task=%s", self.job.queue, self.job.id, self.task.name
        )
        kept = self._kept(b"null", now_ms)
        if kept is not None:
            kept = kept._replace(record=failed.record, fields=(*kept.fields, ("state", b"failed")))
        return Completed(kept=kept)

    def _value(self, result: EmqTaskResult[..., Any]) -> Any:
        """Call the task's function and return what it returns."""
        policy = self._policy()
        if self.job.failures >= max(policy.max_attempts, 1):
            # Its runs were counted by another deploy, which let it fail more often.
            raise TriesUsedUp(f"{self.job.failures} runs failed, {policy.max_attempts} may")
        call = partial(self.task.func, *result.args, **result.kwargs)
        if self.task.takes_context:
            context = EmqTaskContext(task_result=result, emq=Run(self.job))
            call = partial(self.task.func, context, *result.args, **result.kwargs)
        soft_s, hard_s = options.limits_s_of(self.task)
        is_async = _is_coroutine_function(self.task.func)
        if hard_s is not None:
            # Cancelling a coroutine is enough, unless it holds up the whole loop.
            is_set = self.job.set_hard_limit_s(hard_s + aio.CANCEL_S if is_async else hard_s)
            if is_async or not is_set:  # the next best where nobody kills
                soft_s = hard_s if soft_s is None else soft_s
        self.job.set_policy(policy)
        if not is_async:
            return _within(soft_s, call)
        return aio.run(
            _with_own_thread(call),
            is_lost=lambda: self.job.lease_lost,
            is_cancelled=lambda: self.job.cancelled,
            limit_s=soft_s,
        )

    def _result(self, began_ms: int) -> EmqTaskResult[..., Any]:
        """Return the result as the task and the signals see it while it runs."""
        job = self.job
        alias = alias_of(self.queue) or self.task.backend
        began, minted_ms = results.moment(began_ms), ids.minted_or_none(job.id)
        result: EmqTaskResult[..., Any] = EmqTaskResult(
            task=results.as_called(self.task, self.envelope, self.queue, alias),
            id=results.result_id(job.queue, job.id),
            status=TaskResultStatus.RUNNING,
            enqueued_at=None if minted_ms is None else results.moment(minted_ms),
            started_at=began,
            finished_at=None,
            last_attempted_at=began,
            args=self.envelope.args,
            kwargs=self.envelope.kwargs,
            backend=alias,
            errors=[],
            # Who ran it before is on the row; here the number of runs is what matters.
            worker_ids=[results.LOST] * job.tries + [job.worker],
        )
        return result

    def _policy(self) -> Policy:
        return options.policy_of(self.task, self.queue)

    def _kept(self, text: bytes, began_ms: int) -> Kept | None:
        """Return what the completion leaves; None where no result is wanted."""
        settings = conf()
        ttl_s = options.seconds_of(getattr(self.task, "result_ttl_s", None))
        ttl_ms = round(1_000 * (settings.result_ttl_s if ttl_s is None else ttl_s))
        if not ttl_ms:
            return None
        value = ("value", text)
        if len(text) > settings.result_max_bytes:
            value = ("value_bytes", b"%d" % len(text))
        fields = (
            value,
            ("task", self.envelope.task.encode()),
            ("worker", self.job.worker.encode()),
            ("taken", b"%d" % began_ms),
        )
        return Kept(ttl_ms, settings.result_max_bytes, settings.finished_kept, b"", fields)


def _tell(result: EmqTaskResult[..., Any], ended: Completed | Failed) -> None:
    """Send ``task_finished``: the server has the end of the task by now."""
    if isinstance(ended, Completed):
        _set(result, status=TaskResultStatus.SUCCESSFUL)
        _send(task_finished, result)
        return
    line = json.loads(ended.record)
    result.errors.append(_as_error(line))
    _set(result, status=TaskResultStatus.FAILED, finished_at=results.moment(line["f"]))
    # Django's log of failed tasks reads the exception that is being handled.
    _while_handling(ended.cause, partial(_send, task_finished, result))


def _while_handling(exc: BaseException | None, act: Callable[[], None]) -> None:
    if exc is None:
        return act()
    raised_at = exc.__traceback__
    try:
        raise exc  # noqa: TRY301 - handled here
    except BaseException:  # noqa: BLE001 - whatever it is
        exc.__traceback__ = raised_at  # as if it had never been raised anew
        act()


def _send(signal: Signal, result: EmqTaskResult[..., Any]) -> None:
    """Tell the receivers, whose troubles are none of the job's: they get a line in the log."""
    try:
        signal.send_robust(sender=kind_of(result.backend), task_result=result)
    except BaseException as exc:
        # send_robust logs and swallows what is an Exception; sys.exit() in a receiver is none.
        if is_ctrl_c(exc):
            raise
        who, what = _receiver(exc), type(exc).__name__
        logger.exception("%s, a receiver of a task's signal, raised %s", who, what)


def _receiver(exc: BaseException) -> str:
    """Return the name of the receiver whose call Django's dispatcher was about."""
    name = "unknown"
    for frame, _ in traceback.walk_tb(exc.__traceback__):
        if frame.f_globals.get("__name__") == Signal.__module__ and "receiver" in frame.f_locals:
            receiver = frame.f_locals["receiver"]
            name = f"{receiver.__module__}.{getattr(receiver, '__qualname__', repr(receiver))}"
    return name


def _envelope(job: Job, queue: str) -> Envelope:
    payload = codec.verified(job.payload, queue, required=conf().sign_payloads)
    return codec.decode(payload)


def _put_aside(path: str) -> Parked:
    return Parked(
        reason=(
            f"this worker knows no task {path!r}: it is older or newer than what enqueued the job,"
            " or EMQ['TASK_MODULES'] does not name the module"
        ),
        delay_ms=random.randint(*_LOOKS_MS),  # noqa: S311 - spreads pauses, guards nothing
        grace_ms=round(1_000 * conf().unknown_task_grace_s),
    )


def _within(limit_s: float | None, call: Any) -> Any:
    """Call a plain function within its time."""
    try:
        return limits.call(call, limit_s)
    except SoftTimeLimit:
        # It was raised anywhere, perhaps inside a database driver: such a connection is not kept.
        connections.close_all()
        raise


async def _with_own_thread(call: Any) -> Any:
    """Await a task; what it runs by ``sync_to_async`` gets a thread of this run alone.

    Django's async ORM uses that thread, so its database connections are closed behind it.
    """
    async with ThreadSensitiveContext() as own:
        try:
            return await call()
        finally:
            if own in SyncToAsync.context_to_thread_executor:
                await sync_to_async(connections.close_all)()


def _set(result: EmqTaskResult[..., Any], **fields: Any) -> None:
    """Set fields of a result, which is frozen for everybody else."""
    for name, value in fields.items():
        object.__setattr__(result, name, value)


def _as_error(line: dict[str, Any]) -> TaskError:
    return TaskError(exception_class_path=line["e"], traceback=line["t"])


# To tell takes longer than an empty task.
_is_coroutine_function = lru_cache(maxsize=512)(inspect.iscoroutinefunction)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
