"""A connection that names no alias."""

from __future__ import annotations

from tests.settings import *  # noqa: F403

EMQ = {"CONNECTION": "queeu"}
