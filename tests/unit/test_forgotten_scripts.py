"""A server that forgets scripts as fast as they are loaded is in trouble; no script has failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from redis.exceptions import NoScriptError

from emq_django.conf import keys
from emq_django.errors import ServerBusy
from emq_django.protocol.enqueue import enqueue
from emq_django.protocol.ids import mint
from emq_django.wire.aio import AsyncWire
from emq_django.wire.sync import MOST_LOADS, Wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emq_django.wire.client import Command


class Forgetful:
    """Takes every load and knows no script."""

    def __init__(self) -> None:
        self.sent: list[Command] = []

    def answer(self, command: Command) -> Any:
        self.sent.append(command)
        if command[0] == "EVALSHA":
            return NoScriptError("No matching script.")
        return b"sha"

    def execute(self, command: Command, key: bytes, timeout_s: float | None = None) -> Any:
        answer = self.answer(command)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def execute_many(
        self, commands: Sequence[Command], key: bytes, timeout_s: float | None = None
    ) -> list[Any]:
        return [self.answer(command) for command in commands]


class AsyncForgetful(Forgetful):
    async def execute(self, command: Command, key: bytes, timeout_s: float | None = None) -> Any:
        return super().execute(command, key, timeout_s)

    async def execute_many(  # type: ignore[override]
        self, commands: Sequence[Command], key: bytes, timeout_s: float | None = None
    ) -> list[Any]:
        return super().execute_many(commands, key, timeout_s)


def calls(count: int) -> list[Any]:
    return [enqueue(keys("q"), mint.one(), b"x") for _ in range(count)]


def loads_of(client: Forgetful) -> int:
    return sum(command[0] == "SCRIPT" for command in client.sent)


def test_each_call_of_a_flush_is_told_that_the_server_is_in_trouble() -> None:
    client: Any = Forgetful()

    outcomes = Wire(client).run_many(calls(3))

    assert [type(one) for one in outcomes] == [ServerBusy] * 3
    assert loads_of(client) == 2  # once before each of the two flushes: it does not loop


def test_a_single_call_is_told_so_after_a_few_loads() -> None:
    client: Any = Forgetful()

    with pytest.raises(ServerBusy):
        Wire(client).run(*calls(1))

    assert loads_of(client) == MOST_LOADS


async def test_an_async_wire_says_the_same() -> None:
    client: Any = AsyncForgetful()

    outcomes = await AsyncWire(client).run_many(calls(3))
    with pytest.raises(ServerBusy):
        await AsyncWire(client).run(*calls(1))

    assert [type(one) for one in outcomes] == [ServerBusy] * 3
