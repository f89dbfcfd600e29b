from __future__ import annotations

from django.conf import settings
from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("", include("example_project.airports.urls")),
    path("accounts/", include("django.contrib.auth.urls")),
    path("admin/", admin.site.urls),
    # Browsers ask for it on pages that name no icon, such as the admin's.
    path("favicon.ico", RedirectView.as_view(url=f"{settings.STATIC_URL}airports/icon.svg")),
]
