"""The worker's log: one line and one count per change of a job's state, and limits on what repeats.

Text that came from outside (ids, queue names, errors of job code) passes ``one_line``, so that it
cannot forge a line.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from emq_django.protocol.ids import minted_or_none
from emq_django.worker.failure import one_line

if TYPE_CHECKING:
    from emq_django.protocol.records import ClaimedJob
    from emq_django.worker.leases import Lease
    from emq_django.worker.options import WorkerOptions
    from emq_django.worker.outcomes import Failed, Parked

logger = logging.getLogger("emq_django.worker")

_FIRST_QUIET_S: Final = 10.0
_LONGEST_QUIET_S: Final = 60.0
# How the envelope of a task begins (task_backend/codec.py writes it).
_TASK: Final = re.compile(rb'\{"v":\d{1,3},"task":"([\w.]{1,200})"')


class Quiet:
    """Says whether a repeating event may be logged: at once, then 10, 20, 40, 60, 60 s later."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[object, tuple[float, float]] = {}  # event: (logged at, quiet for)

    def may_log(self, event: object) -> bool:
        """Tell whether to log ``event`` now; True starts its next quiet time."""
        now_s = self._clock()
        last = self._last.get(event)
        quiet_s = _FIRST_QUIET_S
        if last is not None:
            logged_at_s, quiet_for_s = last
            if now_s - logged_at_s < quiet_for_s:
                return False
            if now_s - logged_at_s < 2 * _LONGEST_QUIET_S:
                quiet_s = min(2 * quiet_for_s, _LONGEST_QUIET_S)
        self._last[event] = (now_s, quiet_s)
        return True


def serves(incarnation: str, options: WorkerOptions) -> None:
    """The worker begins."""
    logger.info(
        "worker %s serves %s (%s), %d jobs at a time%s",
        incarnation,
        ", ".join(one_line(queue.keys.name) for queue in options.queues),
        options.order,
        options.concurrency,
        ", until nothing is left" if options.burst else "",
    )


def stops(running: int, grace_s: float) -> None:
    """The worker was asked to stop."""
    logger.info(
        "stopping: %d jobs run and have %g s to finish, then they are handed back;"
        " a second signal hands them back at once",
        running, grace_s,
    )  # fmt: skip


def ended(incarnation: str, running: int) -> None:
    """The worker has ended, ``running`` handlers with it."""
    logger.info("worker %s ended, %d handlers cut short", incarnation, running)


def started(lease: Lease) -> None:
    """The handler is about to be called."""
    lease.source.tally.started(_waited_ms(lease.job))
    _tell(logging.DEBUG, "started", lease)


def completed(lease: Lease, ms: int) -> None:
    """The handler returned and the job is gone from the server."""
    lease.source.tally.ended("completed", ms)
    _tell(logging.INFO, "completed", lease, ms=ms)


def will_retry(lease: Lease, ms: int, failed: Failed) -> None:
    """The handler raised; the job waits for its next run."""
    lease.source.tally.ended("retried", ms)
    _tell(logging.WARNING, "failed", lease, ms=ms, retry_in_ms=failed.delay_ms, error=failed.brief)


def died(lease: Lease, ms: int, failed: Failed) -> None:
    """The handler raised and no try is left."""
    lease.source.tally.ended("failed", ms)
    _tell(logging.ERROR, "dead", lease, ms=ms, error=failed.brief)


def parked(lease: Lease, parked: Parked) -> None:
    """This worker can't run the job; it waits for one that can."""
    _tell(logging.ERROR, "put aside", lease, again_in_ms=parked.delay_ms, reason=parked.reason)


def parked_too_long(lease: Lease, parked: Parked) -> None:
    """No worker could run the job for its whole grace time."""
    lease.source.tally.ended("failed")
    _tell(logging.ERROR, "dead", lease, error=parked.reason)


def lease_lost(lease: Lease) -> None:
    """The server says that the job is not this worker's any more; its handler still runs."""
    _tell(logging.WARNING, "lease lost", lease)


def settled_too_late(lease: Lease, ms: int, what: str) -> None:
    """The run's end was refused: another claim holds the job, or the job is gone."""
    why = "the lease was lost" if lease.lost else "not held any more"
    _tell(logging.WARNING, f"{what} refused, {why}", lease, ms=ms)


def settle_failed(lease: Lease, ms: int, why: str) -> None:
    """The run's end could not be reported; the job comes back when its lease ends."""
    _tell(logging.ERROR, "unreported, runs again after its lease", lease, ms=ms, reason=why)


def not_told(lease: Lease, exc: BaseException) -> None:
    """Whoever wanted to hear of the job's end raised ``exc``."""
    logger.error(
        "what is called after a job's end failed, which changes nothing for it queue=%s id=%s",
        one_line(lease.job.queue), one_line(lease.job.id), exc_info=exc,
    )  # fmt: skip


def released(lease: Lease) -> None:
    """The job went back to pending without having been finished here."""
    _tell(logging.INFO, "handed back", lease)


def put_off(lease: Lease, pause_ms: int) -> None:
    """The job was lost with its worker before, and another such one runs here."""
    _tell(logging.INFO, "put off, suspects run one at a time", lease, again_in_ms=pause_ms)


def _tell(level: int, event: str, lease: Lease, **more: int | str) -> None:
    """Log one change of a job's state; ``JsonLines`` finds the same fields on the record."""
    if not logger.isEnabledFor(level):
        return
    job = lease.job
    fields: dict[str, int | str] = {"queue": job.queue, "id": job.id, "attempt": job.attempts}
    if task := task_of(job.payload):
        fields = {"queue": job.queue, "id": job.id, "task": task, "attempt": job.attempts}
    fields.update(more)
    text = " ".join(
        f"{name}={one_line(value) if isinstance(value, str) else value}"
        for name, value in fields.items()
    )
    logger.log(level, "%s %s", event, text, extra={"emq": {"event": event, **fields}})


def task_of(payload: bytes) -> str:
    """Return the task that a payload says it is for, empty where it is none. Nothing is decoded."""
    match = _TASK.match(payload)
    return match[1].decode("utf-8", "replace") if match else ""


def _waited_ms(job: ClaimedJob) -> float | None:
    """Return the time from mint to now, None where it says nothing about a queue's speed.

    A job that ran before, or that asks for a time of its own, waited for something else.
    """
    at_ms = minted_or_none(job.id)
    if at_ms is None or job.attempts != 1 or b'"run_after":' in job.payload[-400:]:
        return None
    return max(time.time() * 1_000 - at_ms, 0.0)


class JsonLines(logging.Formatter):
    """One JSON object per record; text in it can neither forge a line nor break the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's fields, those of a job's change where it is one."""
        said: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
        }
        fields = getattr(record, "emq", None)
        said.update(fields if isinstance(fields, dict) else {"message": record.getMessage()})
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)
