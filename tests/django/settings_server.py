"""Sane settings; what there is to say about them is up to the server at EMQ_TEST_URL."""

from __future__ import annotations

from tests.settings import *  # noqa: F403
