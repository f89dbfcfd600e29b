"""Fixtures of the stress runs that start workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worker.processes import open_bench

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.worker.processes import Bench


@pytest.fixture
def bench(queue: str, tmp_path: Path) -> Iterator[Bench]:
    """A queue with workers; every worker is killed at the end of the test."""
    yield from open_bench(queue, tmp_path)
