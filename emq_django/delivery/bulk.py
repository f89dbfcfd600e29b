"""Brings many jobs of one queue and lane in: few trips, a receipt for each, in input order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from emq_django.delivery.patience import PASSING, Attempts, Patience
from emq_django.delivery.single import MOST_MINTS, Admission, after_loss, all_taken
from emq_django.delivery.steps import Flush, Pause, Steps
from emq_django.errors import EmqError, PartlyEnqueued, ReplyLost, Unreachable
from emq_django.protocol import enqueue as admit
from emq_django.protocol.calls import Call
from emq_django.protocol.ids import mint
from emq_django.protocol.records import Receipt, Verdict

FLUSH_CALLS: Final = 10  # bulk scripts in one flush
CALL_BYTES: Final = 256 * 1024  # payload in one bulk script, unless one item alone is larger


class _Item:
    """One job of a bulk: its id, whether it may have got through, and how it fared so far."""

    __slots__ = ("job", "job_id", "outcome", "repeats", "sent")

    def __init__(self, job: Admission, job_id: str, *, repeats: bool) -> None:
        self.job = job
        self.job_id = job_id
        self.repeats = repeats  # an item before it has the same id
        self.sent = False
        self.outcome: Receipt | EmqError | None = None

    def mint_again(self) -> None:
        self.job_id, self.sent, self.outcome = mint.one(), False, None

    @property
    def is_taken(self) -> bool:
        """Whether the id was ours and met another job's row."""
        outcome = self.outcome
        return (
            self.job.job_id is None
            and isinstance(outcome, Receipt)
            and outcome.verdict is Verdict.DUPLICATE
        )

    def note_first(self, answer: Verdict | EmqError) -> None:
        if isinstance(answer, EmqError):
            self.outcome = answer
            self.sent = isinstance(answer, ReplyLost)
        else:
            self.outcome = Receipt(self.job_id, answer)

    def note_again(self, answer: Any) -> None:
        if isinstance(answer, EmqError):
            self.outcome = answer
            return
        verdict = self.job.verdict_of(answer)
        if self.repeats and answer is admit.Readmission.SAME:
            verdict = Verdict.DUPLICATE  # what lives there is the item before it
        self.outcome = Receipt(self.job_id, verdict)

    @property
    def result(self) -> Receipt | EmqError:
        """How it fared in the end; an error says whether the job may be in."""
        assert self.outcome is not None  # noqa: S101 - set for every item when a bulk ends
        if self.sent and isinstance(self.outcome, EmqError):
            return after_loss(self.outcome, self.job_id, self.job.queue.name)
        return self.outcome


def bulk(jobs: Sequence[Admission], patience: Patience) -> Steps[list[Receipt]]:
    """Admit many jobs of one queue and lane; returns receipts in input order.

    The deadline counts from the last flush that got through. Raises PartlyEnqueued when some jobs
    are in and others could not be admitted, else the error that kept all of them out.
    """
    items = _items(jobs)
    left = items
    attempts = Attempts(patience)
    for _ in range(MOST_MINTS):
        error = yield from _round(left, attempts, patience)
        left = [item for item in left if item.is_taken]
        if error is not None:
            _note_not_sent(left, error)
            return summed_up([item.result for item in items])
        if not left:
            return summed_up([item.result for item in items])
        mint.move()
        for item in left:
            item.mint_again()
    for item in left:
        item.outcome = all_taken()
    return summed_up([item.result for item in items])


def _items(jobs: Sequence[Admission]) -> list[_Item]:
    minted = iter(mint.many(sum(job.job_id is None for job in jobs)))
    seen: set[str] = set()
    items = []
    for job in jobs:
        if job.job_id is None:
            items.append(_Item(job, next(minted), repeats=False))
        else:
            items.append(_Item(job, job.job_id, repeats=job.job_id in seen))
            seen.add(job.job_id)
    return items


