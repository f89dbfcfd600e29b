"""C36: no clean-up and no stop of a worker calls a job failed that has ended well."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import metrics, upkeep
from tests.queue_state import read_state
from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.worker.processes import Bench

JOBS, EVERY_S = 500, 0.05


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_what_is_done_stays_done_over_clean_ups_and_restarts(
    bench: Bench, redis_client: Any
) -> None:
    where = keys(bench.queue)
    ids = [bench.add(sleep_s=0.01) for _ in range(JOBS)]
    worker = bench.start("--processes", "0", "--concurrency", "8")
    end, over = threading.Event(), threading.Event()
    rows_of_ended: list[bytes] = []

    def clean_up() -> None:
        while not end.wait(EVERY_S):
            wire_for(where).run(upkeep.reap(where))
            if over.is_set():
                rows_of_ended.extend(read_state(redis_client, where).rows)

    cleaner = threading.Thread(target=clean_up)
    cleaner.start()
    try:
        until(lambda: len(bench.ledger.notes("end")) == JOBS, "the last job has ended", 60)
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == 0
        over.set()
        for _ in range(3):
            again = bench.start("--processes", "0")
            again.signal(signal.SIGTERM)
            assert again.exit_code() == 0
    finally:
        end.set()
        cleaner.join()

    assert not rows_of_ended
    assert bench.ledger.count("start") == dict.fromkeys(ids, 1)
    counts, figures = bench.counts(), wire_for(where).run(metrics.history(where)).total()
    assert (counts.completed, counts.dead, counts.failed) == (JOBS, 0, 0)
    assert (figures.completed, figures.failed, figures.retried, figures.lost) == (JOBS, 0, 0, 0)
    assert bench.empty()
