"""Whole numbers with units, checked on this side before anything is sent."""

from __future__ import annotations

from math import isfinite
from typing import Final

from emq_django.errors import InvalidDuration, InvalidInput

# The server's Lua counts in doubles: every time it adds up stays exact below 2**53.
LARGEST_MS: Final = 2**52
LARGEST_BATCH: Final = 1_000  # one script handles no more ids (unpack fails at 8,000)


def valid_ms(value: object, what: str, *, least: int = 0) -> int:
    """Return ``value`` as ms. Raises InvalidDuration unless it is a whole number in range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST_MS:
        raise InvalidDuration(
            f"{what}={value!r}: give a whole number of milliseconds from {least} to 2**52"
        )
    return value


def valid_count(value: object, what: str, *, least: int = 1, most: int = LARGEST_BATCH) -> int:
    """Return ``value`` as a count. Raises InvalidInput unless it is a whole number in range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput(f"{what}={value!r}: give a whole number from {least} to {most}")
    return value


def ms_of(score: bytes) -> int | None:
    """Return a score of the server as Unix ms; None for none, and for an infinite one."""
    ms = float(score or "nan")
    return int(ms) if isfinite(ms) else None
