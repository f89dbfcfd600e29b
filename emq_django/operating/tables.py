"""Tables: aligned for a person, never wider than the terminal. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from emq_django.operating.terminal import Paint, Terminal
from emq_django.operating.text import clip, columns

_GAP: Final = "  "
_NARROWEST: Final = 12  # columns that the first column keeps before others are left out


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column. Those with the highest ``rank`` are left out first where it gets narrow."""

    title: str
    right: bool = True
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """A text, already safe, and how it is painted."""

    text: str
    paint: Paint | None = None


Row = Sequence[str | Cell]


def table(head: Sequence[Column], rows: Sequence[Row], terminal: Terminal) -> list[str]:
    """Return the lines of a table. The first column is cut last and is always there."""
    cells = [[one if isinstance(one, Cell) else Cell(one) for one in row] for row in rows]
    widths = [
        max([columns(column.title), *(columns(row[place].text) for row in cells)])
        for place, column in enumerate(head)
    ]
    shown = _fitting(head, widths, terminal.width)
    lines = [_line(head, [Cell(one.title, "dim") for one in head], widths, shown, terminal)]
    lines += [_line(head, row, widths, shown, terminal) for row in cells]
    left_out = len(head) - len(shown)
    if left_out:
        note = f"({left_out} columns do not fit; widen the window or use --json)"
        lines.append(clip(note, terminal.width or len(note)))
    return lines


def _fitting(head: Sequence[Column], widths: list[int], most: int | None) -> list[int]:
    shown = list(range(len(head)))
    if most is None:
        return shown
    while len(shown) > 1 and _total(widths, shown, at_least=True) > most:
        shown.remove(max(shown[1:], key=lambda place: (head[place].rank, place)))
    excess = _total(widths, shown) - most
    if excess > 0:
        widths[0] = max(widths[0] - excess, 1)
    return shown


def _total(widths: list[int], shown: list[int], *, at_least: bool = False) -> int:
    first = min(widths[0], _NARROWEST) if at_least else widths[0]
    return first + sum(widths[place] + len(_GAP) for place in shown[1:])


def _line(
    head: Sequence[Column],
    cells: Sequence[Cell],
    widths: list[int],
    shown: list[int],
    terminal: Terminal,
) -> str:
    parts = []
    for place in shown:
        text = clip(cells[place].text, widths[place])
        blanks = " " * (widths[place] - columns(text))
        paint = cells[place].paint
        painted = terminal.paint(text, paint) if paint and text else text
        parts.append(blanks + painted if head[place].right else painted + blanks)
    return _GAP.join(parts).rstrip()
