"""Nothing but the default alias, for the cache and for the queues."""

from __future__ import annotations

from tests.settings import *  # noqa: F403
from tests.settings import CACHES as _CACHES

CACHES = {"default": _CACHES["queue"]}
EMQ = {}
