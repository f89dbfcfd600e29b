"""Guards a write of a task against a stale run of the same job.

The fencing token (``context.emq.token``, ``job.attempts``) grows with every claim of a job. A row
that remembers the largest token which wrote to it refuses a smaller one, so a worker that wakes up
after its lease was lost can't overwrite what a later run wrote. The test and the note are one
UPDATE, so there is nothing between them.
"""

from __future__ import annotations

from typing import Any, Protocol

from django.db import models
from django.db.models import Q


class Holder(Protocol):
    """A run of a job: ``context.emq`` of a task; a raw handler's ``Holding(job)``."""

    @property
    def job_id(self) -> str:
        """The job's id."""

    @property
    def token(self) -> int:
        """The fencing token of this run."""


class Holding:
    """A raw handler's job as a holder."""

    def __init__(self, job: Any) -> None:
        self.job_id: str = job.id
        self.token: int = job.attempts


class FencedUpdate:
    """Rows that are updated only if no later run of the job wrote to them."""

    def __init__(self, queryset: models.QuerySet[Any], holder: Holder) -> None:
        self._queryset = queryset
        self._holder = holder

    def update(self, **values: Any) -> int:
        """Update and note the token. Returns how many rows took the write: 0 for a stale run."""
        holder = self._holder
        # Tokens of two jobs can't be compared: the guard is among the runs of one.
        fresh = Q(fence_job=holder.job_id, fence_token__lte=holder.token)
        rows = self._queryset.filter(fresh | ~Q(fence_job=holder.job_id))
        return rows.update(**values, fence_job=holder.job_id, fence_token=holder.token)


class FencedQuerySet(models.QuerySet[Any]):
    """Adds ``fenced``."""

    def fenced(self, holder: Holder) -> FencedUpdate:
        """Return these rows for an update on behalf of a run: ``.fenced(context.emq).update()``."""
        return FencedUpdate(self, holder)


class Fenced(models.Model):
    """A model whose rows remember which run of which job wrote to them last."""

    fence_job = models.CharField(max_length=14, default="", editable=False)
    fence_token = models.BigIntegerField(default=0, editable=False)

    objects = FencedQuerySet.as_manager()

    class Meta:  # noqa: D106
        abstract = True
