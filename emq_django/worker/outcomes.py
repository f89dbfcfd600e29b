"""How a run can end: the exceptions with which job code says so, and the outcome of a run.

No settle rules: ``run.py`` turns an outcome into one call.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from emq_django.protocol.numbers import valid_ms
from emq_django.protocol.results import Kept


class Retry(Exception):
    """Raised by job code: run this job again, in ``in_ms`` or after the queue's usual pause.

    It counts as a failed run, so a job that always asks for another one dies in the end.
    """

    def __init__(self, reason: str = "", *, in_ms: int | None = None) -> None:
        super().__init__(reason)
        self.in_ms = None if in_ms is None else valid_ms(in_ms, "in_ms")


class GiveUp(Exception):
    """Raised by job code: no further run can help. The job goes to dead with this reason."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


class SoftTimeLimit(BaseException):
    """Raised in a job that takes too long: clean up and end.

    Not an Exception, so that ``except Exception`` in job code does not swallow it.
    """


class HardTimeLimit(Exception):
    """Stands in a job's errors for a run whose process was killed: it took too long.

    It is raised nowhere. ``retry_on`` and ``give_up_on`` may name it.
    """


class JobCancelled(BaseException):
    """Raised in a job whose end was asked for. It goes to dead, whatever tries are left.

    Not an Exception, so that ``except Exception`` in job code does not swallow it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The handler returned. A handler may return one itself, to have a result ``kept``."""

    kept: Kept | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The handler raised, whatever it raised.

    Attributes:
        error: for the row; several lines.
        brief: for the log; one line.
        delay_ms: the pause before the next run, if there is one.
        max_attempts: the job dies when this many runs ended badly; 0 ends it now.
        record: for the row's list of errors; one line of JSON.
        cause: what was raised.
    """

    error: str
    brief: str
    delay_ms: int
    max_attempts: int
    record: bytes = b""
    cause: BaseException | None = field(default=None, repr=False, compare=False)

    def is_last(self, tries: int) -> bool:
        """Tell whether a job that already had so many bad runs dies of this one."""
        return tries + 1 >= self.max_attempts


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """A handler returns this for a job that this worker can't run, but another one may.

    Attributes:
        reason: for the log, and for the row when the job dies of it.
        delay_ms: the pause before the next look.
        grace_ms: the job dies when it has been put aside for this long.
    """

    reason: str
    delay_ms: int
    grace_ms: int


Outcome = Completed | Failed | Parked
