"""Texts for a terminal: safe to show, measured in columns, times in words. Pure."""

from __future__ import annotations

import unicodedata
from typing import Final

from emq_django.admin.render import one_line, visible

__all__ = ["clip", "columns", "number", "safe", "span", "visible"]

_LONGEST: Final = 200
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def safe(text: object, most_chars: int = _LONGEST) -> str:
    """Return ``text`` on one line, cut, with everything that could act on a terminal escaped."""
    return one_line(str(text), most_chars)


def columns(text: str) -> int:
    """Return how many columns a text takes: wide letters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_columns_of(char) for char in text)


def _columns_of(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, most_columns: int) -> str:
    """Return a text that takes no more columns than that; what was cut shows as an ellipsis."""
    if columns(text) <= most_columns:
        return text
    taken, used = "", 0
    for char in text:
        used += _columns_of(char)
        if used > most_columns - 1:
            break
        taken += char
    return taken + "…"


def number(value: int) -> str:
    """Return a whole number with its thousands apart."""
    return f"{value:,}"


def counted(value: int, noun: str) -> str:
    """Return a number with its noun, such as "1 queue" and "2 queues"."""
    return f"{number(value)} {noun}{'' if value == 1 else 's'}"


def in_number(value: int, one: str, many: str) -> str:
    """Return ``one`` for 1, else ``many`` with the number in place of ``{}``.

    >>> in_number(1, "a job is dead", "{} jobs are dead"), in_number(0, "a job", "{} jobs")
    ('a job is dead', '0 jobs')
    """
    return one if value == 1 else many.format(number(value))


def span(ms: float) -> str:
    """Return a length of time in its two largest units.

    >>> span(11_520_000), span(900), span(0)
    ('3 h 12 min', '900 ms', '0 ms')
    """
    seconds, rest_ms = divmod(int(abs(ms)), 1_000)
    if not seconds:
        return f"{rest_ms} ms"
    for place, (size, unit) in enumerate(_UNITS):
        if seconds >= size:
            whole, rest = divmod(seconds, size)
            words = f"{whole} {unit}"
            if place + 1 < len(_UNITS):
                smaller, name = _UNITS[place + 1]
                words += f" {rest // smaller} {name}" if rest >= smaller else ""
            return words
    return f"{seconds} s"
