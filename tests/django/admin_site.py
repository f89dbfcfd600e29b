"""Further admin sites beside the default one: `ops` with both models, `queues_only` with one."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from emq_django.admin import register
from emq_django.admin.views import QueueAdmin
from emq_django.models import Queue


class OpsSite(admin.AdminSite):
    site_header = "Operations"


ops = OpsSite(name="ops")
register(ops)

queues_only = admin.AdminSite(name="queues_only")
queues_only.register(Queue, QueueAdmin)

urlpatterns = [
    path("admin/", admin.site.urls),
    path("backoffice/", ops.urls),
    path("figures/", queues_only.urls),
]
