"""What a handler gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from emq_django.worker.outcomes import Completed, Failed, JobCancelled
from emq_django.worker.retry import Policy

Tell = Callable[[Completed | Failed], None]


class Hold(Protocol):
    """What a worker that holds a job does for the run: what ``Job`` says of it is done here."""

    def over(self) -> bool:
        """Whether another worker may hold the job by now."""

    def cancelled(self) -> bool:
        """Whether somebody wants the job to end."""

    def renew_by(self, lease_ms: int) -> None:
        """Renew by another time from now on."""

    def limit_to(self, limit_s: float) -> bool:
        """Have the process killed when the run takes longer; False when nobody is there to."""

    def judge_by(self, policy: Policy) -> None:
        """Note what becomes of the job if the hard limit ends its run."""

    def when_ended(self, job: Job, tell: Tell) -> None:
        """Call ``tell`` once the server knows of the job's end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run of one job. Tests of handlers may build their own.

    Attributes:
        id: the job's branded id.
        payload: the bytes that were enqueued.
        attempts: the fencing token: grows with every claim of this job. A write guarded by
            "only if my number is the highest seen" is safe against a run that lost its lease.
        lane: the lane that the job waited in, or None.
        queue: the queue's name, without prefix.
        tries: how many runs ended badly so far; ``failures`` of them failed, the others were lost
            with their worker.
        worker: the name of the worker process that runs it.
        hold: the worker's side of this run; None where a test runs the handler.
    """

    id: str
    payload: bytes
    attempts: int = 1
    lane: str | None = None
    queue: str = ""
    tries: int = 0
    failures: int = 0
    worker: str = ""
    hold: Hold | None = field(default=None, repr=False, compare=False)

    @property
    def lease_lost(self) -> bool:
        """Whether another worker may hold this job by now: stop before the next side effect.

        True once the server said so, or when the lease could not be renewed in time.
        """
        return self.hold is not None and self.hold.over()

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked for this job's end: clean up, then ``raise_if_cancelled()``.

        Known within about a second. The job is not run again, whatever it does now.
        """
        return self.hold is not None and self.hold.cancelled()

    def raise_if_cancelled(self) -> None:
        """End the job if that was asked for, by raising JobCancelled."""
        if self.cancelled:
            raise JobCancelled("its end was asked for")

    def when_ended(self, tell: Tell) -> None:
        """Have ``tell`` called once the server knows that this run was the job's last.

        With ``Completed``, or with ``Failed`` where the job is dead; on the thread that ran it, as
        another run of the worker's hooks. Whatever it does changes nothing for the job. It is not
        called where the job runs again, where another run ended it, or where this process ends
        before.
        """
        if self.hold is not None:
            self.hold.when_ended(self, tell)

    def set_hard_limit_s(self, limit_s: float) -> bool:
        """Have the process that runs this job killed when it takes longer, counted from now.

        In place of its queue's ``HARD_LIMIT_S``. False when this process has no parent to do it.
        """
        return self.hold is not None and self.hold.limit_to(limit_s)

    def set_policy(self, policy: Policy) -> None:
        """Have this run judged by ``policy`` if its hard limit ends it; call it once that is set.

        In place of its queue's. The pause is asked for now: then nobody is left who could.
        """
        if self.hold is not None:
            self.hold.judge_by(policy)

    def set_lease_ms(self, lease_ms: int) -> None:
        """Have this job's lease renewed by ``lease_ms`` from now on, in place of its queue's."""
        if self.hold is not None:
            self.hold.renew_by(lease_ms)
