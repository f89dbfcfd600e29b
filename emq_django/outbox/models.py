"""The outbox table: one row per job that is not known to be on the server."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class OutboxJob(models.Model):
    """A job that was written in a transaction. It is deleted once the server has the job.

    ``id`` is the order of writing, ``job_id`` the job's own. Rows of one ``stream`` (queue and
    lane) are sent in their order. ``held_*`` is a relay's lease where the database can't skip
    locked rows; ``retry_at`` sets a row aside that the server refused.
    """

    queue = models.CharField(max_length=255)
    lane = models.CharField(max_length=14, blank=True, default="")
    stream = models.CharField(max_length=280)
    job_id = models.CharField(max_length=14)
    payload = models.BinaryField()
    due_ms = models.BigIntegerField(null=True)
    unique_key = models.CharField(max_length=255, blank=True, default="")
    written_at = models.DateTimeField(auto_now_add=True)
    held_by = models.CharField(max_length=32, blank=True, default="")
    held_until = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)
    last_error = models.TextField(blank=True, default="")
    retry_at = models.DateTimeField(null=True)

    objects: ClassVar[models.Manager[OutboxJob]] = models.Manager()

    class Meta:  # noqa: D106
        default_permissions = ("view",)
        indexes = (models.Index(fields=["stream", "id"], name="emq_outbox_stream"),)
        verbose_name = "job in the outbox"
        verbose_name_plural = "jobs in the outbox"

    def __str__(self) -> str:
        return f"{self.job_id} for {self.queue}"
