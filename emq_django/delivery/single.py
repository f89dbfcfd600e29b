"""Brings one job in. What an answer or an error means for a job is said here for ``bulk`` too."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from emq_django.delivery.patience import PASSING, Attempts, Patience
from emq_django.delivery.steps import Pause, Run, Steps
from emq_django.errors import EmqError, KindRefused, ProtocolError, ReplyLost
from emq_django.protocol import enqueue as admit
from emq_django.protocol.calls import Call
from emq_django.protocol.enqueue import Readmission
from emq_django.protocol.ids import mint
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.records import Receipt, Verdict

MOST_MINTS: Final = 10  # ids tried before something else must be wrong


class Admission(NamedTuple):
    """One job on its way in. ``mode`` and ``number`` as in ``protocol.enqueue.readmit``."""

    queue: Queue
    payload: bytes
    job_id: str | None
    lane: str | None
    mode: Any = "now"
    number: int = 0

    def first(self, job_id: str) -> Call[Verdict]:
        """Return the Call that admits the job when nothing was sent before."""
        queue, payload, _, lane, mode, number = self
        if mode == "now":
            if lane is None:
                return admit.enqueue(queue, job_id, payload)
            return admit.enqueue_lane(queue, job_id, payload, lane)
        if mode == "at":
            return admit.enqueue_at(queue, job_id, payload, number, lane)
        return admit.enqueue_in(queue, job_id, payload, number, lane)

    def again(self, job_id: str) -> Call[Any]:
        """Return the Call that admits the job when an earlier send may have got through."""
        queue, payload, _, lane, mode, number = self
        return admit.readmit(queue, job_id, payload, lane, mode, number)

    @property
    def success(self) -> Verdict:
        """The verdict of a job that was admitted."""
        return Verdict.ENQUEUED if self.mode == "now" else Verdict.SCHEDULED

    def verdict_of(self, found: Readmission) -> Verdict:
        """Return what an answer to ``again`` means.

        A completed job counts as admitted: it was this one that ran, unless a caller's id had
        ended not long before and its mark still lives.
        """
        return Verdict.DUPLICATE if found is Readmission.OTHER else self.success


def admission(
    job: Admission, patience: Patience, first_id: str | None = None, began_s: float | None = None
) -> Steps[Receipt]:
    """Admit one job; returns its receipt. A minted id that is taken is minted again.

    ``first_id`` and ``began_s`` are for a driver that made the first attempt by itself.
    """
    attempts = Attempts(patience, began_s)
    job_id = job.job_id or first_id or mint.one()
    for _ in range(MOST_MINTS):
        try:
            verdict: Verdict = yield Run(job.first(job_id), attempts.timeout_s())
        except PASSING as error:
            verdict = yield from _resend(job, job_id, error, attempts)
        if patience.down:
            patience.worked()
        if verdict is not Verdict.DUPLICATE or job.job_id is not None:
            return Receipt(job_id, verdict)
        mint.move()
        job_id = mint.one()
    raise all_taken()


def _resend(job: Admission, job_id: str, error: EmqError, attempts: Attempts) -> Steps[Verdict]:
    sent = isinstance(error, ReplyLost)
    while (attempt := attempts.after(error)) is not None:
        pause_s, left_s = attempt
        yield Pause(pause_s)
        try:
            if sent:
                found: Readmission = yield Run(job.again(job_id), left_s)
                return job.verdict_of(found)
            verdict: Verdict = yield Run(job.first(job_id), left_s)
        except PASSING as exc:
            error = exc
            sent = sent or isinstance(error, ReplyLost)
        except EmqError as exc:
            error = exc
            break
        else:
            return verdict
    raise after_loss(error, job_id, job.queue.name) if sent else error


def after_loss(error: EmqError, job_id: str, queue: str) -> EmqError:
    """Return the error of a job whose send may have got through, whatever was said later."""
    if isinstance(error, KindRefused):
        return error  # every script refuses such an id, the lost one did too
    lost = ReplyLost(
        f"{job_id} may have been admitted, no reply said so; the last attempt:"
        f" {str(error).rstrip('.')}. Enqueue it again with this job_id to make sure; a task has"
        f" get_result({f'{queue}:{job_id}'!r}) to look, and unique= to be enqueued again safely"
    )
    lost.__cause__ = error
    return lost


def all_taken() -> ProtocolError:
    """Return the error of a job whose minted ids all met another job's row."""
    return ProtocolError(f"{MOST_MINTS} new ids in a row were taken: does another program mint?")
