"""C83: a second signal ends the worker at once."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.worker.processes import Bench


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_hands_back_and_ends_within_two_seconds(
    bench: Bench, signum: signal.Signals
) -> None:
    job_id = bench.add(sleep_s=600)
    worker = bench.start()
    bench.started()
    worker.signal(signum)
    worker.wait_for_log("a second signal hands them back at once")
    forced_at_s = time.monotonic()
    worker.signal(signum)

    assert worker.exit_code() == 128 + signum
    assert time.monotonic() - forced_at_s <= 2
    assert bench.held_by(job_id) == "pending"
    assert bench.field(job_id, "failures") is None
