"""What a task with ``takes_context=True`` gets: Django's context, and ``context.emq`` beside it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from emq_django.conf import keys
from emq_django.connections import async_wire_for, wire_for
from emq_django.errors import EmqError
from emq_django.protocol import notes
from emq_django.protocol.calls import Call
from emq_django.task_backend.compat import GenericTaskContext
from emq_django.worker.job import Job

logger = logging.getLogger("emq_django.tasks")

_TIMEOUT_S = 1.0  # a note is a courtesy: the task is not kept waiting for it


class Run:
    """``context.emq``: the run of a job, seen from inside.

    A note (progress, log) that can't be written is dropped: it is never a reason to fail.
    """

    def __init__(self, job: Job) -> None:
        self._job = job

    @property
    def job_id(self) -> str:
        """The job's branded id."""
        return self._job.id

    @property
    def queue(self) -> str:
        """The queue's name; of a queue with priorities, the band's."""
        return self._job.queue

    @property
    def token(self) -> int:
        """The fencing token: it grows with every claim of this job.

        A write guarded by "only if no larger token was here" is safe against a run that lost its
        lease: see ``emq_django.fencing``.
        """
        return self._job.attempts

    @property
    def lease_lost(self) -> bool:
        """Whether another worker may hold the job by now: stop before the next side effect."""
        return self._job.lease_lost

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked for the task's end: clean up, then ``raise_if_cancelled()``.

        Known within about a second. A task that goes on all the same ends as usual, but is not
        retried. A coroutine need not look: it is cancelled.
        """
        return self._job.cancelled

    def raise_if_cancelled(self) -> None:
        """End the task if that was asked for, by raising JobCancelled: its result says FAILED."""
        self._job.raise_if_cancelled()

    def progress(self, value: float | str) -> bool:
        """Note how far the task is, for whoever reads its result. False when it was not noted."""
        return self._note(notes.progress(keys(self.queue), self.job_id, _text(value))) is True

    def log(self, line: str) -> bool:
        """Add a line to the job's log, which the admin shows. False when it was not added."""
        return self._note(notes.add_log(keys(self.queue), self.job_id, _text(line))) is not None

    async def aprogress(self, value: float | str) -> bool:
        """Note how far the task is; the async twin of ``progress``."""
        call = notes.progress(keys(self.queue), self.job_id, _text(value))
        return await self._anote(call) is True

    async def alog(self, line: str) -> bool:
        """Add a line to the job's log; the async twin of ``log``."""
        call = notes.add_log(keys(self.queue), self.job_id, _text(line))
        return await self._anote(call) is not None

    def _note(self, call: Call[Any]) -> Any:
        try:
            return wire_for(keys(self.queue)).run(call, _TIMEOUT_S)
        except EmqError:
            logger.debug("a note of %s was dropped", self.job_id, exc_info=True)
            return None

    async def _anote(self, call: Call[Any]) -> Any:
        try:
            return await async_wire_for(keys(self.queue)).run(call, _TIMEOUT_S)
        except EmqError:
            logger.debug("a note of %s was dropped", self.job_id, exc_info=True)
            return None


@dataclass(frozen=True, kw_only=True)
class EmqTaskContext(GenericTaskContext[Any, Any]):  # type: ignore[misc] # frozen in Django
    """Django's TaskContext with ``emq``."""

    emq: Run


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)
