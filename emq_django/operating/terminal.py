"""Who is in front: a person at a terminal, or a program at the other end of a pipe."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Paint = Literal["bad", "good", "dim", "warn"]

_CODES: Mapping[Paint, str] = {"bad": "31", "good": "32", "warn": "33", "dim": "2"}


@dataclass(frozen=True, slots=True)
class Terminal:
    """What a stream can do.

    Attributes:
        live: a person looks at it: lines may be drawn again.
        colours: NO_COLOR is not set and the terminal is no dumb one.
        width: columns of a live one; None where a line may be as long as it is.
        height: its lines.
    """

    live: bool = False
    colours: bool = False
    width: int | None = None
    height: int | None = None

    def paint(self, text: str, paint: Paint) -> str:
        """Return the text in a colour, where colours are shown."""
        return f"\x1b[{_CODES[paint]}m{text}\x1b[0m" if self.colours else text


def terminal_of(
    stream: Any, *, no_colour: bool = False, environ: Mapping[str, str] = os.environ
) -> Terminal:
    """Return what a stream can do, by itself and by the environment."""
    if not stream.isatty():
        return Terminal()
    dumb = environ.get("TERM", "dumb") == "dumb"
    size = shutil.get_terminal_size()
    return Terminal(
        live=not dumb,
        colours=not (dumb or no_colour or environ.get("NO_COLOR")),
        width=size.columns,
        height=size.lines,
    )


def print_any_text() -> None:
    """Let standard output show what its encoding can't as escapes, in place of a traceback."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
