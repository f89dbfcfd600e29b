"""A setting that does not exist."""

from __future__ import annotations

from tests.settings import *  # noqa: F403

EMQ = {"CONECTION": "queue"}
