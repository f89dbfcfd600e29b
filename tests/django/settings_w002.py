"""Two aliases with one URL and different options."""

from __future__ import annotations

from tests.settings import *  # noqa: F403
from tests.settings import CACHES as _CACHES

CACHES = {
    "default": _CACHES["default"],
    "queue": _CACHES["queue"],
    "text": {
        **_CACHES["queue"],
        "OPTIONS": {"CONNECTION_POOL_KWARGS": {"decode_responses": True}},  # type: ignore[dict-item]
    },
}
