"""Soft time limits for code on a slot's thread: ``SoftTimeLimit`` is raised in it from outside.

Python delivers such an exception between two bytecodes, so code inside a blocking call (a query, a
sleep, a socket) sees it only when that call returns. Nothing but ending the process stops a thread.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import TypeVar

from emq_django.worker.outcomes import SoftTimeLimit

R = TypeVar("R")


def call(function: Callable[[], R], limit_s: float | None) -> R:
    """Call a function. Raises SoftTimeLimit in it when it runs for longer than ``limit_s``."""
    if limit_s is None:
        return function()
    alarm = _Alarm(threading.get_ident(), limit_s)
    try:
        try:
            alarm.arm()
            return function()
        finally:
            alarm.disarm()
    except SoftTimeLimit as exc:
        if not exc.args:  # raised from outside, which can't bring a message along
            exc.args = (f"still running after {limit_s:g} s",)
        raise


class _Alarm:
    """Raises in one thread, at most once, and never after ``disarm`` has returned."""

    def __init__(self, thread_id: int, limit_s: float) -> None:
        self._thread_id = thread_id
        self._lock = threading.Lock()  # its own: a raise in between could leave a shared one held
        self._over = False
        self._fired = False
        self._timer = threading.Timer(limit_s, self._fire)
        self._timer.daemon = True

    def arm(self) -> None:
        self._timer.start()

    def disarm(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._over = True
        if self._fired:
            _take_delivery(self._thread_id)

    def _fire(self) -> None:
        with self._lock:
            if not self._over:
                self._fired = True
                _raise_in(self._thread_id)


def _take_delivery(thread_id: int) -> None:
    """Let an exception that is still on its way to this very thread arrive here, and forget it.

    Raising anew replaces one that is pending. Taking it back by raising NULL would be simpler, but
    before Python 3.13 that leaves the interpreter's flag for it set for good, and in 3.11 every
    thread that is traced then spins at its next call.
    """
    try:
        _raise_in(thread_id)
        while True:
            pass
    except SoftTimeLimit:
        pass


def _raise_in(thread_id: int) -> None:
    exc = ctypes.py_object(SoftTimeLimit)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), exc)
