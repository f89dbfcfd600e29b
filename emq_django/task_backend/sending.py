"""Calls of tasks on their way to the server: as orders, and orders as admissions.

An order is one call, checked and encoded. ``commit.py`` keeps orders until a transaction commits;
how they travel is ``emq_django.sending``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from django.utils import timezone

from emq_django import arguments, sending
from emq_django.conf import conf
from emq_django.delivery import Admission, Distinct
from emq_django.protocol.records import Receipt, Verdict
from emq_django.task_backend import codec, options, registry, results, tracing
from emq_django.task_backend.compat import BaseTaskBackend, Task
from emq_django.task_backend.queues import band
from emq_django.task_backend.results import EmqTaskResult, LazyResults


class Order(NamedTuple):
    """One call of a task, ready to be sent. ``args`` and ``kwargs`` are in their JSON form."""

    task: Task[..., Any]
    backend: str
    args: list[Any]
    kwargs: dict[str, Any]
    job: Admission
    unique: str

    @property
    def is_plain(self) -> bool:
        """Whether nothing but its lane tells it from its neighbours in a bulk."""
        return self.job.mode == "now" and not self.unique

    def result(self, receipt: Receipt) -> EmqTaskResult[Any, Any]:
        """Return the result that the caller gets."""
        queue = self.job.queue.name
        return results.new(
            self.task, self.backend, queue, receipt.id, self.args, self.kwargs, receipt.verdict
        )


def validate(task: Task[..., Any], backend: BaseTaskBackend) -> None:
    """Raise InvalidTask for a task that the backend can't run, or that no worker would find.

    Raises SettingsError where EMQ is wrong.
    """
    conf()
    backend.validate_task(task)
    registry.refuse_unreachable(task)


def order(
    task: Task[..., Any], backend: str, args: Sequence[Any], kwargs: Mapping[str, Any], now_ms: int
) -> Order:
    """Return a call as an order. Raises InvalidInput, or TypeError for a type unknown to JSON."""
    options.refuse_misfit(task, args, kwargs)
    normal_args, normal_kwargs = codec.normal(args, kwargs)
    run_after_ms = _run_after_ms(task.run_after)
    payload = codec.encode(
        codec.Envelope(
            task.module_path,
            normal_args,
            normal_kwargs,
            task.priority,
            run_after_ms,
            options.expires_ms_of(task, now_ms),
            tracing.current(),
        )
    )
    if conf().sign_payloads:
        payload = codec.sign(payload, task.queue_name)
    job = arguments.admission(
        band(task.queue_name, task.priority),
        payload,
        None,
        options.lane_of(task, args, kwargs),
        "now" if run_after_ms is None else "at",
        run_after_ms or 0,
    )
    unique = options.unique_key_of(task, args, kwargs)
    return Order(task, backend, normal_args, normal_kwargs, job, unique)


def send(one: Order) -> Receipt:
    """Send one order."""
    return sending.send(one.job, unique=one.unique)


async def asend(one: Order) -> Receipt:
    """Send one order; the async twin of ``send``."""
    return await sending.asend(one.job, unique=one.unique)


def send_many(orders: Sequence[Order]) -> list[Receipt]:
    """Send orders of one queue in one flush; a receipt for each, in order."""
    if _alike(orders):
        return sending.send_bulk([one.job for one in orders])
    return sending.send_distinct([Distinct(one.job, one.unique) for one in orders])


async def asend_many(orders: Sequence[Order]) -> list[Receipt]:
    """Send orders of one queue; the async twin of ``send_many``."""
    if _alike(orders):
        return await sending.asend_bulk([one.job for one in orders])
    return await sending.asend_distinct([Distinct(one.job, one.unique) for one in orders])


def results_of(orders: Sequence[Order], receipts: Sequence[Receipt]) -> LazyResults[Any, Any]:
    """Return a result for each order, built when it is looked at."""
    pairs = zip(orders, receipts, strict=True)
    return LazyResults([partial(one.result, receipt) for one, receipt in pairs])


def is_new(receipt: Receipt) -> bool:
    """Tell whether a receipt is for a job of its own, not for one that lives already."""
    return receipt.verdict is not Verdict.DUPLICATE


def _alike(orders: Sequence[Order]) -> bool:
    lane = orders[0].job.lane
    return all(one.is_plain and one.job.lane == lane for one in orders)


def _run_after_ms(run_after: datetime | None) -> int | None:
    if run_after is None:
        return None
    if timezone.is_naive(run_after):  # only without USE_TZ: validate_task refuses it otherwise
        run_after = timezone.make_aware(run_after)
    # A time before 1970 is as past as any other.
    return max(arguments.due_in_ms(max(run_after, _UNIX_EPOCH)), 0)


_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
