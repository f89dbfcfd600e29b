"""URLs of a project whose views import its tasks."""

from __future__ import annotations

from tests.task_backend import zoo

urlpatterns: list[object] = []

__all__ = ["urlpatterns", "zoo"]
