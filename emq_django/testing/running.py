"""Runs jobs in the test's own thread, by the code that a worker runs them with."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from asgiref.sync import sync_to_async

from emq_django.conf import conf
from emq_django.connections import wire_for
from emq_django.errors import ConfigError
from emq_django.job_context import DjangoHooks
from emq_django.testing.isolation import is_for_tasks, known_queues
from emq_django.testing.looking import task_of
from emq_django.worker.afterwards import tell_of_end
from emq_django.worker.job import Job
from emq_django.worker.leases import Lease
from emq_django.worker.options import QueueOptions
from emq_django.worker.outcomes import Completed, Failed
from emq_django.worker.run import Execution
from emq_django.worker.sources import Sources, sources_of

_MOST: Final = 1_000  # jobs in one run_pending
_LEASE_MS: Final = 600_000  # nobody renews in here, and a debugger may stop a run


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of one job. ``error`` is what its code raised, None where it ended well."""

    queue: str
    id: str
    task: str
    error: BaseException | None = None


def run_pending(*queues: str, raise_errors: bool = True, most: int = _MOST) -> list[Ran]:
    """Run the jobs that are claimable, and those that they enqueue, in this thread.

    Without names, of every queue. What a job raises goes to the test, after the job was settled as
    a worker would: it waits for its next try, or is dead. With ``raise_errors=False`` it is in the
    answer instead. Jobs run inside the test's transaction, if there is one.

    Raises:
        AssertionError: there are still jobs after ``most`` of them.
    """
    seen: list[tuple[Job, BaseException | None]] = []
    sources = _sources(queues, seen)
    ran: list[Ran] = []
    hooks = DjangoHooks()

    def settled(lease: Lease, ended: Completed | Failed | None) -> None:
        if ended is not None:
            tell_of_end(hooks, lease, ended)

    execution = Execution(hooks=hooks, enqueue_deadline_ms=0, settled=settled, worker="testing")
    while taken := sources.take("testing", 1).jobs:
        source, job = taken[0]
        if len(ran) >= most:
            raise AssertionError(f"there are more jobs after {most}: do they enqueue each other?")
        seen.clear()
        lease = Lease(source, job, time.monotonic())
        execution.run(lease)
        error = seen[-1][1] if seen else None
        ran.append(Ran(job.queue, job.id, task_of(job.payload, job.queue), error))
        if error is not None and raise_errors:
            raise error
    if sources.all and not sources.all_well():
        raise AssertionError("a queue could not be asked for its jobs; the log says why")
    return ran


async def arun_pending(*queues: str, raise_errors: bool = True, most: int = _MOST) -> list[Ran]:
    """Run the jobs that are claimable; the async twin of ``run_pending``."""
    return await sync_to_async(run_pending)(*queues, raise_errors=raise_errors, most=most)


@contextlib.contextmanager
def immediate(*, raise_errors: bool = True) -> Iterator[None]:
    """Run each task when it is enqueued, before ``enqueue`` returns.

    The result that ``enqueue`` returns was made before the run: ``refresh()`` it. What the task
    raises comes out of ``enqueue``. Calls on commit run when the transaction commits.
    """
    from emq_django.task_backend.compat import task_enqueued

    running = False

    def run_now(**_: object) -> None:
        nonlocal running
        if running:
            return  # a task that enqueues another: the loop around it runs that too
        running = True
        try:
            run_pending(raise_errors=raise_errors)
        finally:
            running = False

    task_enqueued.connect(run_now, weak=False)
    try:
        yield
    finally:
        task_enqueued.disconnect(run_now)


def _sources(names: Sequence[str], seen: list[Any]) -> Sources:
    from emq_django.workers import options_for

    served = names or _served()
    if not served:
        raise ConfigError(
            'there is no queue to run: give one in EMQ["QUEUES"] a "HANDLER", or set TASKS.'
        )
    options = options_for(served, _LEASE_MS, concurrency=1)
    by_name = {one.keys.name: one for one in options.queues}
    watched = tuple(_watched(one, seen) for one in by_name.values())
    return sources_of(replace(options, queues=watched), wire_for)


def _served() -> list[str]:
    return [name for name in known_queues() if conf().queue(name).handler or is_for_tasks(name)]


def _watched(queue: QueueOptions, seen: list[Any]) -> QueueOptions:
    """Return a queue whose handler's failures are noted on their way to the worker's code."""

    def handler(job: Job) -> object:
        try:
            done = queue.handler(job)
        except BaseException as exc:
            seen.append((job, exc))
            raise
        seen.append((job, None))
        return done

    return replace(queue, handler=handler)
