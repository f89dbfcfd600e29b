"""Background jobs for Django on Redis or Valkey, speaking the EchoMQ wire.

The public names, loaded on first use so that this package can be imported before Django's apps are
ready. Nothing but that table lives here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emq_django.api import (
        aclaim,
        acomplete,
        aenqueue,
        aenqueue_at,
        aenqueue_in,
        aenqueue_many,
        aextend,
        arelease,
        aretry,
        claim,
        complete,
        enqueue,
        enqueue_at,
        enqueue_in,
        enqueue_many,
        extend,
        release,
        retry,
    )
    from emq_django.errors import EmqError
    from emq_django.lanes import key_of_lane, lane_for
    from emq_django.protocol.records import ClaimedJob, Receipt, Verdict
    from emq_django.task_backend.context import EmqTaskContext
    from emq_django.task_backend.options import Backoff
    from emq_django.task_backend.task import enqueue_on_commit, task
    from emq_django.timetable.entries import periodic
    from emq_django.worker.job import Job
    from emq_django.worker.outcomes import GiveUp, JobCancelled, Retry

_HOME_OF = {
    "Backoff": "task_backend.options",
    "ClaimedJob": "protocol.records",
    "EmqError": "errors",
    "EmqTaskContext": "task_backend.context",
    "GiveUp": "worker.outcomes",
    "Job": "worker.job",
    "JobCancelled": "worker.outcomes",
    "Receipt": "protocol.records",
    "Retry": "worker.outcomes",
    "Verdict": "protocol.records",
    "aclaim": "api",
    "acomplete": "api",
    "aenqueue": "api",
    "aenqueue_at": "api",
    "aenqueue_in": "api",
    "aenqueue_many": "api",
    "aextend": "api",
    "arelease": "api",
    "aretry": "api",
    "claim": "api",
    "complete": "api",
    "enqueue": "api",
    "enqueue_at": "api",
    "enqueue_in": "api",
    "enqueue_many": "api",
    "enqueue_on_commit": "task_backend.task",
    "extend": "api",
    "key_of_lane": "lanes",
    "lane_for": "lanes",
    "periodic": "timetable.entries",
    "release": "api",
    "retry": "api",
    "task": "task_backend.task",
}

__version__ = "0.1.0"

__all__ = [
    "Backoff",
    "ClaimedJob",
    "EmqError",
    "EmqTaskContext",
    "GiveUp",
    "Job",
    "JobCancelled",
    "Receipt",
    "Retry",
    "Verdict",
    "aclaim",
    "acomplete",
    "aenqueue",
    "aenqueue_at",
    "aenqueue_in",
    "aenqueue_many",
    "aextend",
    "arelease",
    "aretry",
    "claim",
    "complete",
    "enqueue",
    "enqueue_at",
    "enqueue_in",
    "enqueue_many",
    "enqueue_on_commit",
    "extend",
    "key_of_lane",
    "lane_for",
    "periodic",
    "release",
    "retry",
    "task",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
