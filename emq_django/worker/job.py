"""What a handler gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from emq_django.worker.outcomes import Completed, Failed, JobCancelled
from emq_django.worker.retry import Policy

Tell = Callable[[Completed | Failed], None]


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
    """

    id: str
    payload: bytes
    attempts: int = 1
    lane: str | None = None
    queue: str = ""
    tries: int = 0
    failures: int = 0
    worker: str = ""
    is_lost: Callable[[], bool] | None = field(default=None, repr=False, compare=False)
    is_cancelled: Callable[[], bool] | None = field(default=None, repr=False, compare=False)
    renew_by: Callable[[int], None] | None = field(default=None, repr=False, compare=False)
    limit_to: Callable[[float], bool] | None = field(default=None, repr=False, compare=False)
    judge_by: Callable[[Policy], None] | None = field(default=None, repr=False, compare=False)
    tell_by: Callable[[tuple[Job, Tell]], None] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def lease_lost(self) -> bool:
        """Whether another worker may hold this job by now: stop before the next side effect.

        True once the server said so, or when the lease could not be renewed in time.
        """
        return self.is_lost is not None and self.is_lost()

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked for this job's end: clean up, then ``raise_if_cancelled()``.

        Known within about a second. The job is not run again, whatever it does now.
        """
        return self.is_cancelled is not None and self.is_cancelled()

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
        if self.tell_by is not None:
            self.tell_by((self, tell))

    def set_hard_limit_s(self, limit_s: float) -> bool:
        """Have the process that runs this job killed when it takes longer, counted from now.

        In place of its queue's ``HARD_LIMIT_S``. False when this process has no parent to do it.
        """
        return self.limit_to is not None and self.limit_to(limit_s)

    def set_policy(self, policy: Policy) -> None:
        """Have this run judged by ``policy`` if its hard limit ends it; call it once that is set.

        In place of its queue's. The pause is asked for now: then nobody is left who could.
        """
        if self.judge_by is not None:
            self.judge_by(policy)

    def set_lease_ms(self, lease_ms: int) -> None:
        """Have this job's lease renewed by ``lease_ms`` from now on, in place of its queue's."""
        if self.renew_by is not None:
            self.renew_by(lease_ms)
