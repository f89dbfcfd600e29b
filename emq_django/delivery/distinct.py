"""Brings jobs of one queue in that differ in lane, due time or unique key: one flush for many.

Each is sent as a ``readmit``, which may be sent again whatever became of the first send.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from emq_django.delivery.bulk import CALL_BYTES, FLUSH_CALLS, summed_up
from emq_django.delivery.patience import PASSING, Attempts, Patience
from emq_django.delivery.single import MOST_MINTS, Admission, after_loss, all_taken
from emq_django.delivery.steps import Flush, Pause, Steps
from emq_django.errors import EmqError, ReplyLost, Unreachable
from emq_django.protocol import enqueue as admit
from emq_django.protocol.calls import Call
from emq_django.protocol.enqueue import Readmission
from emq_django.protocol.ids import mint
from emq_django.protocol.records import Receipt, Verdict

FLUSH_JOBS: Final = 500  # readmits in one flush


class Distinct(NamedTuple):
    """One job on its way in. While a job with the same ``unique`` key lives, it is a duplicate."""

    job: Admission
    unique: str = ""


class _Item:
    __slots__ = ("entry", "job_id", "outcome", "sent")

    def __init__(self, entry: Distinct, job_id: str) -> None:
        self.entry = entry
        self.job_id = job_id
        self.sent = False  # a send may have got through
        self.outcome: Receipt | EmqError | None = None

    def call(self) -> Call[Any]:
        queue, payload, _, lane, mode, number = self.entry.job
        return admit.readmit(queue, self.job_id, payload, lane, mode, number, self.entry.unique)

    def note(self, answer: Any) -> None:
        """Note an answer. None of an id of ours that is another job's: it is minted again."""
        if isinstance(answer, EmqError):
            self.outcome = answer
            self.sent = self.sent or isinstance(answer, ReplyLost)
        elif isinstance(answer, str):
            self.outcome = Receipt(answer, Verdict.DUPLICATE)
        elif self._is_taken(answer):
            if self.entry.job.job_id is None:
                self.sent, self.outcome = False, None
            else:
                self.outcome = Receipt(self.job_id, Verdict.DUPLICATE)
        else:
            self.outcome = Receipt(self.job_id, self.entry.job.success)

    def _is_taken(self, answer: Readmission) -> bool:
        """Whether the id is another job's: a first send that finds equal bytes did not put them."""
        if self.sent:
            return answer is Readmission.OTHER
        return answer is not Readmission.ADMITTED

    @property
    def result(self) -> Receipt | EmqError:
        outcome = all_taken() if self.outcome is None else self.outcome
        if self.sent and isinstance(outcome, EmqError):
            return after_loss(outcome, self.job_id, self.entry.job.queue.name)
        return outcome


def distinct(entries: Sequence[Distinct], patience: Patience) -> Steps[list[Receipt]]:
    """Admit jobs; returns receipts in input order. A duplicate's receipt has the live job's id.

    The deadline counts from the last flush that got through. Raises PartlyEnqueued when some jobs
    are in and others could not be admitted, else the error that kept all of them out.
    """
    items = [_Item(entry, entry.job.job_id or mint.one()) for entry in entries]
    attempts = Attempts(patience)
    for group in _in_flushes(items):
        error = yield from _send(group, attempts)
        if error is not None:
            _note_not_sent(items, error)
            break
        patience.worked()
        attempts.restart()
    return summed_up([item.result for item in items])


def _send(group: Sequence[_Item], attempts: Attempts) -> Steps[EmqError | None]:
    """Send a group until each of its jobs has an answer; return what ended that too early."""
    left = list(group)
    timeout_s = attempts.timeout_s()
    for _ in range(MOST_MINTS):
        yield from _flush(left, timeout_s)
        while (error := _first_error(left, PASSING)) is not None:
            attempt = attempts.after(error)
            if attempt is None:
                break
            pause_s, timeout_s = attempt
            yield Pause(pause_s)
            yield from _flush([one for one in left if isinstance(one.outcome, PASSING)], timeout_s)
        error = _first_error(group, (EmqError,))
        left = [item for item in left if item.outcome is None]
        if error is not None or not left:
            return error
        mint.move()
        for item in left:
            item.job_id = mint.one()
    return None


def _flush(items: Sequence[_Item], timeout_s: float | None) -> Steps[None]:
    answers = yield Flush([item.call() for item in items], timeout_s)
    for item, answer in zip(items, answers, strict=True):
        item.note(answer)


def _first_error(items: Sequence[_Item], kinds: tuple[type[EmqError], ...]) -> EmqError | None:
    for item in items:
        if isinstance(item.outcome, EmqError) and isinstance(item.outcome, kinds):
            return item.outcome
    return None


def _note_not_sent(items: Sequence[_Item], error: EmqError) -> None:
    if isinstance(error, ReplyLost):
        error = Unreachable(f"not sent: a reply was lost before its turn: {error}")
    for item in items:
        if item.outcome is None:
            item.outcome = error


def _in_flushes(items: Sequence[_Item]) -> Iterator[list[_Item]]:
    group: list[_Item] = []
    size = 0
    for item in items:
        size += len(item.entry.job.payload)
        if group and (len(group) == FLUSH_JOBS or size > CALL_BYTES * FLUSH_CALLS):
            yield group
            group, size = [], len(item.entry.job.payload)
        group.append(item)
    if group:
        yield group
