"""A soft time limit reaches the code that runs, and is over when the call is."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from queue import SimpleQueue

import pytest

from emq_django.worker import limits
from emq_django.worker.outcomes import SoftTimeLimit

pytestmark = pytest.mark.smoke  # C97: on every pair, since each Python may do it in its own way


def spins() -> None:
    while True:
        pass


def test_code_that_runs_for_too_long_is_told() -> None:
    with pytest.raises(SoftTimeLimit, match=r"still running after 0\.02 s"):
        limits.call(spins, 0.02)


def test_a_limit_that_was_swallowed_is_not_raised_again() -> None:
    def swallows() -> str:
        with contextlib.suppress(SoftTimeLimit):
            spins()
        return "cleaned up"

    assert limits.call(swallows, 0.02) == "cleaned up"


def test_an_error_at_the_limit_stays_the_error() -> None:
    def fails() -> None:
        try:
            spins()
        except SoftTimeLimit:
            raise ValueError("the cleaning failed") from None

    with pytest.raises(ValueError, match="the cleaning failed"):
        limits.call(fails, 0.02)


def test_a_limit_that_comes_with_the_end_is_over_with_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The exception is on its way when the call has ended: it arrives there or never."""
    alarms: list[limits._Alarm] = []

    class Noted(limits._Alarm):
        def arm(self) -> None:
            alarms.append(self)
            super().arm()

    monkeypatch.setattr(limits, "_Alarm", Noted)

    late: SimpleQueue[limits._Alarm | None] = SimpleQueue()

    def fire_all() -> None:
        while (alarm := late.get()) is not None:
            alarm._fire()

    def ends_late() -> str:
        late.put(alarms[-1])
        return "ended"  # without a wait: the other thread fires now or behind us

    firing = threading.Thread(target=fire_all)
    firing.start()
    ends = {"ended": 0, "limited": 0}
    for _ in range(300):
        try:
            ends[limits.call(ends_late, 60)] += 1
        except SoftTimeLimit:
            ends["limited"] += 1
    late.put(None)
    firing.join()

    assert sum(ends.values()) == 300  # and none of them was raised outside of its call


TRACED = """
import sys, threading
from emq_django.worker import limits
from emq_django.worker.outcomes import SoftTimeLimit

def trace(*_):
    return trace

def spins():
    while True:
        pass

sys.settrace(trace)
threading.settrace(trace)
try:
    limits.call(spins, 0.02)
except SoftTimeLimit:
    pass
thread = threading.Thread(target=lambda: None)
thread.start()
thread.join()
print("went on")
"""


def run_traced(script: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True
    )
    return ran.stdout


def test_threads_under_a_debugger_go_on_after_a_limit() -> None:
    """Before 3.13 an exception that is taken back leaves a flag, on which 3.11 spins."""
    assert run_traced(TRACED) == "went on\n"
