"""C76: the clock of a worker's host decides nothing; the server's does.

Ages in the admin come from the server's time too: tests/django/test_admin_text.py.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import metrics
from emq_django.protocol.claim import take
from emq_django.protocol.enqueue import enqueue_in
from emq_django.protocol.ids import mint
from tests.cases.handlers import CLOCK_OFFSET_S
from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.worker.processes import Bench, Note

LEASE_MS, PAUSE_MS, POLL_MS, OFF_S = 5_000, 3_000, 500, 600
SLACK_MS = 1_000  # a machine under load


@pytest.mark.slow
def test_workers_ten_minutes_ahead_and_behind_keep_the_servers_time(
    bench: Bench, redis_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.handler, bench.settings = "tests.cases.handlers.with_a_wrong_clock", {"LEASE_MS": 5_000}
    where = keys(bench.queue)
    live = bench.add()
    assert wire_for(where).run(take(where, "", 60_000)).jobs  # a lease of nobody's to reap
    for offset_s in (OFF_S, -OFF_S):
        monkeypatch.setenv(CLOCK_OFFSET_S, str(offset_s))
        bench.start("--processes", "0", "--concurrency", "2")

    held = [bench.add(wait_for=str(bench.folder / "gate")) for _ in range(4)]  # two in each
    for job_id in held:
        until(partial(_has_a_whole_lease, bench, job_id), "a whole lease")
    bench.started(4)
    (bench.folder / "gate").touch()
    until(lambda: len(bench.ledger.notes("end")) == 4, "the first jobs ended")

    delayed = mint.many(6)
    due_ms = {}
    for job_id in delayed:
        wire_for(where).run(enqueue_in(where, job_id, b"{}", PAUSE_MS))
        due_ms[job_id] = int(redis_client.zscore(where.schedule, job_id))
    again = [bench.add(again=True) for _ in range(4)]
    until(lambda: len(bench.ledger.notes("end")) == 14, "all ended", 40)

    starts = {note.id: _real_ms(note, redis_client) for note in bench.ledger.notes("start")}
    firsts = {note.id: _real_ms(note, redis_client) for note in bench.ledger.notes("first")}
    late_ms = [starts[job_id] - due_ms[job_id] for job_id in delayed]
    late_ms += [starts[job_id] - firsts[job_id] - PAUSE_MS for job_id in again]
    assert min(late_ms) >= -5
    assert max(late_ms) <= POLL_MS + SLACK_MS
    assert len({note.pid for note in bench.ledger.notes("start")}) == 2, "one worker did nothing"
    row = bench.row(live)
    assert row is not None
    assert row.held_by == "active"
    assert {note.token for note in bench.ledger.notes("end") if note.id not in again} == {1}
    assert wire_for(where).run(metrics.history(where)).total().lost == 0


def _has_a_whole_lease(bench: Bench, job_id: str) -> bool:
    """Tell whether a lease has just begun or been renewed; it never ends later than that."""
    row = bench.row(job_id)
    if row is None or row.score is None or row.held_by != "active":
        return False
    left_ms = row.score - row.now_ms
    assert left_ms <= LEASE_MS
    return left_ms > LEASE_MS - 100


def _real_ms(note: Note, client: Any) -> float:
    """Return a note's time without its worker's offset."""
    seconds: int = client.time()[0]
    offset_s = round((note.time_ns / 1e9 - seconds) / OFF_S) * OFF_S
    return note.time_ns / 1e6 - offset_s * 1_000
