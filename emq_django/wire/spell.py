"""Two spellings of one Call: EVALSHA (wire 4) and the native ``EMQ.<NAME>`` command (wire 6)."""

from __future__ import annotations

from typing import Any, Literal

from emq_django.protocol.calls import Call
from emq_django.wire.client import Command

WireVersion = Literal[4, 6]

# The commands whose native spelling the specification gives. Everything else is EVALSHA on both.
NATIVE = frozenset({"enqueue", "claim"})


def spell(call: Call[Any], wire: WireVersion) -> Command:
    """Return the command that runs a Call."""
    if wire == 6 and call.script.name in NATIVE:
        return ("EMQ." + call.script.name.upper(), len(call.keys), *call.keys, *call.args)
    return ("EVALSHA", call.script.sha, len(call.keys), *call.keys, *call.args)


def pause_read(call: Call[Any], wire: WireVersion) -> Command | None:
    """Return the read that goes before a native claim: our script reads the pause by itself."""
    if wire == 6 and call.pause_key is not None and call.script.name in NATIVE:
        return ("HGET", call.pause_key, "paused")
    return None


def script_load(call: Call[Any]) -> Command:
    """Return the command that puts a Call's script into the server's cache."""
    return ("SCRIPT", "LOAD", call.script.text)
