"""The one place that knows whether tasks are Django's (6.0 on) or the django-tasks backport's.

Everything else of the task layer imports these names from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emq_django.errors import BackportMissing

if TYPE_CHECKING:
    from django.tasks import task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import (
        DEFAULT_TASK_BACKEND_ALIAS,
        DEFAULT_TASK_PRIORITY,
        DEFAULT_TASK_QUEUE_NAME,
        Task,
        TaskContext,
        TaskError,
        TaskResult,
        TaskResultStatus,
    )
    from django.tasks.exceptions import (
        InvalidTask,
        TaskResultDoesNotExist,
        TaskResultMismatch,
    )
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json

    GenericTask = Task
    GenericTaskContext = TaskContext
    GenericTaskResult = TaskResult
else:
    try:
        from django.tasks import task_backends
        from django.tasks.backends.base import BaseTaskBackend
        from django.tasks.base import (
            DEFAULT_TASK_BACKEND_ALIAS,
            DEFAULT_TASK_PRIORITY,
            DEFAULT_TASK_QUEUE_NAME,
            Task,
            TaskContext,
            TaskError,
            TaskResult,
            TaskResultStatus,
        )
        from django.tasks.exceptions import (
            InvalidTask,
            TaskResultDoesNotExist,
            TaskResultMismatch,
        )
        from django.tasks.signals import task_enqueued, task_finished, task_started
        from django.utils.json import normalize_json
    except ImportError:
        try:
            import django_tasks  # noqa: F401
        except ImportError as exc:
            raise BackportMissing(
                "Django before 6.0 has no tasks of its own: install the backport, django-tasks, or"
                " emq-django[backport]"
            ) from exc
        from django_tasks import task_backends
        from django_tasks.backends.base import BaseTaskBackend
        from django_tasks.base import (
            DEFAULT_TASK_BACKEND_ALIAS,
            DEFAULT_TASK_PRIORITY,
            DEFAULT_TASK_QUEUE_NAME,
            Task,
            TaskContext,
            TaskError,
            TaskResult,
            TaskResultStatus,
        )
        from django_tasks.exceptions import InvalidTaskError as InvalidTask
        from django_tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch
        from django_tasks.signals import task_enqueued, task_finished, task_started
        from django_tasks.utils import normalize_json

    class _Subscriptable:
        """Stands before a class that only type checkers know as generic: ``X[P, R]`` is X."""

        def __init__(self, kind: type) -> None:
            self._kind = kind

        def __getitem__(self, _: Any) -> type:
            return self._kind

    GenericTask = _Subscriptable(Task)
    GenericTaskContext = _Subscriptable(TaskContext)
    GenericTaskResult = _Subscriptable(TaskResult)

# Where the signals of the task layer are logged.
TASKS_LOGGER = BaseTaskBackend.__module__.partition(".backends")[0]

__all__ = [
    "DEFAULT_TASK_BACKEND_ALIAS", "DEFAULT_TASK_PRIORITY", "DEFAULT_TASK_QUEUE_NAME",
    "TASKS_LOGGER", "BaseTaskBackend", "GenericTask", "GenericTaskContext", "GenericTaskResult",
    "InvalidTask", "Task", "TaskContext", "TaskError", "TaskResult", "TaskResultDoesNotExist",
    "TaskResultMismatch", "TaskResultStatus", "normalize_json", "task_backends", "task_enqueued",
    "task_finished", "task_started",
]  # fmt: skip
