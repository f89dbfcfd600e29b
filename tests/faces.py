"""The public verbs as a test calls them, so that it is written once for both faces."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

import emq_django

if TYPE_CHECKING:
    from collections.abc import Callable

FaceName = Literal["sync", "async"]
FACES: tuple[FaceName, ...] = ("sync", "async")


class Face:
    """`face.enqueue(...)` is `enqueue(...)`, or `aenqueue(...)` run on an event loop of its own."""

    def __init__(self, name: FaceName) -> None:
        self.is_async = name == "async"
        # With a factory of its own the runner leaves the thread's current loop alone.
        self.runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not self.is_async:
            verb: Callable[..., Any] = getattr(emq_django, name)
            return verb
        twin = getattr(emq_django, "a" + name)
        return lambda *args, **options: self.runner.run(twin(*args, **options))

    def close(self) -> None:
        """Close the loop and with it the connections that belong to it."""
        self.runner.close()
