"""C105: a server that forgot its scripts costs no verb anything.

Every 50 ms under load, and over a restart: tests/worker/test_outages.py.
"""

from __future__ import annotations

from typing import Any

from emq_django.api import enqueue, enqueue_in, enqueue_many
from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import operate, settle, upkeep
from emq_django.protocol.claim import claim, take
from emq_django.protocol.enqueue import enqueue as enqueue_call
from emq_django.protocol.ids import mint
from emq_django.protocol.records import Verdict


def test_every_verb_succeeds_after_a_flush(queue: str, redis_client: Any) -> None:
    where, wire = keys(queue), wire_for(keys(queue))

    def run(call: Any) -> Any:
        redis_client.script_flush()
        return wire.run(call)

    redis_client.script_flush()
    assert enqueue(queue, b"x").verdict is Verdict.ENQUEUED
    redis_client.script_flush()
    assert [one.verdict for one in enqueue_many(queue, [b"x"] * 3)] == [Verdict.ENQUEUED] * 3
    redis_client.script_flush()
    later = enqueue_in(queue, b"x", 0)
    assert later.verdict is Verdict.SCHEDULED
    assert run(upkeep.promote(where)).moved == 1

    first = run(claim(where, 30_000))
    second, third, fourth = run(take(where, "w", 30_000, 3)).jobs
    assert run(settle.extend(where, first, 30_000)) is Verdict.EXTENDED
    assert run(settle.complete(where, first)) is Verdict.COMPLETED
    assert run(settle.retry(where, second, "no", 0, 1)) is Verdict.DEAD
    assert run(settle.retry(where, third, "no", 60_000, 5)) is Verdict.SCHEDULED
    assert run(settle.release(where, fourth)) is Verdict.RELEASED
    assert run(upkeep.reap(where)).seen == 0
    assert run(operate.pause(where))
    assert run(operate.resume(where))
    assert run(operate.remove(where, [fourth.id])) == [operate.Removed.REMOVED]


def test_a_pipeline_of_verbs_succeeds_after_a_flush(queue: str, redis_client: Any) -> None:
    where = keys(queue)
    redis_client.script_flush()

    done = wire_for(where).run_many([enqueue_call(where, mint.one(), b"x") for _ in range(200)])

    assert done == [Verdict.ENQUEUED] * 200
    assert redis_client.zcard(where.pending) == 200
