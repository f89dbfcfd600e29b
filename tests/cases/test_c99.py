"""C99: the server is away at the moment a handler returns.

A lost reply of a report, a silent restart and one that is told: tests/worker/test_outages.py.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from django.conf import settings
from django.test import override_settings

from tests.worker.processes import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers import Server
    from tests.worker.processes import Bench


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_an_outage_shorter_than_the_lease_costs_no_run(
    bench: Bench, fresh_server: Callable[..., Server], how: str
) -> None:
    tokens = _end_in_an_outage(bench, fresh_server, how, lease_ms=30_000, outage_s=3)

    assert tokens == [1]


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_an_outage_longer_than_the_lease_costs_a_second_run(
    bench: Bench, fresh_server: Callable[..., Server], how: str
) -> None:
    tokens = _end_in_an_outage(bench, fresh_server, how, lease_ms=3_000, outage_s=10)

    assert tokens == [1, 2]


def _end_in_an_outage(
    bench: Bench, fresh_server: Callable[..., Server], how: str, *, lease_ms: int, outage_s: float
) -> list[int]:
    server = fresh_server("--appendfsync", "always", appendonly=True)
    bench.url, bench.settings = server.url, {"LEASE_MS": lease_ms}
    gate = bench.folder / "gate"
    with override_settings(EMQ={**settings.EMQ, "CONNECTION": server.url}):
        bench.add(wait_for=str(gate))
        bench.start("--processes", "0", "--concurrency", "1")
        bench.started()
        (server.freeze if how == "stopped" else server.kill)()
        gate.touch()
        until(lambda: bench.ledger.notes("end"), "the handler has returned")
        time.sleep(outage_s)  # the case: away for so long
        (server.thaw if how == "stopped" else server.start)()

        until(bench.empty, "the job is gone")
        assert bench.counts().completed == 1
        assert bench.counts().dead == 0
    return [note.token for note in bench.ledger.notes("start")]
