"""Whether and when a failed job runs again, and how long a completed one is remembered. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from emq_django.protocol import ids
from emq_django.protocol.numbers import valid_ms
from emq_django.worker.log import logger
from emq_django.worker.outcomes import GiveUp, JobCancelled
from emq_django.worker.pauses import jitter

DEFAULT_BASE_MS = 1_000
DEFAULT_CAP_MS = 600_000

_LOST_MS = (500, 1_500)
_DOUBLINGS = 62  # beyond this every ceiling is past any cap


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a job that failed may still hope for.

    Attributes:
        max_attempts: it dies when this many runs ended badly.
        pause_ms: gives the pause after the n-th bad run (1 is the first).
        retry_on: only these exceptions are worth another run; None: all are.
        give_up_on: these never are.
    """

    max_attempts: int
    pause_ms: Callable[[int], int]
    retry_on: tuple[type[BaseException], ...] | None = None
    give_up_on: tuple[type[BaseException], ...] = ()

    def allows_another(self, exc: BaseException) -> bool:
        """Whether a run that ended with ``exc`` is worth another one, if tries are left."""
        if isinstance(exc, (GiveUp, JobCancelled, *self.give_up_on)):
            return False
        return self.retry_on is None or isinstance(exc, self.retry_on)

    def next_pause_ms(self, tries: int) -> int:
        """Return the pause after the ``tries``-th bad run; the usual one where its own fails."""
        try:
            return valid_ms(round(self.pause_ms(tries)), "the pause of a policy")
        except Exception:  # noqa: BLE001 - a project's own function must not cost it the job
            logger.exception("a back-off function failed, the usual pause is made")
            return delay_ms(tries, DEFAULT_BASE_MS, DEFAULT_CAP_MS)


def lost_pause_ms(uniform: Callable[[float, float], float] = jitter) -> int:
    """Return the pause before a job runs again that was lost with its worker more than once.

    Drawn, and each job of a batch waits for another share of it on top: jobs that were lost
    together do not come back together, so that the next loss tells which of them is to blame.
    """
    return round(uniform(*_LOST_MS))


def ceiling_ms(tries: int, base_ms: int, cap_ms: int) -> int:
    """Return the longest pause after the ``tries``-th bad run (1 is the first).

    >>> [ceiling_ms(tries, base_ms=1_000, cap_ms=10_000) for tries in (1, 2, 3, 4, 5)]
    [1000, 2000, 4000, 8000, 10000]
    >>> ceiling_ms(3, base_ms=0, cap_ms=10_000)
    0
    """
    doublings = min(max(tries - 1, 0), _DOUBLINGS)
    return int(min(base_ms << doublings, cap_ms))


def delay_ms(
    tries: int,
    base_ms: int,
    cap_ms: int,
    *,
    uniform: Callable[[float, float], float] = jitter,
) -> int:
    """Return the pause after the ``tries``-th bad run: exponential, with full jitter.

    Any pause from 0 to the ceiling is equally likely, which spreads jobs that failed together
    (a dead mail server) better than a narrow band around the ceiling.
    """
    return round(uniform(0, ceiling_ms(tries, base_ms, cap_ms)))


def done_mark_ms(job_id: str, now_ms: int, enqueue_deadline_ms: int) -> int:
    """Return for how long the server should remember a completed job, 0 for not at all.

    Its producer may still be resending the enqueue whose reply was lost, for one deadline after
    the mint of the id. The mark lets that resend find that the job is done rather than admit it
    again; twice the deadline leaves room for clocks that differ.

    >>> now_ms = ids.minted_ms("JOB00000000000") + 9_000
    >>> done_mark_ms("JOB00000000000", now_ms, enqueue_deadline_ms=5_000)
    10000
    >>> done_mark_ms("JOB00000000000", now_ms, enqueue_deadline_ms=4_000)
    0
    """
    at_ms = ids.minted_or_none(job_id)
    horizon_ms = 2 * enqueue_deadline_ms
    return 0 if at_ms is None or now_ms - at_ms >= horizon_ms else horizon_ms
