"""What the admin's pages and permissions hang on. No table stands behind these models.

They exist for Django's content types: a permission, an entry of the audit log and a line of the
admin's index each need one. Queues and jobs live on the server: see ``admin.lists``.
"""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class NoRows(models.Manager[models.Model]):
    """Answers every query with nothing, so that ``dumpdata`` and stray queries ask no table."""

    def get_queryset(self) -> models.QuerySet[models.Model]:
        """Return the empty queryset."""
        return super().get_queryset().none()


class Queue(models.Model):
    """A queue. Its key is the name that the application uses, without ``QUEUE_PREFIX``."""

    name = models.CharField(_("name"), max_length=255, primary_key=True)

    objects = NoRows()

    class Meta:  # noqa: D106
        managed = False
        base_manager_name = "objects"
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        # All codenames of the admin at once: an upgrade that adds a button needs no migration, and
        # a group that was set up for the first release keeps its meaning.
        default_permissions = ("view",)
        permissions = [
            ("pause_queue", "Can pause and resume queue"),
            ("drain_queue", "Can drain pending jobs of queue"),
            ("change_lane_queue", "Can pause, limit and weight lanes of queue"),
        ]

    def __str__(self) -> str:
        return self.name


class Job(models.Model):
    """A job. Its key is ``<queue>/<id>``: an id alone does not say where the row is."""

    key = models.CharField(_("queue and id"), max_length=400, primary_key=True)

    objects = NoRows()

    class Meta:  # noqa: D106
        managed = False
        base_manager_name = "objects"
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        default_permissions = ("view",)
        permissions = [
            ("view_payload_job", "Can view payload, error and other contents of job"),
            ("download_payload_job", "Can download raw payload of job"),
            ("retry_job", "Can retry dead job"),
            ("run_job", "Can run scheduled job now"),
            ("cancel_job", "Can cancel active job"),
            ("release_job", "Can expire the lease of active job"),
            ("add_job", "Can enqueue a copy of job"),
            ("change_job", "Can change payload of job"),
            ("delete_job", "Can delete job"),
        ]

    def __str__(self) -> str:
        return self.key