def _round(
    items: Sequence[_Item], attempts: Attempts, patience: Patience
) -> Steps[EmqError | None]:
    """Send every item once, and again what a passing error kept out; return what ended it."""
    sent = 0
    for group in _in_flushes(items):
        sent += len(group)
        left = group
        yield from _flush(left, attempts.timeout_s())
        while (error := _first_error(left, PASSING)) is not None:
            attempt = attempts.after(error)
            if attempt is None:
                break
            yield Pause(attempt[0])
            left = [item for item in left if isinstance(item.outcome, PASSING)]
            yield from _flush(left, attempt[1])
        error = _first_error(group, EmqError)
        if error is not None:
            _note_not_sent(items[sent:], error)
            return error
        patience.worked()
        attempts.restart()
    return None


def _first_error(
    items: Sequence[_Item], kinds: type[EmqError] | tuple[type[EmqError], ...]
) -> EmqError | None:
    for item in items:
        if isinstance(item.outcome, EmqError) and isinstance(item.outcome, kinds):
            return item.outcome
    return None


def _note_not_sent(items: Sequence[_Item], error: EmqError) -> None:
    """Note why items stayed here. They were not sent, whatever became of the ones before them."""
    if isinstance(error, ReplyLost):
        lost, error = error, Unreachable(f"not sent: a reply was lost before its turn: {error}")
        error.__cause__ = lost
    for item in items:
        item.outcome = error


def _flush(items: Sequence[_Item], timeout_s: float | None) -> Steps[None]:
    """Send items and note how each fared: together when nothing was sent, else one by one."""
    chunks = _in_calls([item for item in items if not item.sent])
    lone = [item for item in items if item.sent]
    calls: list[Call[Any]] = [_bulk_call(chunk) for chunk in chunks]
    calls += [item.job.again(item.job_id) for item in lone]
    answers = yield Flush(calls, timeout_s)
    for chunk, answer in zip(chunks, answers[: len(chunks)], strict=True):
        each = [answer] * len(chunk) if isinstance(answer, EmqError) else answer
        for item, one in zip(chunk, each, strict=True):
            item.note_first(one)
    for item, answer in zip(lone, answers[len(chunks) :], strict=True):
        item.note_again(answer)


def _bulk_call(chunk: Sequence[_Item]) -> Call[list[Verdict]]:
    job = chunk[0].job
    return admit.enqueue_many(job.queue, [(i.job_id, i.job.payload) for i in chunk], job.lane)


def _in_calls(items: Sequence[_Item]) -> list[list[_Item]]:
    """Cut items into bulk scripts: at most 100 ids and about 256 KiB each."""
    return list(_cut(items, admit.BULK_IDS, CALL_BYTES))


def _in_flushes(items: Sequence[_Item]) -> Iterator[list[_Item]]:
    """Cut items into flushes of ten full bulk scripts, fewer items when payloads are large."""
    return _cut(items, admit.BULK_IDS * FLUSH_CALLS, CALL_BYTES * FLUSH_CALLS)


def _cut(items: Sequence[_Item], most: int, most_bytes: int) -> Iterator[list[_Item]]:
    group: list[_Item] = []
    size = 0
    for item in items:
        size += len(item.job.payload)
        if group and (len(group) == most or size > most_bytes):
            yield group
            group, size = [], len(item.job.payload)
        group.append(item)
    if group:
        yield group


def summed_up(results: Sequence[Receipt | EmqError]) -> list[Receipt]:
    """Return the receipts of a bulk, or raise what kept jobs out.

    PartlyEnqueued when some jobs are in, else the error of the first; a lost reply comes first.
    """
    errors = [one for one in results if isinstance(one, EmqError)]
    receipts = [one for one in results if isinstance(one, Receipt)]
    if not errors:
        return receipts
    lost = next((one for one in errors if isinstance(one, ReplyLost)), None)
    if not receipts:
        raise lost or errors[0]
    admitted = sum(one.verdict is not Verdict.DUPLICATE for one in receipts)
    raise PartlyEnqueued(
        f"{admitted} of {len(results)} jobs were admitted, then: {errors[0]};"
        " .outcomes has a receipt or an error for each",
        results,
    ) from errors[0]
