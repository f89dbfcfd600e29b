"""What a worker is told, checked once. Reads no settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from emq_django.errors import ConfigError
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.numbers import LARGEST_MS
from emq_django.worker.handlers import Handler
from emq_django.worker.job import Job
from emq_django.worker.retry import Policy, delay_ms

Order = Literal["strict", "round-robin"]

MAX_CONCURRENCY: Final = 512
# Children tell that their threads run once a second: below this each of them looks stuck.
MIN_STUCK_S: Final = 1.5
# Below this a lease can run out between two renewals of a machine under load.
MIN_LEASE_MS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """One queue to serve: its keys, what runs its jobs, and what happens when that fails.

    A process whose job runs for longer than ``hard_limit_s`` (0: no limit) is killed by its
    parent. ``address`` is what log lines call its server. ``policy_of`` gives the policy of a job
    that has one of its own; without it the three numbers here hold for all jobs of the queue.
    Queues with the same ``band_of`` are bands of one: asked in turn, but each gets a share.
    """

    keys: Queue
    handler: Handler
    lease_ms: int = 30_000
    max_attempts: int = 5
    backoff_base_ms: int = 1_000
    backoff_cap_ms: int = 600_000
    hard_limit_s: float = 0.0
    address: str = ""
    policy_of: Callable[[Job], Policy] | None = None
    band_of: str = ""

    def policy(self, job: Job) -> Policy:
        """Return what a job that failed may still hope for."""
        if self.policy_of is not None:
            return self.policy_of(job)
        base_ms, cap_ms = self.backoff_base_ms, self.backoff_cap_ms
        return Policy(
            max_attempts=self.max_attempts, pause_ms=lambda tries: delay_ms(tries, base_ms, cap_ms)
        )

    def __post_init__(self) -> None:
        where = f"queue {self.keys.name!r}: "
        _check(f"{where}lease_ms", self.lease_ms, least=MIN_LEASE_MS)
        _check(f"{where}max_attempts", self.max_attempts)
        _check(f"{where}backoff_base_ms", self.backoff_base_ms)
        _check(f"{where}backoff_cap_ms", self.backoff_cap_ms)
        _check_s(f"{where}hard_limit_s", self.hard_limit_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """A worker.

    Attributes:
        queues: in the order in which they are asked.
        order: strict asks the next queue only while those before it are empty; round-robin
            starts each time with another one.
        concurrency: jobs that run at the same time, each on a thread.
        grace_s: how long running jobs may go on after the first stop signal.
        burst: end when nothing is claimable or due.
        poll_ms: the first pause of an idle worker; pauses grow to ``idle_cap_ms``.
        upkeep_ms: how often due jobs and expired leases are looked for while jobs run.
        enqueue_deadline_ms: for how long a producer resends an enqueue.
        max_jobs: the worker ends after having started so many; 0 for no such end.
    """

    queues: tuple[QueueOptions, ...]
    order: Order = "strict"
    concurrency: int = 4
    grace_s: float = 30.0
    burst: bool = False
    poll_ms: int = 100
    idle_cap_ms: int = 500
    upkeep_ms: int = 1_000
    enqueue_deadline_ms: int = 5_000
    max_jobs: int = 0

    @property
    def shortest_lease_ms(self) -> int:
        """Return the shortest of the queues' leases."""
        return min(queue.lease_ms for queue in self.queues)

    def __post_init__(self) -> None:
        if not self.queues:
            raise ConfigError(
                'there is no queue to serve: give at least one in EMQ["QUEUES"] a "HANDLER".'
            )
        if self.order not in {"strict", "round-robin"}:
            raise ConfigError(f"order={self.order!r}: give 'strict' or 'round-robin'.")
        _check("concurrency", self.concurrency, least=1, most=MAX_CONCURRENCY)
        _check("poll_ms", self.poll_ms, least=1)
        _check("idle_cap_ms", self.idle_cap_ms, least=1)
        _check("upkeep_ms", self.upkeep_ms, least=1)
        _check("enqueue_deadline_ms", self.enqueue_deadline_ms)
        _check_s("grace_s", self.grace_s)
        _check("max_jobs", self.max_jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOptions:
    """A tree of worker processes.

    Attributes:
        processes: children of the parent.
        max_memory_mb: a child that has grown larger is replaced; 0 for no such limit.
        stuck_s: a child whose threads do not run for so long is killed; 1.5 or more.
        health_file: rewritten every second while the parent's loop runs; empty for none.
    """

    processes: int = 1
    max_memory_mb: int = 0
    stuck_s: float = 300.0
    health_file: str = ""

    def __post_init__(self) -> None:
        _check("processes", self.processes, least=1, most=MAX_CONCURRENCY)
        _check("max_memory_mb", self.max_memory_mb)
        _check_s("stuck_s", self.stuck_s, least=MIN_STUCK_S)


def _check(name: str, value: int, *, least: int = 0, most: int = LARGEST_MS) -> None:
    if type(value) is not int or not least <= value <= most:
        raise ConfigError(f"{name}={value!r}: give a whole number from {least} to {most:,}.")


def _check_s(name: str, value: float, *, least: float = 0) -> None:
    if not least <= value <= LARGEST_MS / 1_000:
        raise ConfigError(f"{name}={value!r}: give seconds, {least:g} or more.")
