"""The Django app. ``ready`` registers checks and receivers; it opens no connection."""

from __future__ import annotations

from django.apps import AppConfig
from django.core.signals import setting_changed
from django.utils.translation import gettext_lazy as _

from emq_django import conf


class EmqConfig(AppConfig):
    """Background jobs on Redis or Valkey."""

    name = "emq_django"
    label = "emq_django"
    verbose_name = _("Job queues")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks and the receivers that follow changed settings."""
        from emq_django import checks, connections

        checks.register_all()
        setting_changed.connect(conf.reset, dispatch_uid="emq_django.conf")
        setting_changed.connect(connections.reset, dispatch_uid="emq_django.connections")
