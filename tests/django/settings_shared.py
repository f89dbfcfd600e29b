"""A cache in the database of the queues: W001, and E004 for a deployment."""

from __future__ import annotations

from tests.settings import *  # noqa: F403
from tests.settings import CACHES as _CACHES

CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": _CACHES["queue"]["LOCATION"],
    },
    "queue": _CACHES["queue"],
}
