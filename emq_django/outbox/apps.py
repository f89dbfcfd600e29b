"""The outbox app."""

from __future__ import annotations

from django.apps import AppConfig


class OutboxConfig(AppConfig):
    """Jobs that wait in the database until they are sent."""

    name = "emq_django.outbox"
    label = "emq_outbox"
    verbose_name = "Job outbox"
    default_auto_field = "django.db.models.BigAutoField"
