"""The loop that coroutines run on, and the copy of it that a fork in one of them makes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine

import pytest

from emq_django.worker import aio


async def returns() -> None:
    await asyncio.sleep(0)


async def raises_what_leaves_the_loop() -> None:
    raise SystemExit(0)


async def waits_for_ever() -> None:
    await asyncio.Event().wait()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("goes_on", [returns, raises_what_leaves_the_loop, waits_for_ever])
def test_a_copy_of_the_process_ends_when_its_coroutine_is_left(
    goes_on: Callable[[], Coroutine[None, None, None]],
) -> None:
    async def forks() -> int:
        pid = os.fork()
        if pid == 0:
            await goes_on()
        return pid

    pid = aio.run(forks())

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert aio.run(asyncio.sleep(0, "here")) == "here"
    aio.close()
