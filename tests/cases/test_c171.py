"""C171: what has ended leaves nothing on the server once its time of keeping is over."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from emq_django.workers import worker_for
from tests.task_backend import zoo
from tests.worker.processes import until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from tests.servers import Server
    from tests.task_backend.conftest import Desk

KEPT_S = 5
READ_AT_ONCE = 50  # few enough to be read before they end, however slow the machine is
CHARTS = re.compile(rb":dj:(minutes|hours|depths|peaks):\d+$")  # end by themselves, days later
# What a server notes of its own work: 24 KB for each command that it hears for the first time, and
# the last 128 slow ones.
UNOBSERVED = ("--latency-tracking", "no", "--slowlog-log-slower-than", "-1")


class Size(NamedTuple):
    """How much is done in one go."""

    jobs: int
    results: int
    workers: int
    queues: int


ONCE = Size(jobs=1_100, results=READ_AT_ONCE, workers=1, queues=5)  # fills the list of ended ones
GATE = Size(jobs=1_500, results=READ_AT_ONCE, workers=2, queues=5)
FULL = Size(jobs=100_000, results=1_000, workers=200, queues=50)


@pytest.mark.slow
@pytest.mark.parametrize(
    "size",
    [  # the mark of a whole test would go before those of its sizes
        pytest.param(GATE, marks=pytest.mark.timeout(300)),
        pytest.param(FULL, marks=[pytest.mark.nightly, pytest.mark.timeout(2_200)]),
    ],
)
def test_nothing_is_left_of_what_has_ended(
    desk: Desk, fresh_server: Callable[..., Server], size: Size
) -> None:
    server = fresh_server(*UNOBSERVED)
    settings = {"CONNECTION": server.url, "RESULT_TTL_S": KEPT_S, "ENQUEUE_DEADLINE_S": 1}
    with server.client() as client, desk.set(**settings):
        work(desk, ONCE._replace(queues=size.queues))
        until(lambda: not rows(client), "results and marks have ended", KEPT_S + 60)
        base, base_bytes = lasting(client), used_bytes(client)

        work(desk, size)
        until(lambda: not rows(client), "results and marks have ended", KEPT_S + 60)

        assert lasting(client) == base
        assert not [key for key in base if b":dj:worker:" in key]
        assert all(client.pttl(key) > 0 for key in client.scan_iter() if CHARTS.search(key))
        assert used_bytes(client) <= 1.05 * base_bytes


def work(desk: Desk, size: Size) -> None:
    """Have jobs done by workers in here and as processes, and read some of the results."""
    names = [desk.queue, *(f"{desk.queue}-{number}" for number in range(size.queues))]
    add = zoo.add.using(queue_name=desk.queue)
    for first in range(0, size.jobs, 10_000):
        add.enqueue_many([(one,) for one in range(first, min(first + 10_000, size.jobs))])
    for name in names[1:]:
        zoo.add.using(queue_name=name).enqueue(1)
    worker_for(names, burst=True, concurrency=4).run()
    for first in range(0, size.results, READ_AT_ONCE):
        results: Any = add.enqueue_many([(one,) for one in range(first, first + READ_AT_ONCE)])
        desk.run()
        for result in results:
            result.refresh()
            assert result.return_value == result.args[0] + 1
    for _ in range(size.workers):
        zoo.add.using(queue_name=desk.queue).enqueue(1)
        assert desk.start("--burst", ready=False).exit_code() == 0


def rows(client: redis.Redis) -> list[bytes]:
    return list(client.scan_iter(match="*:job:*", count=1_000))


def lasting(client: redis.Redis) -> set[bytes]:
    """Return what is there, without the charts."""
    return {key for key in client.scan_iter(count=1_000) if not CHARTS.search(key)}


def used_bytes(client: redis.Redis) -> int:
    """Return what the server uses, without the charts: more minutes are more of them."""
    used: int = client.info("memory")["used_memory"]
    charts = [key for key in client.scan_iter(count=1_000) if CHARTS.search(key)]
    return used - sum(client.memory_usage(key, samples=0) or 0 for key in charts)
