"""One job on a slot: handler -> outcome -> one settle call, alone or with others -> one log line.

Nothing that job code raises leaves this module.
"""

from __future__ import annotations

import inspect
import os
import time
from dataclasses import dataclass
from typing import Final, TypeGuard

from emq_django.protocol import settle
from emq_django.protocol.calls import Call
from emq_django.protocol.records import Verdict
from emq_django.worker import failure, log
from emq_django.worker.ends import End, Ends, Settled
from emq_django.worker.hooks import Hooks
from emq_django.worker.job import Job
from emq_django.worker.leases import Lease
from emq_django.worker.outcomes import Completed, Failed, Outcome, Parked, Retry
from emq_django.worker.pace import SHORT_S
from emq_django.worker.retry import Policy, done_mark_ms
from emq_django.worker.settling import deliver
from emq_django.worker.telling import tell

_SMALL_BYTES: Final = 4_096  # a larger result travels by itself


class AwaitableReturned(TypeError):
    """The handler returned a coroutine, which nobody would have run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How this worker runs a job; ``run`` takes one through its steps."""

    hooks: Hooks
    enqueue_deadline_ms: int
    settled: Settled
    worker: str = ""
    ends: Ends | None = None

    def run(self, lease: Lease) -> None:
        """Run the handler and report its end; returns when the server knows, or never will.

        A short end may be left in ``ends``, to be reported with others.
        """
        began_s = time.monotonic()
        log.started(lease)
        outcome = self._attempt(lease)
        lease.ends()
        ran_s = time.monotonic() - began_s
        lease.source.pace.ran(ran_s, len(lease.job.payload))
        if lease.handed_back:
            self.settled(lease, None)
            return
        if self.ends is not None and _may_wait(outcome, lease, ran_s):
            finished = settle.Finished(lease.job, self._done_ms(lease), outcome.kept)
            if self.ends.add(End(lease, finished, round(ran_s * 1_000))):
                return
        answer = deliver(lease, self._settlement(lease, outcome))
        ms = round((time.monotonic() - began_s) * 1_000)
        self.settled(lease, tell(lease, outcome, answer, ms))

    def _attempt(self, lease: Lease) -> Outcome:
        """Call the handler; whatever it raises is an outcome, and it may return one."""
        job = handed_over(lease, self.worker)
        options = lease.source.options
        pid, began_ms = os.getpid(), _now_ms()
        returned: list[object] = []
        try:
            self.hooks.around(job, lambda: returned.append(_no_awaitable(options.handler(job))))
        except BaseException as exc:  # noqa: BLE001 - sys.exit() in a job must not end the worker
            return judge(exc, job, options.policy(job), began_ms)
        finally:
            end_if_forked_since(pid)
        return returned[0] if isinstance(returned[0], Completed | Parked) else Completed()

    def _settlement(self, lease: Lease, outcome: Outcome) -> Call[Verdict]:
        """Return the one call that reports the outcome."""
        keys, job = lease.source.options.keys, lease.job
        if isinstance(outcome, Failed):
            return settle.retry(
                keys, job, outcome.error, outcome.delay_ms, outcome.max_attempts,
                record=outcome.record,
            )  # fmt: skip
        if isinstance(outcome, Parked):
            return settle.park(keys, job, outcome.delay_ms, outcome.grace_ms, outcome.reason)
        return settle.complete(keys, job, self._done_ms(lease), kept=outcome.kept)

    def _done_ms(self, lease: Lease) -> int:
        return done_mark_ms(lease.job.id, _now_ms(), self.enqueue_deadline_ms)


def _may_wait(outcome: Outcome, lease: Lease, ran_s: float) -> TypeGuard[Completed]:
    """Whether this end may be reported together with others. A suspect's never is."""
    if ran_s > SHORT_S or lease.job.stalled or not isinstance(outcome, Completed):
        return False
    kept = outcome.kept
    return kept is None or sum([len(value) for _, value in kept.fields]) <= _SMALL_BYTES


def handed_over(lease: Lease, worker: str = "") -> Job:
    """Return what the handler gets."""
    job = lease.job
    return Job(
        id=job.id,
        payload=job.payload,
        attempts=job.attempts,
        lane=job.lane,
        queue=job.queue,
        tries=job.tries,
        failures=job.failures,
        worker=worker,
        hold=lease,
    )


def judge(exc: BaseException, job: Job, policy: Policy, began_ms: int = 0) -> Failed:
    """Return what becomes of a job whose handler raised ``exc``."""
    max_attempts = policy.max_attempts
    asked_ms = exc.in_ms if isinstance(exc, Retry) else None
    if job.cancelled or not (isinstance(exc, Retry) or policy.allows_another(exc)):
        max_attempts = 0
    return Failed(
        error=failure.describe(exc),
        brief=failure.brief(exc),
        delay_ms=policy.next_pause_ms(job.tries + 1) if asked_ms is None else asked_ms,
        max_attempts=max_attempts,
        record=failure.record(exc, job.attempts, job.worker, began_ms, _now_ms()),
        cause=exc,
    )


def end_if_forked_since(pid: int) -> None:
    """End a child process that job code forked and that came back: the run is its parent's."""
    if os.getpid() != pid:
        os._exit(1)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _no_awaitable(result: object) -> object:
    if inspect.iscoroutine(result):
        result.close()  # else Python warns that it was never awaited
    if inspect.isawaitable(result):
        raise AwaitableReturned(
            "the handler returned an awaitable, which was not run: give a plain function"
        )
    return result
