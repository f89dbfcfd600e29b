"""Sentinels that fail over to a replica that may lack the last jobs."""

from __future__ import annotations

import json
import os

from tests.settings import *  # noqa: F403

CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "queue": {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": "redis://emq/0",
        "OPTIONS": {  # type: ignore[dict-item]
            "CLIENT_CLASS": "django_redis.client.SentinelClient",
            "CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory",
            "SENTINELS": json.loads(os.environ["EMQ_TEST_SENTINELS"]),
        },
    },
}
