"""An alias that keeps no jobs."""

from __future__ import annotations

from tests.settings import *  # noqa: F403

EMQ = {"CONNECTION": "default"}
