"""C124: a server that may throw jobs away is told about, and lost rows never count as done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emq_django.api import enqueue_many
from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import read
from emq_django.protocol.claim import take
from emq_django.protocol.records import JobSet
from tests.django.test_checks import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers import Server

RISKY = {
    "allkeys-lru": "E006", "allkeys-lfu": "E006", "allkeys-random": "E006", "volatile-lru": "W005",
    "volatile-lfu": "W005", "volatile-random": "W005", "volatile-ttl": "W005",
}  # fmt: skip


@pytest.mark.slow
def test_each_policy_but_noeviction_is_told_about(fresh_server: Callable[..., Server]) -> None:
    server = fresh_server("--maxmemory", "8mb", appendonly=True)
    with server.client() as client:
        for policy, expected in RISKY.items():
            client.config_set("maxmemory-policy", policy)
            found, text = check("server", deploy=True, EMQ_TEST_URL=server.url)
            assert found == {expected: 1}
            assert policy in text
        client.config_set("maxmemory-policy", "noeviction")
    assert not check("server", deploy=True, EMQ_TEST_URL=server.url)[0]


def test_a_server_that_forbids_config_is_no_failure(fresh_server: Callable[..., Server]) -> None:
    server = fresh_server("--rename-command", "CONFIG", "", appendonly=True)

    found, _ = check("server", deploy=True, EMQ_TEST_URL=server.url)

    assert not [one for one in found if one.startswith("E")]


def test_rows_that_were_thrown_away_are_ghosts(queue: str, redis_client: Any) -> None:
    where = keys(queue)
    receipts = enqueue_many(queue, [b"x"] * 3)
    redis_client.delete(*(where.row(one.id) for one in receipts[:2]))
    entries = wire_for(where).run(read.page(where, JobSet.PENDING)).entries
    assert [one.exists for one in entries] == [False, False, True]

    jobs = wire_for(where).run(take(where, "w", 30_000, 10)).jobs

    assert [job.id for job in jobs] == [receipts[2].id]
    assert wire_for(where).run(read.counts(where)).completed == 0
