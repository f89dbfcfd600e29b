"""Shows on a terminal, or in a log, how far something is."""

from __future__ import annotations

import os
import sys
from typing import TextIO

_WIDTH = 30
_GREEN, _BOLD, _PLAIN = "\033[32m", "\033[1m", "\033[0m"


class Screen:
    """A bar that moves on a terminal; plain lines elsewhere. NO_COLOR takes the colours away."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._terminal = self._out.isatty() and os.environ.get("TERM") != "dumb"
        self._colours = self._terminal and not os.environ.get("NO_COLOR")
        unicode = "utf" in (self._out.encoding or "").lower()
        self._full, self._empty = ("█", "·") if unicode else ("#", ".")
        self._last_tenth = -1
        self._bar_is_open = False

    def line(self, text: str = "") -> None:
        self.end_bar()
        print(text, file=self._out, flush=True)

    def bold(self, text: str) -> str:
        return f"{_BOLD}{text}{_PLAIN}" if self._colours else text

    def show(self, done: int, total: int, what: str) -> None:
        """Say that `done` of `total` are through; a log gets one line for every tenth."""
        percent = 100 * done // total if total else 100
        figures = f"{percent:3} %  {done:,} of {total:,} {what}"
        if self._terminal:
            filled = self._full * (_WIDTH * percent // 100)
            if self._colours:
                filled = f"{_GREEN}{filled}{_PLAIN}"
            empty = self._empty * (_WIDTH - _WIDTH * percent // 100)
            self._out.write(f"\r  {filled}{empty} {figures}")
            self._out.flush()
            self._bar_is_open = True
        elif percent // 10 > self._last_tenth:
            self._last_tenth = percent // 10
            self.line(f"  {figures}")

    def end_bar(self) -> None:
        if self._bar_is_open:
            self._out.write("\n")
            self._bar_is_open = False
