"""Settings of the suite; tests.plugin puts the address of its server into the environment.

Without it (mypy's Django plugin, a shell) the module still imports and names a dead address.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_FOLDER = Path(os.environ.get("EMQ_TEST_DIR", tempfile.gettempdir()))
_DATABASE = str(_FOLDER / "tests.sqlite3")

SECRET_KEY = "only for the tests"
USE_TZ = True
TIME_ZONE = "UTC"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "tests.urls"
STATIC_URL = "/static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "emq_django",
    "emq_django.outbox",
    "example_project.airports",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# A file, so that threads and processes see the same database; the test database is that file too,
# so that a process started by a test finds it under the plain settings.
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": _DATABASE,
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;",
        },
        "TEST": {"NAME": _DATABASE},
    },
}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "queue": {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": os.environ.get("EMQ_TEST_URL", "redis://127.0.0.1:1/0"),
    },
}
EMQ = {
    "CONNECTION": "queue",
    "QUEUE_PREFIX": os.environ.get("EMQ_TEST_PREFIX", "t-"),
    "QUEUES": {"default": {}},
}
