"""Judges how a run ended, from its outcome and the server's answer: the one log line that says it.

A second send is answered as if nobody held the job when the first one got through, so then the
outcome itself says what became of it.
"""

from __future__ import annotations

from emq_django.errors import EmqError
from emq_django.protocol.records import Verdict
from emq_django.worker import log
from emq_django.worker.leases import Lease
from emq_django.worker.outcomes import Completed, Failed, Outcome, Parked
from emq_django.worker.settling import Delivered


def tell(
    lease: Lease, outcome: Outcome, answer: Delivered | EmqError, ms: int
) -> Completed | Failed | None:
    """Log how a run ended that took ``ms``. Return its outcome where it was the job's last one."""
    if isinstance(answer, EmqError):
        if not lease.handed_back:
            log.settle_failed(lease, ms, f"{type(answer).__name__}: {answer}")
    elif isinstance(outcome, Failed):
        return _tell_failed(lease, outcome, answer, ms)
    elif isinstance(outcome, Parked):
        _tell_parked(lease, outcome, answer, ms)
    elif answer.verdict is Verdict.COMPLETED or _was_done(answer, Verdict.GONE):
        log.completed(lease, ms)
        return outcome
    else:
        _tell_late(lease, "completion", ms)
    return None


def _tell_failed(lease: Lease, outcome: Failed, answer: Delivered, ms: int) -> Failed | None:
    was_done = _was_done(answer, Verdict.STALE, Verdict.GONE)
    if answer.verdict is Verdict.DEAD or (was_done and outcome.is_last(lease.job.tries)):
        log.died(lease, ms, outcome)
        return outcome
    if answer.verdict is Verdict.SCHEDULED or was_done:
        log.will_retry(lease, ms, outcome)
    else:
        _tell_late(lease, "retry", ms)
    return None


def _tell_parked(lease: Lease, outcome: Parked, answer: Delivered, ms: int) -> None:
    if answer.verdict is Verdict.DEAD:
        log.parked_too_long(lease, outcome)
    elif answer.verdict is Verdict.SCHEDULED or _was_done(answer, Verdict.STALE, Verdict.GONE):
        log.parked(lease, outcome)
    else:
        _tell_late(lease, "parking", ms)


def _tell_late(lease: Lease, what: str, ms: int) -> None:
    if not lease.handed_back:
        log.settled_too_late(lease, ms, what)


def _was_done(answer: Delivered, *verdicts: Verdict) -> bool:
    """Whether this answer to a second send says that the first one got through."""
    return answer.resent and answer.verdict in verdicts
