"""C50: a delayed job waits on the server, never in a worker."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.test import override_settings

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol.enqueue import enqueue_in
from emq_django.protocol.ids import mint
from tests.worker.processes import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers import Server
    from tests.worker.processes import Bench

LONGEST_DELAY_MS = 60_000  # that a test waits for
JOBS, LEASE_MS, POLL_MS, FAR_MS = 100, 2_000, 500, 400 * 86_400_000


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_restarts_neither_lose_nor_double_what_waits(
    bench: Bench, fresh_server: Callable[..., Server]
) -> None:
    _wait_through_restarts(bench, fresh_server, workers=2, delay_ms=600_000)


@pytest.mark.nightly
@pytest.mark.timeout(180)
def test_restarts_neither_lose_nor_double_what_waits_at_full_size(
    bench: Bench, fresh_server: Callable[..., Server]
) -> None:
    _wait_through_restarts(bench, fresh_server, workers=3, delay_ms=20_000)


def _wait_through_restarts(
    bench: Bench, fresh_server: Callable[..., Server], *, workers: int, delay_ms: int
) -> None:
    server = fresh_server("--appendfsync", "always", appendonly=True)
    bench.url, bench.settings = server.url, {"LEASE_MS": LEASE_MS}
    with override_settings(EMQ={**settings.EMQ, "CONNECTION": server.url}):
        where = keys(bench.queue)
        ids, far = mint.many(JOBS), mint.one()
        for job_id in ids:
            wire_for(where).run(enqueue_in(where, job_id, b"{}", delay_ms))
        wire_for(where).run(enqueue_in(where, far, b"{}", FAR_MS))
        waiting = _schedule(server, where.schedule)

        _serve(bench, workers)
        assert _all_wait(bench, server)
        for worker in bench.workers:
            worker.signal(signal.SIGTERM)
        assert [worker.exit_code() for worker in bench.workers] == [0] * workers
        server.restart()
        assert _all_wait(bench, server), "the restarts took longer than the delay"
        assert _schedule(server, where.schedule) == waiting
        _serve(bench, workers)
        server.restart()
        assert _schedule(server, where.schedule) == waiting
        assert _all_wait(bench, server), "the restarts took longer than the delay"
        if delay_ms > LONGEST_DELAY_MS:
            waiting |= _fall_due_soon(server, where.schedule, ids)
        until(lambda: len(bench.ledger.notes("end")) == JOBS, "all have run", 60)
        until(lambda: not bench.counts().active, "all are reported")

        starts_ms = {note.id: note.time_ns / 1e6 for note in bench.ledger.notes("start")}
        late_ms = [starts_ms[job_id] - waiting[job_id.encode()] for job_id in ids]
        assert bench.ledger.count("start") == dict.fromkeys(ids, 1)
        assert {note.token for note in bench.ledger.notes("start")} == {1}
        assert min(late_ms) >= -5
        assert max(late_ms) <= POLL_MS + 500
        assert _schedule(server, where.schedule) == {far.encode(): waiting[far.encode()]}


def _serve(bench: Bench, workers: int) -> None:
    started = [bench.start("--processes", "0", ready=False) for _ in range(workers)]
    for worker in started:
        worker.wait_until_it_serves()


def _schedule(server: Server, name: bytes) -> dict[bytes, float]:
    with server.client() as client:
        pairs: Any = client.zrange(name, 0, -1, withscores=True)
    return dict(pairs)


def _fall_due_soon(server: Server, name: bytes, ids: list[str]) -> dict[bytes, float]:
    """Let the gate not wait for as long as a busy machine takes to restart everything."""
    with server.client() as client:
        seconds: Any = client.time()
        due_ms = seconds[0] * 1_000 + 2_000
        client.zadd(name, dict.fromkeys(ids, due_ms), xx=True)
    return {job_id.encode(): due_ms for job_id in ids}


def _all_wait(bench: Bench, server: Server) -> bool:
    """No job is active or has been counted as an attempt."""
    where = keys(bench.queue)
    with server.client() as client:
        rows: Any = client.keys(f"*{bench.queue}*:job:*")
        attempts = {client.hget(row, "attempts") for row in rows}
        return attempts == {b"0"} and not client.exists(where.active, where.pending)
