"""The backend that ``TASKS`` names: a call is validated, ordered, sent, and answered by a result.

One object per thread or async context, made when the first task module is imported: it keeps no
state and opens no connection.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, ParamSpec, TypeVar

from django.core.checks import CheckMessage

from emq_django.conf import Conf, SettingsError, conf, keys, nearest
from emq_django.connections import async_wire_for, wire_for
from emq_django.errors import InvalidDuration, InvalidQueueName
from emq_django.protocol import operate
from emq_django.protocol import results as stored
from emq_django.protocol.calls import Call
from emq_django.protocol.keyspace import valid_new_queue
from emq_django.protocol.records import Receipt, Verdict
from emq_django.protocol.results import Left
from emq_django.task_backend import commit, results, sending
from emq_django.task_backend.compat import (
    TASKS_LOGGER,
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResultDoesNotExist,
    task_enqueued,
)
from emq_django.task_backend.queues import alias_of, band
from emq_django.task_backend.results import EmqTaskResult
from emq_django.task_backend.sending import Order
from emq_django.task_backend.task import Arguments, EmqTask

P = ParamSpec("P")
R = TypeVar("R")

_logger = logging.getLogger(TASKS_LOGGER)

_MOST_VALID: Final = 256  # tasks that a backend knows to be valid


class Cancelled(StrEnum):
    """What became of a call that was to be cancelled."""

    CANCELLED = "cancelled"  # it is off the queue and leaves no result
    ASKED = "asked"  # a worker runs it, and tells it to end; it is not run again
    RUNNING = "running"  # another speaker has locked it: left alone
    FINISHED = "finished"  # it has ended; its result stays
    GONE = "gone"  # there is no such job


class EmqBackend(BaseTaskBackend):
    """Tasks as jobs on the queues of this package."""

    task_class = EmqTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        named = params.get("QUEUES")
        if isinstance(named, str):  # Django would take each of its letters for a queue
            raise SettingsError(f"TASKS[{alias!r}]['QUEUES'] is {named!r}: give a list of names.")
        super().__init__(alias, params)
        self._valid: dict[int, tuple[Task[..., Any], Conf]] = {}  # by id; kept, so that it stays

    @property
    def supports_priority(self) -> bool:  # type: ignore[override]
        """Whether one of the queues has ``PRIORITIES``."""
        return any(
            queue.priorities
            for name, queue in conf().queues.items()
            if not self.queues or name in self.queues
        )

    def validate_task(self, task: Task[..., Any]) -> None:
        """Raise InvalidTask for a task that this backend can't run.

        Where EMQ itself is wrong, nothing is said of tasks: emq.E001 is to be read, not a traceback
        from the first module that declares one. A call raises what is wrong.
        """
        if not _is_readable():
            return
        run_after: object = task.run_after
        if run_after is not None and not isinstance(run_after, datetime):
            # Django would ask it for its zone: AttributeError.
            raise InvalidDuration(f"run_after={run_after!r}: give an aware datetime")
        name = task.queue_name
        _refuse_queue(name)
        if self.queues and name not in self.queues:  # Django's words, and what to do
            raise InvalidTask(
                f"Queue {name!r} is not valid for backend. Add it to"
                f" TASKS[{self.alias!r}]['QUEUES'], which has"
                f" {', '.join(map(repr, sorted(self.queues)))}.{nearest(name, self.queues)}"
            )
        super().validate_task(task)
        _refuse_queue(band(name, task.priority))
        if task.priority and not conf().queue(name).priorities:
            raise InvalidTask(
                f"queue {name!r} has no priorities: set EMQ['QUEUES'][{name!r}]['PRIORITIES'] to"
                " True, or leave priority out."
            )

    def enqueue(
        self, task: Task[P, R], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> EmqTaskResult[P, R]:
        """Send one call at once, also inside a transaction. A duplicate's result is the live one's.

        Raises:
            InvalidTask: this backend can't run the task.
            InvalidInput, TypeError: an argument can't be sent; nothing was.
            WireError: it was not admitted by the deadline. ``ReplyLost``: it may have been.
        """
        order = self._order(task, args, kwargs)
        receipt = sending.send(order)
        if not sending.is_new(receipt):
            return self._living(order, receipt, self._left(receipt.id, order))
        result = order.result(receipt)
        task_enqueued.send(type(self), task_result=result)
        return result

    async def aenqueue(
        self, task: Task[P, R], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> EmqTaskResult[P, R]:
        """Send one call at once; the async twin of ``enqueue``, on the loop's own connection."""
        order = self._order(task, args, kwargs)
        receipt = await sending.asend(order)
        if not sending.is_new(receipt):
            queue = order.job.queue
            left = await async_wire_for(queue).run(stored.result(queue, receipt.id))
            return self._living(order, receipt, left)
        result = order.result(receipt)
        await task_enqueued.asend(type(self), task_result=result)
        return result

    def enqueue_many(
        self, task: Task[P, R], calls: Sequence[Arguments]
    ) -> Sequence[EmqTaskResult[P, R]]:
        """Send many calls in one flush; a result for each, in input order."""
        if not calls:
            return []
        orders = self._orders(task, calls)
        receipts = sending.send_many(orders)
        answers = sending.results_of(orders, receipts)
        if _is_listened_to():
            for receipt, result in zip(receipts, answers, strict=True):
                if sending.is_new(receipt):
                    task_enqueued.send(type(self), task_result=result)
        return answers

    async def aenqueue_many(
        self, task: Task[P, R], calls: Sequence[Arguments]
    ) -> Sequence[EmqTaskResult[P, R]]:
        """Send many calls; the async twin of ``enqueue_many``."""
        if not calls:
            return []
        orders = self._orders(task, calls)
        receipts = await sending.asend_many(orders)
        answers = sending.results_of(orders, receipts)
        if _is_listened_to():
            for receipt, result in zip(receipts, answers, strict=True):
                if sending.is_new(receipt):
                    await task_enqueued.asend(type(self), task_result=result)
        return answers

    def enqueue_on_commit(
        self,
        task: Task[P, R],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        using: str | None = None,
    ) -> EmqTaskResult[P, R]:
        """Send one call when the transaction of ``using`` commits, at once where none is open.

        The arguments are checked and encoded now; ``task_enqueued`` is sent when the call is.
        """
        if not commit.is_open(using):
            return self.enqueue(task, args, kwargs)
        order = self._order(task, args, kwargs)
        return order.result(commit.send_on_commit(order, self._was_sent, using))

    def get_result(self, result_id: str) -> EmqTaskResult[..., Any]:
        """Return what is known of a call. Raises TaskResultDoesNotExist."""
        queue, job_id, call = self._look_up(result_id)
        return results.read(wire_for(keys(queue)).run(call), queue, job_id, self._alias(queue))

    async def aget_result(self, result_id: str) -> EmqTaskResult[..., Any]:
        """Return what is known of a call; the async twin of ``get_result``."""
        queue, job_id, call = self._look_up(result_id)
        left = await async_wire_for(keys(queue)).run(call)
        return results.read(left, queue, job_id, self._alias(queue))

    def cancel(self, result_id: str) -> Cancelled:
        """Take a call that has not started off its queue; ask one that runs to end."""
        queue, job_id, call = self._look_up(result_id)
        named = keys(queue)
        ended = _ended(wire_for(named).run(call))
        if ended is not None:
            return ended
        return _CANCELLED[wire_for(named).run(operate.cancel(named, [job_id]))[0]]

    async def acancel(self, result_id: str) -> Cancelled:
        """Take a call off its queue, or ask it to end; the async twin of ``cancel``."""
        queue, job_id, call = self._look_up(result_id)
        named = keys(queue)
        ended = _ended(await async_wire_for(named).run(call))
        if ended is not None:
            return ended
        return _CANCELLED[(await async_wire_for(named).run(operate.cancel(named, [job_id])))[0]]

    def check(self, **kwargs: Any) -> Iterable[CheckMessage]:  # type: ignore[override]
        """Return what the system checks say about this backend."""
        from emq_django.task_backend.checks import check_backend

        return check_backend(self, **kwargs)

    def _validate(self, task: Task[..., Any]) -> None:
        """Refuse a task that can't be sent; one that could is not asked again.

        Unless the settings changed meanwhile, or a subclass decides anew for each call.
        """
        settings = conf()
        if self._valid.get(id(task)) == (task, settings):
            return
        sending.validate(task, self)
        if type(self).validate_task is EmqBackend.validate_task:
            if len(self._valid) >= _MOST_VALID:  # each ``task.using()`` makes a task
                self._valid.clear()
            self._valid[id(task)] = (task, settings)

    def _order(self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Order:
        self._validate(task)
        return sending.order(task, self.alias, args, kwargs, time.time_ns() // 1_000_000)

    def _orders(self, task: Task[..., Any], calls: Sequence[Arguments]) -> list[Order]:
        self._validate(task)
        now_ms = time.time_ns() // 1_000_000
        return [sending.order(task, self.alias, args, kwargs, now_ms) for args, kwargs in calls]

    def _left(self, job_id: str, order: Order) -> Left | None:
        queue = order.job.queue
        return wire_for(queue).run(stored.result(queue, job_id))

    def _living(self, order: Order, receipt: Receipt, left: Left | None) -> EmqTaskResult[Any, Any]:
        """Return the result of the job that lives in place of a duplicate."""
        queue = order.job.queue.name
        try:
            found = results.read(left, queue, receipt.id, self.alias)
        except TaskResultDoesNotExist:  # it ended in this moment, or is another speaker's
            return order.result(receipt)
        object.__setattr__(found, "verdict", Verdict.DUPLICATE)
        return found

    def _was_sent(self, order: Order, receipt: Receipt) -> None:
        task_enqueued.send(type(self), task_result=order.result(receipt))

    def _look_up(self, result_id: str) -> tuple[str, str, Call[Left | None]]:
        queue, job_id = results.parted(result_id)
        try:
            return queue, job_id, stored.result(keys(queue), job_id)
        except InvalidQueueName as exc:
            raise TaskResultDoesNotExist(f"{result_id!r}: {exc}") from exc

    def _alias(self, queue: str) -> str:
        return alias_of(queue) or self.alias


_CANCELLED = {
    operate.Cancelled.REMOVED: Cancelled.CANCELLED,
    operate.Cancelled.ASKED: Cancelled.ASKED,
    operate.Cancelled.DEAD: Cancelled.FINISHED,
    operate.Cancelled.LOCKED: Cancelled.RUNNING,
    operate.Cancelled.GONE: Cancelled.GONE,
}


def _ended(left: Left | None) -> Cancelled | None:
    if left is None:
        return Cancelled.GONE
    return Cancelled.FINISHED if left.ended or left.text("state") == "dead" else None


def _is_readable() -> bool:
    try:
        conf()
    except SettingsError:
        return False
    return True


def _refuse_queue(name: str) -> None:
    try:
        valid_new_queue(keys(name))
    except InvalidQueueName as exc:
        raise InvalidTask(f"{exc}.") from exc


def _is_listened_to() -> bool:
    """Whether somebody but Django's own debug log hears of enqueued tasks."""
    return len(task_enqueued.receivers) > 1 or _logger.isEnabledFor(logging.DEBUG)
