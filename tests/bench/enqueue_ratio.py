"""What `enqueue(queue, bytes)` costs beside the same EVALSHA sent by hand over one kept connection.

    python -m tests.bench.enqueue_ratio [rounds [calls in a round]]

Starts a server of its own. The ways take turns in every round, so that a busy machine disturbs all
of them alike; the figure to read is the median of the rounds' ratios (target: 0.90 or more).
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

import django
import redis
from hiredis import pack_command
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.servers import start_server

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUE = "bench"
PAYLOAD = b"x" * 100


def main(rounds: int = 60, calls: int = 300) -> None:
    server = start_server()
    os.environ["EMQ_TEST_URL"] = server.url
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    with asyncio.Runner() as runner:
        ways = {"by hand": _by_hand(server.port), "enqueue": _ours(), "aenqueue": _async(runner)}
        for way in ways.values():
            way(calls)
        took: dict[str, list[float]] = {name: [] for name in ways}
        with server.client() as client:
            for number in range(rounds):
                names = list(ways) if number % 2 else list(reversed(ways))
                for name in names:
                    began_s = time.perf_counter()
                    ways[name](calls)
                    took[name].append(time.perf_counter() - began_s)
                client.flushdb()
    server.close()
    _report(took, calls)


def _by_hand(port: int) -> Callable[[int], None]:
    from emq_django.conf import keys
    from emq_django.protocol import scripts
    from emq_django.protocol.ids import mint

    q, script = keys(QUEUE), scripts.load("enqueue")
    make: Any = redis.Connection
    connection = make(port=port, protocol=2, retry=Retry(NoBackoff(), 0))
    connection.connect()
    connection.send_command("SCRIPT", "LOAD", script.text)
    connection.read_response()
    sha, row_base, pending, pack = script.sha, q.row_base, q.pending, pack_command

    def run(calls: int) -> None:
        for _ in range(calls):
            job_id = mint.one()
            words: Any = ("EVALSHA", sha, 2, row_base + job_id.encode(), pending, job_id, PAYLOAD)
            connection.send_packed_command([pack(words)], check_health=False)
            connection.read_response()

    return run


def _ours() -> Callable[[int], None]:
    from emq_django import enqueue

    def run(calls: int) -> None:
        for _ in range(calls):
            enqueue(QUEUE, PAYLOAD)

    return run


def _async(runner: asyncio.Runner) -> Callable[[int], None]:
    from emq_django import aenqueue

    async def several(calls: int) -> None:
        for _ in range(calls):
            await aenqueue(QUEUE, PAYLOAD)

    return lambda calls: runner.run(several(calls))


def _report(took: dict[str, list[float]], calls: int) -> None:
    floor = took["by hand"]
    for name, seconds in took.items():
        ratio = statistics.median(one / other for one, other in zip(floor, seconds, strict=True))
        per_s = calls / statistics.median(seconds)
        sys.stdout.write(f"{name:>8}  {per_s:8,.0f}/s  {ratio:.2f}\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
