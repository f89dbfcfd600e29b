"""What a delivery asks of its driver. Values only; ``drivers`` acts on them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from emq_django.protocol.calls import Call

T = TypeVar("T")


class Run(NamedTuple):
    """Run one Call and send its result back. ``timeout_s`` None: as long as a connection waits."""

    call: Call[Any]
    timeout_s: float | None


class Flush(NamedTuple):
    """Run several Calls in one flush and send back a result or an error for each."""

    calls: Sequence[Call[Any]]
    timeout_s: float | None


class Pause(NamedTuple):
    """Wait."""

    seconds: float


Steps: TypeAlias = Generator[Run | Flush | Pause, Any, T]
