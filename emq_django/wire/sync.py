"""Runs Calls and waits. Its sibling ``aio`` does the same, awaited: keep them alike line by line.

NOSCRIPT is handled here and nowhere else: the script did not run, so loading it and sending again
is always safe. Nothing else is ever sent twice from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from redis.exceptions import NoScriptError, ResponseError

from emq_django.errors import EmqError, ServerBusy
from emq_django.protocol.calls import Call
from emq_django.wire.client import Client, Command
from emq_django.wire.kept import Limit, left_s
from emq_django.wire.replies import error_for
from emq_django.wire.spell import WireVersion, pause_read, script_load, spell

R = TypeVar("R")

# A script cache that is flushed all the time is a fault that passes; it must not loop for ever.
MOST_LOADS = 3


class Wire:
    """A client that speaks Calls.

    ``wire`` is 4 (EVALSHA) or 6 (native commands where the specification gives them).
    """

    def __init__(self, client: Client, wire: WireVersion = 4) -> None:
        self.client = client
        self._wire = wire
        self.patience: Any = None  # what ``sending`` knows of the server behind this wire
        self._loaded: set[str] = set()

    def run(self, call: Call[R], timeout_s: float | None = None) -> R:
        """Run one Call and return what it parses to. Raises WireError or ProtocolError."""
        command, key = spell(call, self._wire), call.keys[0]
        limit = None if timeout_s is None else Limit(timeout_s)
        try:
            pause = pause_read(call, self._wire) if self._wire == 6 else None
            if pause:
                if self.client.execute(pause, key, timeout_s) is not None:
                    return call.parse([])
                timeout_s = left_s(limit)
            try:
                reply = self.client.execute(command, key, timeout_s)
            except NoScriptError:
                reply = self._load_and_send(call, command, key, limit)
        except Exception as exc:  # noqa: BLE001 - mapped, and raised unless it is a verdict
            verdict = refused(call, exc)
            if verdict is None:
                error = error_for(exc)
                raise error from error.__cause__
            return verdict
        return call.parse(reply)

    def _load_and_send(
        self, call: Call[Any], command: Command, key: bytes, limit: Limit | None
    ) -> Any:
        """Send a command whose script the server does not know, in one flush with its script.

        In one flush, so that both go to the same node also while a slot is on its way.
        """
        flush = (script_load(call), command)
        for _ in range(MOST_LOADS):
            load, reply = self.client.execute_many(flush, key, left_s(limit))
            if isinstance(reply, NoScriptError):
                if not isinstance(load, Exception):
                    continue  # forgotten again: it did not run
                reply = load
            if isinstance(reply, Exception):
                raise reply
            return reply
        raise ServerBusy("the server forgets scripts as fast as they are loaded")

    def run_many(
        self, calls: Sequence[Call[R]], timeout_s: float | None = None
    ) -> list[R | EmqError]:
        """Run Calls on one slot in one flush; return a result or an error for each, in order."""
        if not calls:
            return []
        key = calls[0].keys[0]
        limit = None if timeout_s is None else Limit(timeout_s)
        replies = self._flush(calls, key, timeout_s)
        again = [i for i, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if again:
            self._loaded.clear()
            second = self._flush([calls[i] for i in again], key, left_s(limit))
            for i, reply in zip(again, second, strict=True):
                replies[i] = reply
        return list(map(outcome, calls, replies))

    def _flush(self, calls: Sequence[Call[Any]], key: bytes, timeout_s: float | None) -> list[Any]:
        commands = [spell(call, self._wire) for call in calls]
        missing = missing_loads(calls, commands, self._loaded)
        try:
            replies = self.client.execute_many([*missing.values(), *commands], key, timeout_s)
        except Exception as exc:  # noqa: BLE001 - told for each call by outcome()
            return [exc] * len(calls)
        loads = dict(zip(missing, replies, strict=False))
        self._loaded.update(sha for sha, load in loads.items() if not isinstance(load, Exception))
        return why_not_loaded(calls, loads, replies[len(missing) :])


def missing_loads(
    calls: Sequence[Call[Any]], commands: Sequence[Command], loaded: set[str]
) -> dict[str, Command]:
    """Return a load for each script of a flush that this wire has not seen loaded yet.

    A flush with a cold cache would be all NOSCRIPT, so the loads go first, in the same flush.
    """
    missing: dict[str, Command] = {}
    for call, command in zip(calls, commands, strict=True):
        sha = call.script.sha
        if command[0] == "EVALSHA" and sha not in loaded and sha not in missing:
            missing[sha] = script_load(call)
    return missing


def why_not_loaded(
    calls: Sequence[Call[Any]], loads: dict[str, Any], replies: list[Any]
) -> list[Any]:
    """Return the replies; a script that is missing because its load failed says why."""
    return [
        load if isinstance(reply, NoScriptError) and isinstance(load, Exception) else reply
        for reply, load in zip(replies, (loads.get(call.script.sha) for call in calls), strict=True)
    ]


def outcome(call: Call[R], reply: Any) -> R | EmqError:
    """Turn one reply of a flush into its result or error."""
    if not isinstance(reply, Exception):
        return call.parse(reply)
    verdict = refused(call, reply)
    return error_for(reply) if verdict is None else verdict


def refused(call: Call[R], exc: Exception) -> R | None:
    """Return the verdict when an error reply is an expected outcome of the Call."""
    if call.refusal is None or not isinstance(exc, ResponseError):
        return None
    return call.refusal(str(exc))
