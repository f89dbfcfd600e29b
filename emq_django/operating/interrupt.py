"""Ctrl-C between two steps, not within one: what is done is whole, and the rest can go on later."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Whether somebody asked for the end. A second request ends at once, as Ctrl-C always does."""

    def __init__(self) -> None:
        self.asked = False

    def note(self, signum: int, frame: FrameType | None) -> None:
        """Take the first request as a wish, the second as an order (a signal's handler)."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Turn SIGINT and SIGTERM into a wish to stop, for as long as the block lasts."""
    stop = Stop()
    before = {one: signal.signal(one, stop.note) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
