"""C109: a demoted server that still answers is left for the one that new connections find.

Through Sentinel, sync and async: tests/django/test_connections_sentinel.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from emq_django.conf import keys
from emq_django.errors import EmqError
from emq_django.protocol.claim import claim
from emq_django.protocol.enqueue import enqueue
from emq_django.protocol.ids import mint
from emq_django.protocol.records import Verdict
from emq_django.wire.kept import KeptClient
from emq_django.wire.sync import Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers import Server


def test_a_refused_write_closes_the_connection(fresh_server: Callable[..., Server]) -> None:
    old, new = fresh_server(), fresh_server()
    now: dict[str, Any] = {"port": old.port}
    client = KeptClient(
        lambda: redis.Connection(  # type: ignore[no-untyped-call]
            host="127.0.0.1", protocol=2, retry=Retry(NoBackoff(), 0), **now
        )
    )
    wire, where = Wire(client), keys("c109")
    assert wire.run(enqueue(where, mint.one(), b"x")) is Verdict.ENQUEUED

    with old.client() as demoted:
        demoted.replicaof("127.0.0.1", 1)
    now["port"] = new.port
    with pytest.raises(EmqError, match=r"(?i)read.?only|replica"):
        wire.run(enqueue(where, mint.one(), b"x"))

    job_id = mint.one()
    assert wire.run(enqueue(where, job_id, b"x")) is Verdict.ENQUEUED
    job = wire.run(claim(where, 30_000))
    assert job is not None
    assert job.id == job_id
    with new.client() as promoted:
        assert promoted.zcard(where.active) == 1
    client.close()
