"""A server that is not there."""

from __future__ import annotations

from tests.settings import *  # noqa: F403

EMQ = {"CONNECTION": "redis://127.0.0.1:1/0"}
