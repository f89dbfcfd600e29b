"""Reads ``lua/<name>.lua``, puts its includes in, and knows its SHA-1. Nothing is sent from here.

A line ``-- include <name>`` is replaced by ``lua/include/<name>.lua``, once per script and with the
fragment's own includes before it. Fragments hold functions only.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib import resources
from typing import NamedTuple

_INCLUDE = re.compile(r"^-- include (\w+)$", re.MULTILINE)
_LUA = resources.files(__package__).joinpath("lua")


class Script(NamedTuple):
    """One script: its name (the transition), the text that is loaded, and the text's digest."""

    name: str
    text: str
    sha: str


@cache
def load(name: str) -> Script:
    """Return the script of a transition with its includes expanded."""
    text = _expand(_LUA.joinpath(f"{name}.lua").read_text("utf-8"), set())
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def names() -> list[str]:
    """Return the names of all scripts, sorted."""
    return sorted(
        entry.name.removesuffix(".lua") for entry in _LUA.iterdir() if entry.name.endswith(".lua")
    )


def _expand(text: str, seen: set[str]) -> str:
    def fragment(match: re.Match[str]) -> str:
        name = match[1]
        if name in seen:
            return ""
        seen.add(name)
        return _expand(_LUA.joinpath("include", f"{name}.lua").read_text("utf-8"), seen).rstrip()

    return _INCLUDE.sub(fragment, text)
