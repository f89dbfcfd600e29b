"""The ``django.tasks`` backend.

There is never a module called ``tasks`` in here: autodiscovery would import it as a project's own.

::

    task.py      the decorator and EmqTask: what a task is told, and its verbs
    options.py   those keywords checked, and what they mean for one call
    backend.py   EmqBackend: validate -> order -> send -> result
    codec.py     arguments <-> the envelope that is a job's payload
    sending.py   orders to the server: one, many, or when a transaction commits (commit.py)
    results.py   a stored row or result -> TaskResult
    registry.py  which Task a payload names; nothing is imported because a payload asks for it
    queues.py    which queues the backends serve, and their priority bands
    runner.py    runs a task for the worker; context.py is what the task gets
    failures.py  the exceptions that stand in a result's errors without having been raised by a task
    compat.py    Django's own task classes, or those of the django-tasks backport

Start reading in ``backend.py`` (in) and ``runner.py`` (out).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emq_django.task_backend.backend import EmqBackend

__all__ = ["EmqBackend"]


def __getattr__(name: str) -> Any:
    # Loaded late: the task layer reads settings, and without the backport there is none on 5.2.
    if name == "EmqBackend":
        from emq_django.task_backend.backend import EmqBackend

        return EmqBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
