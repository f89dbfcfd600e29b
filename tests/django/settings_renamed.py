"""A project that gave the app another label, and the admin a default site of its own."""

from __future__ import annotations

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS as _APPS

_OTHER = {
    "emq_django": "tests.django.renamed.JobsConfig",
    "django.contrib.admin": "tests.django.renamed.OwnAdminConfig",
}
INSTALLED_APPS = [_OTHER.get(app, app) for app in _APPS]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
