"""Runs Calls, awaited. Its sibling ``sync`` waits instead: keep them alike line by line.

NOSCRIPT is handled here and nowhere else: the script did not run, so loading it and sending again
is always safe. Nothing else is ever sent twice from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from redis.exceptions import NoScriptError

from emq_django.errors import EmqError, ServerBusy
from emq_django.protocol.calls import Call
from emq_django.wire.client import AsyncClient, Command
from emq_django.wire.kept import Limit, left_s
from emq_django.wire.replies import error_for
from emq_django.wire.spell import WireVersion, pause_read, script_load, spell
from emq_django.wire.sync import MOST_LOADS, missing_loads, outcome, refused, why_not_loaded

R = TypeVar("R")


class AsyncWire:
    """A client that speaks Calls.

    ``wire`` is 4 (EVALSHA) or 6 (native commands where the specification gives them).
    """

    def __init__(self, client: AsyncClient, wire: WireVersion = 4) -> None:
        self.client = client
        self._wire = wire
        self._loaded: set[str] = set()

    async def run(self, call: Call[R], timeout_s: float | None = None) -> R:
        """Run one Call and return what it parses to. Raises WireError or ProtocolError."""
        command, key = spell(call, self._wire), call.keys[0]
        limit = None if timeout_s is None else Limit(timeout_s)
        try:
            pause = pause_read(call, self._wire) if self._wire == 6 else None
            if pause:
                if await self.client.execute(pause, key, timeout_s) is not None:
                    return call.parse([])
                timeout_s = left_s(limit)
            try:
                reply = await self.client.execute(command, key, timeout_s)
            except NoScriptError:
                reply = await self._load_and_send(call, command, key, limit)
        except Exception as exc:  # noqa: BLE001 - mapped, and raised unless it is a verdict
            verdict = refused(call, exc)
            if verdict is None:
                error = error_for(exc)
                raise error from error.__cause__
            return verdict
        return call.parse(reply)

    async def _load_and_send(
        self, call: Call[Any], command: Command, key: bytes, limit: Limit | None
    ) -> Any:
        """Send a command whose script the server does not know, in one flush with its script.

        In one flush, so that both go to the same node also while a slot is on its way.
        """
        flush = (script_load(call), command)
        for _ in range(MOST_LOADS):
            load, reply = await self.client.execute_many(flush, key, left_s(limit))
            if isinstance(reply, NoScriptError):
                if not isinstance(load, Exception):
                    continue  # forgotten again: it did not run
                reply = load
            if isinstance(reply, Exception):
                raise reply
            return reply
        raise ServerBusy("the server forgets scripts as fast as they are loaded")

    async def run_many(
        self, calls: Sequence[Call[R]], timeout_s: float | None = None
    ) -> list[R | EmqError]:
        """Run Calls on one slot in one flush; return a result or an error for each, in order."""
        if not calls:
            return []
        key = calls[0].keys[0]
        limit = None if timeout_s is None else Limit(timeout_s)
        replies = await self._flush(calls, key, timeout_s)
        again = [i for i, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if again:
            self._loaded.clear()
            second = await self._flush([calls[i] for i in again], key, left_s(limit))
            for i, reply in zip(again, second, strict=True):
                replies[i] = reply
        return list(map(outcome, calls, replies))

    async def _flush(
        self, calls: Sequence[Call[Any]], key: bytes, timeout_s: float | None
    ) -> list[Any]:
        commands = [spell(call, self._wire) for call in calls]
        missing = missing_loads(calls, commands, self._loaded)
        try:
            replies = await self.client.execute_many([*missing.values(), *commands], key, timeout_s)
        except Exception as exc:  # noqa: BLE001 - told for each call by outcome()
            return [exc] * len(calls)
        loads = dict(zip(missing, replies, strict=False))
        self._loaded.update(sha for sha, load in loads.items() if not isinstance(load, Exception))
        return why_not_loaded(calls, loads, replies[len(missing) :])
