"""A queue that is filled by plain Calls and looked at by commands in other processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.test import override_settings

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import enqueue, read
from emq_django.protocol.ids import mint
from tests.operating import shell

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from emq_django.protocol.records import Counts


class Shop:
    """One queue of the test, known to the commands by their settings."""

    def __init__(self, name: str, client: Any) -> None:
        self.name = name
        self.keys: Queue = keys(name)
        self.redis = client
        self.env = {"EMQ_TEST_QUEUES": json.dumps({name: {"HANDLER": "tests.worker.zoo.work"}})}

    def call(self, call: Any) -> Any:
        return wire_for(self.keys).run(call)

    def run(self, *arguments: str, stdin: bytes = b"") -> shell.Outcome:
        """Run a command in this process, as `manage.py` would: a process costs a second."""
        queues = {"QUEUES": json.loads(self.env["EMQ_TEST_QUEUES"])}
        with override_settings(EMQ={**settings.EMQ, **queues}):
            return shell.run_here(*arguments, stdin=stdin)

    def process(self, *arguments: str, stdin: bytes = b"", **env: str) -> shell.Outcome:
        """Run a command as a process of its own."""
        return shell.run(*arguments, stdin=stdin, env={**self.env, **env})

    def add(self, payload: bytes = b"{}", *, lane: str = "", job_id: str = "") -> str:
        job_id = job_id or mint.one()
        if lane:
            self.call(enqueue.enqueue_lane(self.keys, job_id, payload, lane))
        else:
            self.call(enqueue.enqueue(self.keys, job_id, payload))
        return job_id

    def add_many(self, count: int) -> list[str]:
        ids = mint.many(count)
        for start in range(0, count, 100):
            part = ids[start : start + 100]
            self.call(enqueue.enqueue_many(self.keys, [(one, b"{}") for one in part]))
        return ids

    def bury(self, ids: list[str]) -> None:
        """Make jobs dead, as a worker would have."""
        for start in range(0, len(ids), 1_000):
            pipe = self.redis.pipeline(transaction=False)
            for job_id in ids[start : start + 1_000]:
                pipe.zrem(self.keys.pending, job_id)
                pipe.hset(self.keys.row(job_id), mapping={"state": "dead", "last_error": "boom"})
                pipe.zadd(self.keys.dead, {job_id: 0})
            pipe.execute()

    def counts(self) -> Counts:
        counts: Counts = self.call(read.counts(self.keys))
        return counts

    def left(self) -> list[bytes]:
        """Return every key of the queue."""
        keys: list[bytes] = list(self.redis.scan_iter(match=self.keys.base + b"*", count=1_000))
        return sorted(keys)


@pytest.fixture
def shop(queue: str, redis_client: Any) -> Shop:
    return Shop(queue, redis_client)


@pytest.fixture
def terminal(shop: Shop) -> Iterator[Callable[..., shell.Terminal]]:
    """Start a command with a terminal in front; it is ended with the test."""
    opened: list[shell.Terminal] = []

    def start(*arguments: str, columns: int = 80, **env: str) -> shell.Terminal:
        opened.append(shell.Terminal(*arguments, columns=columns, env={**shop.env, **env}))
        return opened[-1]

    yield start
    for one in opened:
        one.close()
