"""The default site of the project in `settings_renamed`."""

from __future__ import annotations

from django.contrib import admin


class OwnSite(admin.AdminSite):
    site_header = "Our own site"
