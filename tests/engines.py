"""Private servers of every installed kind, for tests that change how a server behaves."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.conformance.conftest import BINARIES, label_of
from tests.servers import start_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_django.fixtures import Settings

    from tests.servers import Server

__all__ = ["BINARIES", "name_of", "own_server"]


def name_of(binary: Path) -> str:
    """Return what stands in a test's id."""
    return label_of(binary)


@contextmanager
def own_server(
    binary: Path, settings: Settings, *args: str, appendonly: bool = False, **emq: Any
) -> Iterator[Server]:
    """Start a server and make it the project's; `emq` are further EMQ settings."""
    running = start_server(*args, binary=str(binary), appendonly=appendonly)
    settings.EMQ = {**settings.EMQ, "CONNECTION": running.url, **emq}
    try:
        yield running
    finally:
        running.close()
