"""How fast one worker process drains a queue of empty jobs, beside the same scripts by hand.

    python -m tests.bench.drain [rounds [jobs]]

Starts a server of its own. In each round the jobs are enqueued and drained anew by each way in
turn: the floor is `take` and `complete` for one job at a time over one kept connection, and beside
it `take` and `complete_many` in batches of 100. The figures to read are the ratios to the floor of
the same run (targets: concurrency 1 at least 3.0, concurrency 8 at least 2.0).
"""

from __future__ import annotations

import logging
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

    from emq_django.protocol.calls import Call

QUEUE = "bench"
PAYLOAD = b"x" * 100


def main(rounds: int = 5, jobs: int = 10_000) -> None:
    server = start_server()
    os.environ["EMQ_TEST_URL"] = server.url
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    logging.getLogger("emq_django").setLevel(logging.WARNING)
    ways: dict[str, Callable[[], int]] = {
        "by hand, one at a time": lambda: _by_hand(server.port, 1),
        "by hand, batches of 100": lambda: _by_hand(server.port, 100),
        "worker, concurrency 1": lambda: _worker(1),
        "worker, concurrency 8": lambda: _worker(8),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name in list(ways) if number % 2 else list(reversed(ways)):
            with server.client() as client:
                client.flushdb()
            _enqueue(jobs)
            began_s = time.perf_counter()
            ended = ways[name]()
            took_s = time.perf_counter() - began_s
            assert ended == jobs, (name, ended)
            if number:  # the first round warms up
                rates[name].append(jobs / took_s)
    server.close()
    _report(rates)


def _enqueue(jobs: int) -> None:
    from emq_django.conf import keys
    from emq_django.connections import wire_for
    from emq_django.protocol.enqueue import enqueue_many
    from emq_django.protocol.ids import mint

    q = keys(QUEUE)
    for first in range(0, jobs, 100):
        items = [(one, PAYLOAD) for one in mint.many(min(100, jobs - first))]
        wire_for(q).run(enqueue_many(q, items))


def _by_hand(port: int, batch: int) -> int:
    from emq_django.conf import keys
    from emq_django.protocol import claim, settle
    from emq_django.protocol.records import ClaimedJob

    q = keys(QUEUE)
    make: Any = redis.Connection
    connection = make(port=port, protocol=2, retry=Retry(NoBackoff(), 0))
    connection.connect()

    def run(call: Call[Any]) -> Any:
        words: Any = ("EVALSHA", call.script.sha, len(call.keys), *call.keys, *call.args)
        connection.send_packed_command([pack_command(words)], check_health=False)
        return call.parse(connection.read_response())

    sample = settle.Finished(ClaimedJob("JOB00000000000", b"", 1, QUEUE))
    for call in (
        claim.take(q, "w", 30_000),
        settle.complete(q, sample.job),
        settle.complete_many(q, [sample]),
    ):
        connection.send_command("SCRIPT", "LOAD", call.script.text)
        connection.read_response()
    ended = 0
    while held := run(claim.take(q, "w", 30_000, batch)).jobs:
        if batch == 1:
            run(settle.complete(q, held[0], 10_000))
        else:
            run(settle.complete_many(q, [settle.Finished(job, 10_000) for job in held]))
        ended += len(held)
    connection.disconnect()
    return ended


def _worker(concurrency: int) -> int:
    from emq_django.conf import keys
    from emq_django.connections import wire_for
    from emq_django.job_context import DjangoHooks
    from emq_django.worker.loop import Worker
    from emq_django.worker.options import QueueOptions, WorkerOptions

    ran: list[str] = []
    options = WorkerOptions(
        queues=(QueueOptions(keys=keys(QUEUE), handler=lambda job: ran.append(job.id)),),
        concurrency=concurrency,
        burst=True,
    )
    Worker(options, wire_for, DjangoHooks()).run()
    return len(set(ran))


def _report(rates: dict[str, list[float]]) -> None:
    floor = rates["by hand, one at a time"]
    for name, each in rates.items():
        ratio = statistics.median(a / b for a, b in zip(each, floor, strict=True))
        rate = statistics.median(each)
        sys.stdout.write(f"{name:26} {rate:9,.0f} jobs/s   {ratio:5.2f} of one at a time\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
