"""Settings of the example: SQLite, one Redis or Valkey server, nothing from elsewhere.

| variable | what it says | default |
| --- | --- | --- |
| EMQ_EXAMPLE_REDIS_URL | the server, without a database number | redis://127.0.0.1:6379 |
| EMQ_EXAMPLE_DATA | folder of the database and the logs | .emq/example beside the project |
| EMQ_EXAMPLE_SECRET_KEY | signs sessions; the launcher draws one per run | a public one |
| EMQ_EXAMPLE_DEBUG | 1 shows Django's debug pages | off |
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

BASE_DIR = Path(__file__).resolve().parent
DATA_DIR = Path(os.environ.get("EMQ_EXAMPLE_DATA", BASE_DIR.parent / ".emq" / "example"))
REDIS_URL = os.environ.get("EMQ_EXAMPLE_REDIS_URL", "redis://127.0.0.1:6379")


def database(number: int) -> str:
    """Return the server's address with a database number in it."""
    url = urlsplit(REDIS_URL)
    if url.scheme == "unix":
        return f"unix://{url.path}?db={number}"
    return url._replace(path=f"/{number}").geturl()


SECRET_KEY = os.environ.get("EMQ_EXAMPLE_SECRET_KEY", "public: good for an example on loopback")
DEBUG = os.environ.get("EMQ_EXAMPLE_DEBUG") == "1"
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "emq_django",
    "example_project.airports",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "example_project.middleware.content_security_policy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "example_project.urls"
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

# Several threads of the worker write at once: readers never wait in WAL mode, and a transaction
# that will write takes its turn when it begins instead of failing half way.
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATA_DIR / "db.sqlite3",
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# As strong as Django's default, and much quicker: the example hashes a password on every start.
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.ScryptPasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]

# Two databases of one server: clearing the cache (FLUSHDB) must not take the jobs with it.
CACHES = {
    "default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": database(0)},
    "queue": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": database(1)},
}
EMQ = {
    "CONNECTION": "queue",
    "QUEUES": {"imports": {"HANDLER": "example_project.airports.handlers.on_chunk"}},
}

# What is no chunk of a file is a task; workers enqueue this one every minute.
TASKS = {"default": {"BACKEND": "emq_django.task_backend.EmqBackend"}}
EMQ["PERIODIC"] = {
    "count-airports": {"TASK": "example_project.airports.tasks.count_airports", "EVERY_S": 60},
}

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_TZ = True
USE_THOUSAND_SEPARATOR = True

STATIC_URL = "/static/"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "imports"
LOGOUT_REDIRECT_URL = "login"
