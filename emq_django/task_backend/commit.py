"""Orders that wait for their transaction: those of one commit leave in one flush per queue.

Django keeps callbacks with the savepoints they were made in and drops those that roll back, so each
group of orders made in the same savepoints is a callback of its own. When the first one runs, it
takes along the groups right behind it, which are sure to run next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from emq_django.protocol import ids
from emq_django.protocol.records import Receipt, Verdict
from emq_django.task_backend import sending
from emq_django.task_backend.sending import Order

logger = logging.getLogger("emq_django.enqueue")

Sent = Callable[[Order, Receipt], None]


class Waiting(NamedTuple):
    """An order whose id was announced, and what is told of it once it was sent."""

    order: Order
    on_sent: Sent


def is_open(using: str | None) -> bool:
    """Tell whether a transaction is open on a database."""
    database = transaction.get_connection(using)
    # Without autocommit there is always one; Django's on_commit refuses it and says why.
    return database.in_atomic_block or not database.get_autocommit()


def send_on_commit(order: Order, on_sent: Sent, using: str | None) -> Receipt:
    """Send an order when the open transaction commits; its id is told now."""
    receipt = Receipt(ids.mint.one(), Verdict.DEFERRED)
    announced = order._replace(job=order.job._replace(job_id=receipt.id))
    database = transaction.get_connection(using)
    group = _last_group(database)
    if group is None or group.savepoints != set(database.savepoint_ids):
        group = Group(set(database.savepoint_ids), None if group is None else group.callbacks)
        transaction.on_commit(group, using=using)
    # Kept up to date by every order: rolling back to a savepoint gives the connection a new list.
    group.callbacks.now = database.run_on_commit
    group.waiting.append(Waiting(announced, on_sent))
    return receipt


class _Callbacks:
    """The list of a transaction's callbacks as it was last seen, shared by its groups."""

    def __init__(self) -> None:
        self.now: list[Any] = []


class Group:
    """Orders made in the same savepoints with no other callback between them."""

    def __init__(self, savepoints: set[str], callbacks: _Callbacks | None) -> None:
        self.savepoints = savepoints
        self.callbacks = callbacks or _Callbacks()
        self.waiting: list[Waiting] = []

    def __call__(self) -> None:
        """Send these orders, and those of the groups that run next."""
        waiting, self.waiting = self.waiting, []
        for group in self._next_groups():
            waiting += group.waiting
            group.waiting = []
        by_queue: dict[str, list[Waiting]] = {}
        for one in waiting:
            by_queue.setdefault(one.order.job.queue.wire_name, []).append(one)
        for together in by_queue.values():
            _send(together)

    def _next_groups(self) -> list[Group]:
        """Return the groups right behind this one.

        Django takes each callback off the list before it runs it. A list that still holds this
        one is not the list that is being run, and says nothing about what comes next.
        """
        functions = [entry[1] for entry in self.callbacks.now]
        if any(function is self for function in functions):
            return []
        groups = []
        for function in functions:
            if not isinstance(function, Group) or function.callbacks is not self.callbacks:
                break
            groups.append(function)
        return groups


def _last_group(database: BaseDatabaseWrapper) -> Group | None:
    if not database.run_on_commit:
        return None
    last = database.run_on_commit[-1][1]
    return last if isinstance(last, Group) else None


def _send(waiting: Sequence[Waiting]) -> None:
    orders = [one.order for one in waiting]
    receipts = [sending.send(orders[0])] if len(orders) == 1 else sending.send_many(orders)
    for one, receipt in zip(waiting, receipts, strict=True):
        announced = one.order.job.job_id
        if sending.is_new(receipt):
            one.on_sent(one.order, receipt)
        elif one.order.unique and receipt.id != announced:
            logger.info(
                "not enqueued: a job with the same unique key lives queue=%s id=%s announced=%s",
                one.order.job.queue.name, receipt.id, announced,
            )  # fmt: skip
        else:
            again = one.order._replace(job=one.order.job._replace(job_id=None))
            second = sending.send(again)
            logger.error(
                "the id %s that was announced for queue %s belongs to another job; sent as %s",
                announced, one.order.job.queue.name, second.id,
            )  # fmt: skip
            one.on_sent(again, second)
