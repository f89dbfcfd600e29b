"""A transition as a value: which script, on which keys, with which arguments, read how.

Builders make Calls; a wire runs them. The same value serves the sync wire, the asyncio wire, a
pipeline, and both spellings (EVALSHA and the native ``EMQ.<NAME>`` command). Sends nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from emq_django.protocol.scripts import Script

R = TypeVar("R")

Argument = bytes | str | int


class Call(NamedTuple, Generic[R]):
    """One run of one script.

    ``parse`` turns the server's reply into the verdict or record. ``refusal`` gets the text of an
    error reply and returns a verdict for an expected one (EMQSTALE), else None and the wire raises.
    ``pause_key`` is the hash whose ``paused`` field the native spelling reads first.
    """

    script: Script
    keys: tuple[bytes, ...]
    args: tuple[Argument, ...]
    parse: Callable[[Any], R]
    refusal: Callable[[str], R | None] | None = None
    pause_key: bytes | None = None
