"""Handlers for workers that run as processes. What they do is in the payload; the ledger is a file.

A ledger line is one write to a file opened for appending, so lines of several processes never mix.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from emq_django.worker.job import Job

LEDGER = "EMQ_TEST_LEDGER"


class Hostile(Exception):
    def __str__(self) -> NoReturn:
        raise SystemExit("no text from me")


class OwnBase(BaseException):
    pass


def note(event: str, job: Job, at_ns: int | None = None) -> None:
    line = f"{event} {job.id} {job.attempts} {at_ns or time.time_ns()} {os.getpid()}\n"
    descriptor = os.open(os.environ[LEDGER], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def work(job: Job) -> None:
    """Note a start, do what the payload says, note an end."""
    at_ns = time.time_ns()  # the first line; to read the payload takes longer than some jobs
    order: dict[str, Any] = json.loads(job.payload or b"{}")
    note("start", job, at_ns)
    if "wait_for" in order:
        _wait_for(Path(order["wait_for"]))
    time.sleep(order.get("sleep_s", 0))
    if "raise" in order:
        RAISERS[order["raise"]]()
    if "query" in order:
        _query()
    if "enqueue" in order:
        _enqueue(job.queue, order["enqueue"])
    note("end", job)


def brief(job: Job) -> None:
    """Note start and end in between a moment; so short that several are taken at once."""
    note("start", job)
    if b"Kill" in job.payload:
        RAISERS["Kill"]()
    time.sleep(0.0005)
    note("end", job)


def wait_until_lost(job: Job) -> None:
    note("start", job)
    while not job.lease_lost:
        time.sleep(0.005)
    note("lost", job)


def until_cancelled(job: Job) -> None:
    """Run until somebody asks for the end, then do what the payload says."""
    order: dict[str, Any] = json.loads(job.payload or b"{}")
    note("start", job)
    while not job.cancelled:
        time.sleep(0.005)
    note("asked", job)
    if order.get("then") == "fail":
        raise ValueError("broken off")
    if order.get("then") != "go on":
        job.raise_if_cancelled()
    note("end", job)


def _query() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.005)


def _enqueue(queue: str, payloads: list[str]) -> None:
    from emq_django.conf import keys
    from emq_django.connections import wire_for
    from emq_django.protocol.enqueue import enqueue
    from emq_django.protocol.ids import mint

    for payload in payloads:
        wire_for(keys(queue)).run(enqueue(keys(queue), mint.one(), payload.encode()))


def _raise(exc: BaseException) -> NoReturn:
    raise exc


def _recurse() -> NoReturn:
    _recurse()


def _exit_thread() -> NoReturn:
    sys.exit("a job may not end the worker")


def _leave_a_thread() -> None:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


def _fork() -> None:
    if os.fork() == 0:
        raise SystemExit(0)


class Unpicklable(Exception):
    def __init__(self) -> None:
        super().__init__("has a lock")
        self.lock = threading.Lock()

    def __reduce__(self) -> NoReturn:
        raise TypeError("not to be pickled")


def _leave_a_transaction_open() -> None:
    from django.db import transaction

    transaction.atomic().__enter__()


def _break_the_connection() -> None:
    from django.db import connection

    connection.ensure_connection()
    connection.connection.close()  # under Django's wrapper, as a database that went away
    _query()


def _change_language_and_time_zone() -> None:
    from django.utils import timezone, translation

    assert (timezone.get_current_timezone_name(), translation.get_language()) == ("UTC", "en-us")
    timezone.activate("Asia/Tokyo")
    translation.activate("de")


def _hog_the_interpreter() -> None:
    """Match a text that takes ever longer, in one call that lets no other thread run."""
    for length in range(18, 60):
        began_s = time.monotonic()
        re.match(r"(a|a)+$", "a" * length + "b")
        if time.monotonic() - began_s > 1.0:
            return


def _allocate() -> None:
    assert len(b"x" * (512 << 20)) == 512 << 20


RAISERS: dict[str, Any] = {
    "Exit": lambda: os._exit(3),
    "Unpicklable": lambda: _raise(Unpicklable()),
    "SignalHandler": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "Connection": _break_the_connection,
    "Transaction": _leave_a_transaction_open,
    "Zone": _change_language_and_time_zone,
    "Memory": _allocate,
    "Hog": _hog_the_interpreter,
    "Kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "ValueError": lambda: _raise(ValueError("no")),
    "SystemExit": _exit_thread,
    "KeyboardInterrupt": lambda: _raise(KeyboardInterrupt()),
    "GeneratorExit": lambda: _raise(GeneratorExit()),
    "StopAsyncIteration": lambda: _raise(StopAsyncIteration()),
    "StopIteration": lambda: _raise(StopIteration()),
    "CancelledError": lambda: _raise(asyncio.CancelledError()),
    "OwnBase": lambda: _raise(OwnBase("mine")),
    "RecursionError": _recurse,
    "MemoryError": lambda: _raise(MemoryError()),
    "Hostile": lambda: _raise(Hostile()),
    "HugeMessage": lambda: _raise(ValueError("x" * 10_000_000)),
    "Injection": lambda: _raise(ValueError("first\n2026-01-01 INFO forged queue=x\r\x1b[31m")),
    "Group": lambda: _raise(ExceptionGroup("several", [ValueError("a"), KeyError("b")])),
    "Retry": lambda: _retry(),
    "GiveUp": lambda: _give_up(),
    "Thread": _leave_a_thread,
    "Fork": _fork,
}


def _retry() -> NoReturn:
    from emq_django.worker.outcomes import Retry

    raise Retry("later", in_ms=600_000)


def _give_up() -> NoReturn:
    from emq_django.worker.outcomes import GiveUp

    raise GiveUp("no such account")
