"""Tasks that the tests of the task backend run, in this process and in workers."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from emq_django import Retry, task
from emq_django.task_backend.context import EmqTaskContext
from emq_django.task_backend.options import Backoff
from tests.worker.zoo import RAISERS

NO_PAUSE = Backoff(base_ms=0, cap_ms=0)


def note(event: str, **facts: Any) -> None:
    """Add a line to the ledger that the test reads."""
    line = json.dumps({"event": event, "pid": os.getpid(), "at": time.time(), **facts})
    with Path(os.environ["EMQ_TEST_LEDGER"]).open("a") as ledger:
        ledger.write(f"{line}\n")


@task
def add(a: int, b: int = 1) -> int:
    return a + b


@task
def echo(*args: Any, **kwargs: Any) -> list[Any]:
    return [list(args), kwargs]


def _gives_a_tool(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function("tool", *args, **kwargs)

    return call


@task
@_gives_a_tool
def with_a_tool(tool: str, name: str) -> str:
    return f"{tool} {name}"


@task
def noted(name: str) -> str:
    note("ran", name=name)
    return name


@task(max_attempts=3, backoff=NO_PAUSE)
def fails(times: int = 99) -> str:
    note("failed")
    raise LookupError(f"planned, {times}")


@task(takes_context=True, max_attempts=4, backoff=NO_PAUSE)
def fails_first(context: EmqTaskContext, times: int) -> int:
    note("ran", attempt=context.attempt, token=context.emq.token)
    if context.attempt <= times:
        raise LookupError(f"run {context.attempt}")
    return context.attempt


@task(max_attempts=5, backoff=NO_PAUSE, give_up_on=PermissionError)
def gives_up() -> None:
    note("ran")
    raise PermissionError("no use")


@task(max_attempts=3, backoff=NO_PAUSE, retry_on=(ConnectionError, TimeoutError))
def retries_on(kind: str) -> None:
    note("ran", kind=kind)
    raise {"timeout": TimeoutError, "key": KeyError}[kind](kind)


@task(max_attempts=2, backoff=NO_PAUSE)
def asks_for_another_run() -> None:
    note("ran")
    raise Retry("later", in_ms=0)


@task(max_attempts=1)
def returns_a_set() -> Any:
    return {1, 2}


@task
def returns(size: int) -> str:
    return "x" * size


@task(takes_context=True)
async def async_add(context: EmqTaskContext, a: int, b: int) -> int:
    await asyncio.sleep(0)
    await context.emq.aprogress("half")
    await context.emq.alog(f"adding {a}")
    return a + b


@task(takes_context=True, lease_ms=500)
async def async_sleeps(context: EmqTaskContext, seconds: float) -> None:
    note("started", token=context.emq.token)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note("cancelled", lost=context.emq.lease_lost)
        raise
    note("ended", token=context.emq.token)


@task(takes_context=True, max_attempts=3, backoff=NO_PAUSE)
def until_cancelled(context: EmqTaskContext, *, gives_in: bool) -> str:
    note("started", token=context.emq.token)
    while not context.emq.cancelled:
        time.sleep(0.005)
    note("asked")
    if gives_in:
        context.emq.raise_if_cancelled()
    return "went on"


@task(takes_context=True, max_attempts=3, backoff=NO_PAUSE)
async def async_until_cancelled(context: EmqTaskContext, *, gives_in: bool) -> str:
    note("started", token=context.emq.token)
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        note("asked")
        if gives_in:
            raise
    return "went on"


@task(max_attempts=1)
def odd(kind: str) -> str:
    RAISERS[kind]()
    return kind


@task(max_attempts=2, backoff=NO_PAUSE)
def odd_twice(kind: str) -> None:
    RAISERS[kind]()


@task(max_attempts=2, backoff=NO_PAUSE)
async def async_odd_twice(kind: str) -> None:
    await asyncio.sleep(0)
    RAISERS[kind]()


@task(max_attempts=1, soft_time_limit_s=0.2)
async def async_never_ends() -> None:
    while True:
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            continue


@task(max_attempts=1)
async def async_odd(kind: str) -> str:
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    if kind == "LoopClosed":
        loop.close()
    elif kind == "LoopStopped":
        loop.stop()
    elif kind == "LoopSignal":
        loop.add_signal_handler(signal.SIGTERM, print)
    elif kind == "Blocks":
        time.sleep(1.5)  # noqa: ASYNC251 - that is what is wrong with it
    elif kind == "InTheBackground":
        child = loop.create_task(_exits())
        await asyncio.wait([child])
    else:
        RAISERS[kind]()
    await asyncio.sleep(0)
    return kind


async def _exits() -> None:
    raise SystemExit("from a task that nobody waits for")


@task(takes_context=True)
def reports(context: EmqTaskContext) -> None:
    context.emq.progress(0.5)
    context.emq.log("first line")
    context.emq.log("second line")


@task(unique=True)
def unique_by_arguments(a: int, b: int = 0) -> int:
    return a + b


@task(unique="only one")
def unique_by_key() -> None:
    """Does nothing."""


@task(unique=lambda account, *_, **__: None if account == 0 else f"account-{account}")
def unique_by_function(account: int, note: str = "") -> None:
    """Does nothing."""


@task(
    lane=lambda tenant, **_: tenant,
    unique=lambda path, tenant: f"{tenant}-{path}",
)
def by_name(tenant: str | None, path: str = "rows") -> None:
    pass


@task(takes_context=True, unique=lambda path, **_: path)
def by_name_with_context(context: Any, tenant: int, path: str) -> None:
    pass


@task(lane=lambda lane, *_, **__: lane)
def in_a_lane(lane: str | None, name: str = "") -> str:
    note("ran", name=name, lane=lane)
    return name


@task(expires_in_s=60)
def expires() -> str:
    return "ran"


@task(result_ttl_s=0)
def leaves_no_result() -> int:
    return 1


@task(max_attempts=1)
def sleeps(seconds: float) -> None:
    note("started")
    time.sleep(seconds)
    note("ended")


@task(max_attempts=1)
def returns_nan() -> float:
    return float("nan")


_meeting: list[int] = []


@task
async def async_meets(size: int) -> None:
    """Ends when as many of these run at the same time."""
    _meeting.append(1)
    while len(_meeting) < size:  # noqa: ASYNC110 - an event of one loop would prove less
        await asyncio.sleep(0.01)
    note("met")


@task
async def async_counts_users() -> int:
    from django.contrib.auth.models import User

    return await User.objects.acount()


@task(soft_time_limit_s=0.2, max_attempts=1)
def spins() -> None:
    try:
        while True:
            time.sleep(0.01)
    finally:
        note("cleaned up")


@task(soft_time_limit_s=0.2, max_attempts=1)
def swallows_exceptions() -> None:
    while True:
        with contextlib.suppress(Exception):
            time.sleep(0.01)


@task(soft_time_limit_s=0.2, time_limit_s=1, max_attempts=1)
def swallows_everything() -> None:
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(0.01)


@task(soft_time_limit_s=0.2, max_attempts=1)
def cleans_up_for_long() -> None:
    try:
        while True:
            time.sleep(0.01)
    finally:
        time.sleep(1)
        note("cleaned up")


@task(soft_time_limit_s=0.2, max_attempts=1)
async def async_sleeps_long() -> None:
    try:
        await asyncio.sleep(60)
    finally:
        note("cleaned up")


@task(soft_time_limit_s=60, time_limit_s=120)
def is_quick() -> str:
    return "quick"


def on_raw(job: Any) -> None:
    note("ran", name="raw")


@task(takes_context=True)
def writes_fenced(context: EmqTaskContext, model: str, rows: int) -> int:
    from django.apps import apps

    model_class: Any = apps.all_models[model.split(".")[0]][model.split(".")[1].lower()]
    updated: int = model_class.objects.all().fenced(context.emq).update(rows=rows)
    return updated


@task(takes_context=True)
def tells_its_attempt(context: EmqTaskContext) -> int:
    """Runs for ever the first time."""
    note("attempt", attempt=context.attempt)
    while context.attempt == 1:
        time.sleep(0.05)
    return context.attempt


@task(takes_context=True, lease_ms=60_000)
def holds_a_long_lease(context: EmqTaskContext) -> float:
    """Returns how much of its lease is left once it was renewed, in ms."""
    from emq_django.conf import keys
    from emq_django.connections import wire_for
    from emq_django.protocol import read

    named = keys(context.emq.queue)
    left_ms = 0.0
    while left_ms < 30_000:
        row = wire_for(named).run(read.row(named, context.emq.job_id))
        if row is None or row.score is None:
            raise LookupError(context.emq.job_id)
        left_ms = row.score - row.now_ms
        time.sleep(0.01)
    return left_ms


@task(time_limit_s=1, max_attempts=2, backoff=NO_PAUSE)
def blocks_for_ever() -> None:
    """Sits in a blocking call, where no exception reaches it."""
    note("blocked")
    time.sleep(600)


@task(max_attempts=2, backoff=NO_PAUSE)
def blocks_without_a_limit() -> None:
    note("blocked")
    time.sleep(600)


@task(time_limit_s=1, max_attempts=1)
def blocks_once() -> None:
    note("blocked")
    time.sleep(600)


@task(time_limit_s=1, max_attempts=5, backoff=3_600_000)
def blocks_and_waits_long() -> None:
    note("blocked")
    time.sleep(600)


@task(time_limit_s=4, max_attempts=5, backoff=3_600_000)
def blocks_for_a_while() -> None:
    note("blocked")
    time.sleep(600)


@task(time_limit_s=0.2, max_attempts=1)
def spins_without_a_soft_limit() -> None:
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        time.sleep(0.01)
