"""C80: a job under an id that was used before has nothing of the old one."""

from __future__ import annotations

from typing import Any

from emq_django.api import claim, enqueue, enqueue_many
from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import notes, operate, settle
from emq_django.protocol.claim import take
from emq_django.protocol.ids import mint
from emq_django.protocol.operate import Removed
from emq_django.protocol.records import Verdict

OLD_LEASE_MS, NEW_LEASE_MS = 600_000, 5_000


def test_a_reused_id_is_born_with_three_fields(queue: str, redis_client: Any) -> None:
    where, wire, job_id = keys(queue), wire_for(keys(queue)), mint.one()
    enqueue(queue, b"old", job_id=job_id)
    (job,) = wire.run(take(where, "holder", OLD_LEASE_MS)).jobs
    wire.run(notes.progress(where, job_id, "0.5"))
    wire.run(notes.add_log(where, job_id, "a line"))
    assert wire.run(settle.retry(where, job, "boom", 0, 1)) is Verdict.DEAD
    assert len(redis_client.hgetall(where.row(job_id))) > 3
    assert wire.run(operate.remove(where, [job_id])) == [Removed.REMOVED]

    assert enqueue(queue, b"new", job_id=job_id).verdict is Verdict.ENQUEUED

    born = {b"state": b"pending", b"attempts": b"0", b"payload": b"new"}
    assert redis_client.hgetall(where.row(job_id)) == born
    assert not wire.run(notes.logs(where, job_id)).lines
    assert redis_client.zscore(where.dead, job_id) is None
    again = claim(queue, NEW_LEASE_MS)
    assert again is not None
    assert (again.attempts, again.tries) == (1, 0)
    seconds, _ = redis_client.time()
    ends_ms = redis_client.zscore(where.active, job_id)
    assert ends_ms is not None
    assert ends_ms <= (seconds + 1) * 1_000 + NEW_LEASE_MS


def test_minted_and_chosen_ids_do_not_clash(queue: str, redis_client: Any) -> None:
    chosen = [f"JOB{number:011}" for number in range(500)] + mint.many(500)
    items: list[bytes | tuple[str, bytes]] = []
    for job_id in chosen:
        items += [(job_id, b"chosen"), b"minted"]

    receipts = enqueue_many(queue, items)

    assert [one.verdict for one in receipts] == [Verdict.ENQUEUED] * 2_000
    assert len({one.id for one in receipts}) == 2_000
    assert redis_client.zcard(keys(queue).pending) == 2_000
