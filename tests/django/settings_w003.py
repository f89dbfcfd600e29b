"""A lease that one slow renewal loses."""

from __future__ import annotations

from tests.settings import *  # noqa: F403

EMQ = {"CONNECTION": "queue", "QUEUES": {"hasty": {"LEASE_MS": 5_000}, "calm": {}}}
