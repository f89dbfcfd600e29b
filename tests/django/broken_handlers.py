"""A module of a project that fails when it is imported."""

from __future__ import annotations

raise RuntimeError("no such table")
