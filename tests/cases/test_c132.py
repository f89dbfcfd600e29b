"""C132: a payload that cannot be decoded ends among the dead, with the reason and unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from emq_django.api import enqueue
from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import read
from tests.task_backend import zoo
from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.task_backend.conftest import Desk

PAYLOADS = [
    b"", b"\x80\x04junk", b"{", b"null", b"[]", b"\xff", b'{"name":"mail","data":{"to":1}}',
    b"[" * 1_000_000,
]  # fmt: skip


@pytest.mark.slow
def test_what_is_no_task_dies_and_the_next_job_runs(desk: Desk) -> None:
    where = keys(desk.queue)
    ids = [enqueue(desk.queue, payload).id for payload in PAYLOADS]
    zoo.noted.using(queue_name=desk.queue).enqueue("good")

    desk.start("--processes", "0", "--concurrency", "1")

    desk.noted("ran")
    until(lambda: not desk.counts().active, "nothing is in flight")
    counts = desk.counts()
    assert (counts.dead, counts.pending, counts.scheduled) == (len(PAYLOADS), 0, 0)
    for job_id, payload in zip(ids, PAYLOADS, strict=True):
        row = wire_for(where).run(read.row(where, job_id, 2_000_000))
        assert row is not None
        assert row.held_by == "dead"
        assert row.fields["payload"].value == payload
        reason = (row.fields["last_error"].value or b"").decode()
        assert "PayloadRefused" in reason
    times = [one["at"] for one in desk.notes("ran")]
    assert len(times) == 1
