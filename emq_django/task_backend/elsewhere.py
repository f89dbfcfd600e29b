"""This package's verbs on another backend: a test that sets Django's immediate or dummy one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from emq_django.task_backend import codec, commit
from emq_django.task_backend.compat import BaseTaskBackend, Task, TaskResult, TaskResultStatus
from emq_django.task_backend.task import Arguments


class Elsewhere:
    """A backend that knows only Django's verbs. It gets what a worker would: arguments as JSON."""

    def __init__(self, backend: BaseTaskBackend) -> None:
        self._backend = backend

    def enqueue(
        self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> TaskResult[..., Any]:
        """Enqueue one call."""
        return self._backend.enqueue(task, *codec.normal(args, kwargs))

    async def aenqueue(
        self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> TaskResult[..., Any]:
        """Enqueue one call; the async twin of ``enqueue``."""
        return await self._backend.aenqueue(task, *codec.normal(args, kwargs))

    def enqueue_many(
        self, task: Task[..., Any], calls: Sequence[Arguments]
    ) -> list[TaskResult[..., Any]]:
        """Enqueue one call after the other."""
        return [self.enqueue(task, args, kwargs) for args, kwargs in calls]

    async def aenqueue_many(
        self, task: Task[..., Any], calls: Sequence[Arguments]
    ) -> list[TaskResult[..., Any]]:
        """Enqueue one call after the other."""
        return [await self.aenqueue(task, args, kwargs) for args, kwargs in calls]

    def enqueue_on_commit(
        self,
        task: Task[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        using: str | None = None,
    ) -> TaskResult[..., Any]:
        """Enqueue when the transaction commits. Such a backend names ids late: here it is empty."""
        if not commit.is_open(using):
            return self.enqueue(task, args, kwargs)
        self._backend.validate_task(task)
        given = codec.normal(args, kwargs)
        transaction.on_commit(lambda: self._backend.enqueue(task, *given), using=using)
        return TaskResult(
            task=task,
            id="",
            status=TaskResultStatus.READY,
            enqueued_at=None,
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=given[0],
            kwargs=given[1],
            backend=self._backend.alias,
            errors=[],
            worker_ids=[],
        )

    def cancel(self, result_id: str) -> Any:
        """Refuse: such a backend can't."""
        raise NotImplementedError(
            f"{type(self._backend).__qualname__} cancels nothing: {result_id}"
        )

    async def acancel(self, result_id: str) -> Any:
        """Refuse: such a backend can't."""
        return self.cancel(result_id)
