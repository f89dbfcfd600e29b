"""One event loop on a thread of its own, on which a worker's coroutines run.

The slot that a job occupies waits for its coroutine, so concurrency is counted as for plain
functions. When the job's lease is lost, its time is over, or somebody asks for its end, the
coroutine is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

from emq_django.worker.outcomes import JobCancelled, SoftTimeLimit

R = TypeVar("R")

_LOOK_S: Final = 0.25  # how often a waiting slot looks whether its job is lost or to end
CANCEL_S: Final = 5.0  # for a coroutine to clean up after it was cancelled
_CLOSE_S: Final = 1.0


class LeaseLost(Exception):
    """The coroutine was cancelled, because another worker may hold its job."""


def run(
    coroutine: Coroutine[Any, Any, R],
    *,
    is_lost: Callable[[], bool] = lambda: False,
    is_cancelled: Callable[[], bool] = lambda: False,
    limit_s: float | None = None,
) -> R:
    """Run a coroutine on the worker's loop, in the caller's context, and return what it returns.

    Raises LeaseLost, JobCancelled or SoftTimeLimit when it was cancelled for that and did not
    return all the same.
    """
    work = _Work(coroutine, _running_loop())
    deadline_s = None if limit_s is None else time.monotonic() + limit_s
    while True:
        left_s = _LOOK_S if deadline_s is None else deadline_s - time.monotonic()
        if work.wait(min(max(left_s, 0.0), _LOOK_S)):
            return work.result()
        if is_lost():
            return work.cancel(LeaseLost("the lease was lost, so the task was cancelled"))
        if is_cancelled():
            return work.cancel(JobCancelled("its end was asked for"))
        if deadline_s is not None and time.monotonic() >= deadline_s:
            return work.cancel(SoftTimeLimit(f"still running after {limit_s:g} s"))


def close() -> None:
    """End the loop, so that what belongs to it (connections) is closed with it."""
    global _loop, _thread
    with _lock:
        loop, thread = _loop, _thread
        _loop = _thread = None
    if loop is None or thread is None:
        return
    _ending.add(loop)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(_CLOSE_S)


class _Work(Generic[R]):
    """One coroutine as a task of the loop; everything but ``_begin`` is called by the slot."""

    def __init__(self, coroutine: Coroutine[Any, Any, R], loop: asyncio.AbstractEventLoop) -> None:
        self._coroutine = coroutine
        self._loop = loop
        self._task: asyncio.Task[R] | None = None
        self._ended = threading.Event()
        loop.call_soon_threadsafe(self._begin)  # takes the caller's context along

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._coroutine)
        self._task.add_done_callback(lambda _: self._ended.set())

    def wait(self, timeout_s: float) -> bool:
        return self._ended.wait(timeout_s)

    def result(self) -> R:
        assert self._task is not None  # noqa: S101 - it has ended
        return self._task.result()

    def cancel(self, reason: BaseException) -> R:
        """Cancel, wait for the end; return what it returned all the same, else raise."""
        self._loop.call_soon_threadsafe(lambda: self._task and self._task.cancel())
        if not self._ended.wait(CANCEL_S):
            raise reason
        try:
            return self.result()
        except asyncio.CancelledError:
            raise reason from None


_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None
_ending: set[asyncio.AbstractEventLoop] = set()


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop, _thread
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(
                target=_serve, args=(_loop,), name="emq-asyncio", daemon=True
            )
            _thread.start()
        return _loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    # Job code may stop the loop, or raise what leaves it (sys.exit() in a coroutine): the other
    # jobs on it go on.
    while not (loop in _ending or loop.is_closed()):
        with contextlib.suppress(BaseException):
            loop.run_forever()
    _ending.discard(loop)
    if not loop.is_closed():
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _forget() -> None:
    """Start anew in a forked child, which has the loop but not its thread.

    Unless the loop's own thread forked: then a coroutine did, and its copy has the loop with all
    that runs on it. Nothing of it may go on once that coroutine is left.
    """
    global _loop, _thread, _lock
    if _loop is not None and threading.current_thread() is _thread:
        _loop.call_soon(os._exit, 1)
    _loop = _thread = None
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)
