"""How far long work is: a bar on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from django.core.management.base import OutputWrapper

from emq_django.operating.terminal import Terminal
from emq_django.operating.text import clip, number

_DRAW_S: Final = 0.1
_LINE_S: Final = 5.0  # between lines where nobody looks
_BAR: Final = 24


class Progress:
    """Draws on ``stream``, standard error as a rule, so that output can go on through a pipe."""

    def __init__(
        self,
        stream: Any,
        terminal: Terminal,
        label: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._terminal = terminal
        self._label = label
        self._clock = clock
        self._next_s = clock() + (0.0 if terminal.live else _LINE_S)
        self._drawn = False

    def show(self, done: int, total: int | None) -> None:
        """Say that ``done`` of ``total`` are done; None where the end can't be known."""
        now_s = self._clock()
        if now_s < self._next_s:
            return
        if self._terminal.live:
            self._next_s = now_s + _DRAW_S
            line = clip(self.line(done, total), (self._terminal.width or 80) - 1)
            self._write(f"\r\x1b[K{line}")
            self._drawn = True
        else:
            self._next_s = now_s + _LINE_S
            self._write(f"{self.line(done, total)}\n")

    def line(self, done: int, total: int | None) -> str:
        """Return the text of one moment."""
        if total is None:
            return f"{self._label}: {number(done)}"
        words = f"{self._label}: {number(done)} of {number(total)}"
        if not self._terminal.live or not total:
            return words
        full = round(_BAR * min(done / total, 1))
        return f"{words} [{'#' * full}{'.' * (_BAR - full)}]"

    def end(self) -> None:
        """Take the bar away: what was done is said in words."""
        if self._drawn:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        if isinstance(self._stream, OutputWrapper):
            # By itself it ends each write with a new line, and paints what goes to stderr red.
            self._stream.write(text, style_func=str, ending="")
        else:
            self._stream.write(text)
        self._stream.flush()
