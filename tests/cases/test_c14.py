"""C14: no job starts after a pause has returned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import operate
from emq_django.protocol.claim import take
from emq_django.protocol.enqueue import enqueue_in
from emq_django.protocol.ids import mint
from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.worker.processes import Bench


def _pause(bench: Bench) -> None:
    wire_for(keys(bench.queue)).run(operate.pause(keys(bench.queue)))


def test_an_idle_worker_leaves_a_paused_queue_alone(bench: Bench) -> None:
    bench.start()
    _pause(bench)
    bench.add()

    until(lambda: "leases ended" in bench.workers[0].log() or _visits(bench) > 2, "some upkeep")
    assert not bench.ledger.notes("start")
    assert bench.counts().pending == 1


def test_neither_lost_nor_due_jobs_start_in_a_paused_queue(bench: Bench) -> None:
    where = keys(bench.queue)
    bench.add()
    assert wire_for(where).run(take(where, "gone", 100)).jobs
    wire_for(where).run(enqueue_in(where, mint.one(), b"{}", 100))
    _pause(bench)

    bench.start()

    until(lambda: bench.counts().pending == 2, "the lost and the due job wait")
    assert not bench.ledger.notes("start")


_seen: dict[str, int] = {}


def _visits(bench: Bench) -> int:
    """Count seconds of the server's clock: the parent visits once in each."""
    now_ms = bench.counts().now_ms
    return (now_ms - _seen.setdefault(bench.queue, now_ms)) // 1_000
