"""C170: failed jobs with huge errors cost the server their payloads and a small text each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.dead import Undertaker
from emq_django.protocol.claim import take
from emq_django.protocol.enqueue import enqueue_many
from emq_django.protocol.ids import mint
from emq_django.protocol.settle import retry
from emq_django.protocol.upkeep import promote
from emq_django.worker import failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django.fixtures import Settings

    from tests.servers import Server

PAYLOAD_BYTES = 100 * 1024
MESSAGE_CHARS = 5 * 1024 * 1024
MOST_ROW_BYTES = 20 * 1024  # beside the payload
MOST_ERROR_BYTES = 16 * 1024


@pytest.mark.slow
@pytest.mark.parametrize(
    "jobs",
    [
        pytest.param(200, marks=pytest.mark.timeout(900)),
        pytest.param(10_000, marks=[pytest.mark.nightly, pytest.mark.timeout(1_800)]),
    ],
)
@pytest.mark.parametrize("limit", [1, 25])
def test_a_row_keeps_its_payload_and_little_more(
    queue: str, fresh_server: Callable[..., Server], settings: Settings, jobs: int, limit: int
) -> None:
    server = fresh_server()
    settings.EMQ = {**settings.EMQ, "CONNECTION": server.url}
    where = keys(queue)
    wire = wire_for(where)
    with server.client() as client:
        base = used_bytes(client)
        for start in range(0, jobs, 50):
            items = [(one, os.urandom(PAYLOAD_BYTES)) for one in mint.many(min(50, jobs - start))]
            wire.run(enqueue_many(where, items))
        text, record = described()

        for _ in range(limit):
            fail_all(wire, where, limit, text, record)

        assert client.zcard(where.dead) == jobs
        job_id = client.zrange(where.dead, 0, 0)[0]
        row = client.hgetall(where.row_base + job_id)
        beside = sum(map(len, row.values())) - PAYLOAD_BYTES
        assert len(row[b"last_error"]) <= MOST_ERROR_BYTES
        assert beside <= MOST_ROW_BYTES
        # A server rounds each value up to its allocator's next size, so a quarter is added.
        assert used_bytes(client) - base <= jobs * (PAYLOAD_BYTES * 1.25 + MOST_ROW_BYTES)


def test_the_dead_of_a_queue_stay_within_their_bounds(
    queue: str,
    redis_client: Any,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    where = keys(queue)
    wire = wire_for(where)
    minted = mint.many(2_600)
    for start in range(0, len(minted), 100):
        wire.run(enqueue_many(where, [(one, b"p") for one in minted[start : start + 100]]))
        for job in wire.run(take(where, "w", lease_ms=60_000, limit=100)).jobs:
            wire.run(retry(where, job, "ValueError: no", 0, 0))
    settings.EMQ = {**settings.EMQ, "DEAD_KEPT": 200}
    undertaker = Undertaker([queue], wire_for)

    assert undertaker.tick() >= 60  # not at once: all workers of a deployment start together
    rounds = 1
    while undertaker.tick() < 1:
        rounds += 1

    left = redis_client.zrange(where.dead, 0, -1)
    assert rounds == 3
    assert [one.decode() for one in left] == minted[-200:]
    assert len(list(redis_client.scan_iter(where.row_base + b"*", count=5_000))) == 200
    (line,) = [one.getMessage() for one in caplog.records if "removed" in one.getMessage()]
    assert f"removed 2400 dead jobs, from {minted[0]} to {minted[-201]}" in line


def described() -> tuple[str, bytes]:
    """Return what a worker tells of an exception with a huge message."""
    exc = ValueError("x" * MESSAGE_CHARS)
    return failure.describe(exc), failure.record(exc, 1, "worker", 0, 0)


def fail_all(wire: Any, where: Any, limit: int, text: str, record: bytes) -> None:
    """Let every job have one run that fails; it waits in the schedule for the next one."""
    while wire.run(promote(where, 1_000)).moved:
        pass
    while jobs := wire.run(take(where, "w", lease_ms=60_000, limit=20)).jobs:
        for job in jobs:
            wire.run(retry(where, job, text, 0, limit, record=record))


def used_bytes(client: Any) -> int:
    used: int = client.info("memory")["used_memory"]
    return used
