"""C179: a queue that nobody serves, its name mistyped, is named by the health command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from django.conf import settings
from django.test import override_settings

from emq_django import enqueue
from emq_django.noting import _noted
from tests.operating.shell import run_here
from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.worker.processes import Bench


@pytest.mark.slow
def test_the_mistyped_queue_is_named_with_its_job_its_workers_and_its_age(bench: Bench) -> None:
    served, mistyped = bench.queue, f"{bench.queue}-mial"
    bench.start()
    with override_settings(EMQ={**settings.EMQ, "QUEUES": {served: {}}}):
        until(lambda: workers_of(served) == 1, "the worker is seen")
        _noted.clear()
        enqueue(mistyped, b"{}")

        outcome = run_here("emq_health", "--max-unserved", "0", "--json")

        assert outcome.code == 1
        (finding,) = [
            one for one in json.loads(outcome.out)["findings"] if one["queue"] == mistyped
        ]
        assert finding["check"] == "unserved"
        assert "1 pending (the oldest for" in finding["text"]
        assert "0 workers" in finding["text"]
        assert mistyped in run_here("emq_queues").out
        assert run_here("emq_health", served).code == 0


def workers_of(queue: str) -> int:
    (said,) = json.loads(run_here("emq_queues", queue, "--json").out)["queues"]
    workers: int = said["workers"]
    return workers
