"""What is enqueued, and assertions about it whose failures say what is there instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.db import connections as databases

from emq_django.conf import conf, keys
from emq_django.connections import wire_for
from emq_django.protocol import lanes, read
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.records import JobSet
from emq_django.testing.isolation import is_for_tasks, known_queues

_MOST: Final = 1_000  # jobs in one look at a set
_SHOWN: Final = 20
_PAYLOAD_BYTES: Final = 1_048_576


class _Any:
    """Stands for whatever is there."""

    def __repr__(self) -> str:
        return "ANY"


ANY: Any = _Any()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueuedJob:
    """One job that waits. ``task``, ``args`` and ``kwargs`` are those of a task, else None."""

    queue: str
    id: str
    payload: bytes
    lane: str | None = None
    due: datetime | None = None
    task: str | None = None
    args: list[Any] | None = None
    kwargs: dict[str, Any] | None = None

    def __str__(self) -> str:
        if self.task is None:
            what = f"payload={self.payload!r}"
        else:
            what = f"{self.task}({_call_text(self.args or [], self.kwargs or {})})"
        more = "" if self.lane is None else f" lane={self.lane}"
        more += "" if self.due is None else f" due={self.due.isoformat()}"
        return f"{what} queue={self.queue}{more}"


def enqueued(*queues: str) -> list[EnqueuedJob]:
    """Return the jobs that wait, claimable or delayed, in the order of their ids."""
    found: list[EnqueuedJob] = []
    for name in queues or known_queues():
        queue = keys(name)
        places: list[JobSet | str] = [JobSet.PENDING, JobSet.SCHEDULE]
        places += [one.name for one in wire_for(queue).run(lanes.lane_depths(queue))]
        for place in places:
            found += _waiting(queue, place)
    return sorted(found, key=lambda job: job.id)


async def aenqueued(*queues: str) -> list[EnqueuedJob]:
    """Return the jobs that wait; the async twin of ``enqueued``."""
    return await sync_to_async(enqueued)(*queues)


def assert_enqueued(
    task: Any = ANY,
    *,
    args: Sequence[Any] = ANY,
    kwargs: Mapping[str, Any] = ANY,
    queue: str = ANY,
    lane: str | None = ANY,
    payload: bytes = ANY,
    times: int | None = None,
) -> list[EnqueuedJob]:
    """Assert that a job waits that is as described; return all that are.

    Args:
        task: a task, or its path; left out, any job.
        args: its positional arguments as JSON carries them (a tuple is a list); left out, any.
        kwargs: its keyword arguments; left out, any.
        queue: left out, any.
        lane: None for a job without one; left out, any.
        payload: of a job that is no task; left out, any.
        times: exactly so many; left out, one at least.
    """
    wanted = _Wanted(task, args, kwargs, queue, lane, payload)
    jobs = enqueued()
    found = [job for job in jobs if not wanted.differences(job)]
    right = len(found) == times if times is not None else bool(found)
    if not right:
        raise AssertionError(wanted.complaint(jobs, found, times))
    return found


def assert_not_enqueued(
    task: Any = ANY,
    *,
    args: Sequence[Any] = ANY,
    kwargs: Mapping[str, Any] = ANY,
    queue: str = ANY,
    lane: str | None = ANY,
    payload: bytes = ANY,
) -> None:
    """Assert that no job waits that is as described; without a description, none at all."""
    assert_enqueued(
        task, args=args, kwargs=kwargs, queue=queue, lane=lane, payload=payload, times=0
    )


@dataclass(frozen=True, slots=True)
class _Wanted:
    task: Any
    args: Any
    kwargs: Any
    queue: Any
    lane: Any
    payload: Any

    def differences(self, job: EnqueuedJob) -> list[str]:
        """Return how a job differs from what is wanted, the task first."""
        pairs = (
            ("task", getattr(self.task, "module_path", self.task), job.task),
            ("queue", self.queue, job.queue),
            ("args", self.args if self.args is ANY else list(self.args), job.args),
            ("kwargs", self.kwargs if self.kwargs is ANY else dict(self.kwargs), job.kwargs),
            ("lane", self.lane, job.lane),
            ("payload", self.payload, job.payload),
        )
        return [
            f"{name}: {there!r}, not {wanted!r}"
            for name, wanted, there in pairs
            if wanted is not ANY and wanted != there
        ]

    def complaint(
        self, jobs: Sequence[EnqueuedJob], found: Sequence[EnqueuedJob], times: int | None
    ) -> str:
        """Return what is wrong: what was looked for, what is there, and what may be behind it."""
        count = "at least one job" if times is None else f"{times} job{'s' * (times != 1)}"
        lines = [f"expected {count} {self}, found {len(found)}"]
        if not jobs:
            lines.append("nothing is enqueued")
        else:
            lines.append(f"enqueued ({len(jobs)}):")
        for job in jobs[:_SHOWN]:
            differences = self.differences(job)
            near = bool(differences) and not differences[0].startswith("task:")
            lines.append(f"  {'=' if not differences else '~' if near else ' '} {job}")
            if near:
                lines += [f"      {difference}" for difference in differences]
        if len(jobs) > _SHOWN:
            lines.append(f"  and {len(jobs) - _SHOWN} more")
        lines += _waiting_for_commit()
        return "\n".join(lines)

    def __str__(self) -> str:
        path = getattr(self.task, "module_path", self.task)
        told = [] if self.task is ANY else [f"of {path}"]
        told += [
            f"{name}={value!r}"
            for name, value in (
                ("args", self.args), ("kwargs", self.kwargs), ("queue", self.queue),
                ("lane", self.lane), ("payload", self.payload),
            )
            if value is not ANY
        ]  # fmt: skip
        return " ".join(told) or "of any kind"


def _waiting_for_commit() -> list[str]:
    waiting = {
        connection.alias: len(connection.run_on_commit)
        for connection in databases.all(initialized_only=True)
        if connection.run_on_commit
    }
    return [
        f"{count} callback{'s' * (count != 1)} wait{'s' * (count == 1)} for the commit of database"
        f" {alias!r}, which a TestCase never makes: put the code into"
        " `with self.captureOnCommitCallbacks(execute=True):` (pytest: the fixture"
        " django_capture_on_commit_callbacks), or use a TransactionTestCase"
        for alias, count in waiting.items()
    ]


def _waiting(queue: Queue, place: JobSet | str) -> Iterator[EnqueuedJob]:
    call = read.page(queue, place, _MOST, value_bytes=_PAYLOAD_BYTES)
    for entry in wire_for(queue).run(call).entries:
        payload = entry.payload.value
        due = None
        if place is JobSet.SCHEDULE:
            due = datetime.fromtimestamp(entry.score / 1_000, UTC)
        yield _as_job(queue.name, entry.id, payload or b"", entry.lane, due)


def _as_job(
    queue: str, job_id: str, payload: bytes, lane: str | None, due: datetime | None
) -> EnqueuedJob:
    job = EnqueuedJob(queue=queue, id=job_id, payload=payload, lane=lane, due=due)
    envelope = _envelope(payload, queue)
    if envelope is None:
        return job
    return replace(job, task=envelope.task, args=envelope.args, kwargs=envelope.kwargs)


def _envelope(payload: bytes, queue: str) -> Any:
    if not is_for_tasks(queue):
        return None
    from emq_django.task_backend import codec
    from emq_django.task_backend.failures import PayloadRefused

    try:
        return codec.decode(codec.verified(payload, conf().base_of(queue), required=False))
    except PayloadRefused:
        return None


def task_of(payload: bytes, queue: str) -> str:
    """Return the path of the task that a payload names, empty for none."""
    envelope = _envelope(payload, queue)
    return "" if envelope is None else str(envelope.task)


def _call_text(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    return ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())])
