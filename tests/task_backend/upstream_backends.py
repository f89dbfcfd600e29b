"""Two faces of EmqBackend with which Django's own task tests run, on a server of their own.

Those tests were written against backends that run a task at once or never, and keep results in a
list. So one face runs the job that it just enqueued, through the same scripts and the same runner
as a worker; the other notes its results beside the server's.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import redis

from emq_django.conf import conf, keys
from emq_django.connections import wire_for
from emq_django.protocol import claim, settle
from emq_django.task_backend import options, runner
from emq_django.task_backend.backend import EmqBackend
from emq_django.task_backend.compat import task_enqueued
from emq_django.worker.job import Hold, Job
from emq_django.worker.outcomes import Completed, Failed
from emq_django.worker.retry import Policy
from emq_django.worker.run import judge

LEASE_MS = 30_000


class ImmediateBackend(EmqBackend):
    """Runs each call once, right after it was enqueued."""

    supports_defer = False

    @property
    def supports_priority(self) -> bool:  # type: ignore[override]
        return True

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result: Any = super().enqueue(task, args, kwargs)
        name, _, job_id = result.id.rpartition(":")
        queue = keys(name)
        jobs = wire_for(queue).run(claim.take(queue, "upstream", LEASE_MS, 1_000)).jobs
        taken = next(one for one in jobs if one.id == job_id)  # the dummy's jobs wait there too
        hold = mock.Mock(spec_set=Hold)
        hold.over.return_value = hold.cancelled.return_value = False
        job = Job(
            id=taken.id, payload=taken.payload, attempts=taken.attempts, queue=taken.queue,
            worker="upstream", hold=hold,
        )  # fmt: skip
        outcome, call = self._run(queue, taken, job)
        wire_for(queue).run(call)
        for called in hold.when_ended.call_args_list:
            called.args[1](outcome)
        result.refresh()
        return result

    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        from asgiref.sync import sync_to_async

        return await sync_to_async(self.enqueue)(task, args, kwargs)

    def _run(self, queue: Any, taken: Any, job: Job) -> tuple[Completed | Failed, Any]:
        policy = Policy(max_attempts=1, pause_ms=lambda _: 0)
        try:
            with mock.patch.object(options, "policy_of", return_value=policy):
                outcome = runner.run(job)
        except KeyboardInterrupt:
            wire_for(queue).run(settle.retry(queue, taken, "interrupted", 0, 1))
            raise
        except BaseException as exc:  # noqa: BLE001 - as a worker does
            failed = judge(exc, job, policy, runner._now_ms())
            return failed, settle.retry(queue, taken, failed.error, 0, 1, record=failed.record)
        assert isinstance(outcome, Completed), outcome
        return outcome, settle.complete(queue, taken, kept=outcome.kept)


class DummyBackend(EmqBackend):
    """Runs nothing, and lists what was enqueued."""

    noted: list[Any] = []

    @property
    def supports_priority(self) -> bool:  # type: ignore[override]
        return True

    @property
    def results(self) -> list[Any]:
        return self.noted

    def clear(self) -> None:
        """Forget everything, the server's jobs too: the server is the tests' own."""
        self.noted.clear()
        with redis.Redis.from_url(conf().connection) as client:
            client.flushdb()


def _note(sender: type, task_result: Any, **_: Any) -> None:
    if issubclass(sender, DummyBackend):
        DummyBackend.noted.append(task_result)


task_enqueued.connect(_note)
