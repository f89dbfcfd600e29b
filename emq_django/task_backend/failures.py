"""Failures that no task raised: they end a job, or stand in the errors of its result."""

from __future__ import annotations

from emq_django.worker.outcomes import GiveUp


class PayloadRefused(GiveUp):
    """The payload is no task's envelope, or its signature is missing or wrong. Nothing was run."""


class UnknownTask(GiveUp):
    """No Task stands where the payload points to, for longer than ``UNKNOWN_TASK_GRACE_S``."""


class TaskExpired(GiveUp):
    """The job came to its turn after ``expires_in_s``. It was not run."""


class TriesUsedUp(GiveUp):
    """It failed as often as it may by now: more was allowed before. It was not run again."""


class WorkerLost(GiveUp):
    """The worker was lost while it ran the task, as often as is borne."""
