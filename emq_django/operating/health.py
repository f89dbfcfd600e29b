"""Whether jobs get done: a few figures against thresholds. Pure; ``survey`` reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from emq_django.operating.command import sentence
from emq_django.operating.survey import QueueSeen, Survey
from emq_django.operating.text import in_number, number, safe, span

_AT_ALL: Final = -1  # ms: also what came or fell due in this moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is still healthy; times in ms. ``unserved_ms`` None: nobody asks for workers."""

    pending_ms: int = 600_000  # age of the oldest job that waits
    expired_ms: int = 60_000  # for how long a lease may be over without having been swept
    unserved_ms: int | None = 30_000  # age of the oldest job of a queue without a worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong. ``queue`` is empty where it is about a server."""

    check: str
    queue: str
    text: str
    ms: int | None = None
    serious: bool = True  # False: worth knowing, and no reason to call it unhealthy


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The verdict: "ok", "unhealthy", or "unknown" where something could not be read."""

    status: str
    findings: list[Finding]

    @property
    def exit_code(self) -> int:
        """0, 1 or 2."""
        return {"ok": 0, "unhealthy": 1}.get(self.status, 2)

    def as_json(self, seen: Survey) -> dict[str, Any]:
        """Return the verdict and the figures behind it."""
        return {
            "status": self.status,
            "findings": [
                {
                    "check": one.check,
                    "queue": one.queue,
                    "text": one.text,
                    "ms": one.ms,
                    "serious": one.serious,
                }
                for one in self.findings
            ],
            "queues": [
                {
                    "name": one.name,
                    "pending": one.waiting,
                    "workers": one.workers,
                    "oldest_pending_age_ms": one.oldest_ms,
                    "oldest_expired_lease_ms": expired_for_ms(one),
                    "expired": one.counts.expired if one.counts else None,
                }
                for one in seen.queues
            ],
            "workers": sum(not line.gone for line in seen.workers),
        }


def judge(seen: Survey, limits: Limits) -> Health:
    """Return what is wrong with what was seen."""
    unread = [Finding(check="server", queue="", text=sentence(error)) for error in seen.errors]
    known = {id(error) for error in seen.errors}
    unread += [
        Finding(check="unreadable", queue=one.name, text=f"{safe(one.name)}: {sentence(one.error)}")
        for one in seen.queues
        if one.error is not None and id(one.error) not in known
    ]
    wrong = [
        Finding(check="unknown", queue=one.name, text=one.stranger)
        for one in seen.queues
        if one.stranger and limits.unserved_ms is not None  # others may have queues of their own
    ]
    wrong += [finding for one in seen.queues for finding in about(one, limits)]
    is_ill = any(one.serious for one in wrong)
    status = "unknown" if unread else "unhealthy" if is_ill else "ok"
    return Health(status=status, findings=[*unread, *wrong])


def expired_for_ms(one: QueueSeen) -> int | None:
    """Return for how long the oldest lease has been over; 0 for none, None where unknown."""
    if one.counts is None:
        return None
    ended_ms = one.counts.oldest_expired_ms
    return 0 if ended_ms is None else max(one.counts.now_ms - ended_ms, 0)


def about(one: QueueSeen, limits: Limits) -> Iterator[Finding]:
    """Yield what is wrong with a queue, and that nobody serves one whose jobs are fresh yet."""
    counts = one.counts
    if counts is None:
        return
    name = safe(one.name)
    late_ms = expired_for_ms(one) or 0
    if counts.expired and late_ms > limits.expired_ms:
        over = in_number(
            counts.expired,
            "1 lease is over and nobody brings its job",
            "{} leases are over and nobody brings their jobs",
        )
        yield Finding(
            check="expired",
            queue=one.name,
            ms=late_ms,
            text=f"{name}: {over} back, oldest expired lease {late_ms // 1_000} s"
            f" ({span(late_ms)}): start a worker",
        )
    if counts.paused:  # that its jobs wait is what somebody wanted
        return
    age_ms = one.oldest_ms
    due_ms = max(counts.now_ms - counts.next_due_ms, 0) if counts.next_due_ms is not None else 0
    if not one.workers and limits.unserved_ms is not None and _waits(one, _AT_ALL):
        age = "of unknown age" if age_ms is None else f"the oldest for {span(age_ms)}"
        yield Finding(
            check="unserved",
            queue=one.name,
            ms=age_ms if age_ms is not None else due_ms or None,
            text=f"{name}: {number(one.waiting)} pending ({age}), {number(counts.scheduled)}"
            " scheduled, 0 workers: start one (manage.py emq_worker), or look for a typing error in"
            " the name",
            serious=_waits(one, limits.unserved_ms),
        )
    elif age_ms is not None and age_ms > limits.pending_ms:
        yield Finding(
            check="pending",
            queue=one.name,
            ms=age_ms,
            text=f"{name}: {number(one.waiting)} pending, the oldest for {span(age_ms)}:"
            " more workers, or faster jobs",
        )


def _waits(one: QueueSeen, most_ms: int) -> bool:
    """Whether a queue without a worker has had work for that long."""
    counts = one.counts
    if counts is None:
        return False
    if one.waiting:
        age_ms = one.oldest_ms
        return age_ms is None or age_ms > most_ms
    return counts.next_due_ms is not None and counts.now_ms - counts.next_due_ms > most_ms
