"""The least that a worker can do for a job: one thread hears of it and takes it, and nothing else.

    python -m tests.bench.hear_and_take QUEUE

Says "ready", and then the time in ns of each reply to a take that brought a job. `worker_tree`
prints it beside the pick-up of a whole tree.
"""

from __future__ import annotations

import os
import select
import sys
from time import time_ns
from typing import Any

import django
import hiredis
import redis


def main(name: str) -> None:
    django.setup()
    from emq_django.conf import keys
    from emq_django.connections import wire_for
    from emq_django.protocol import claim, settle

    queue, wire = keys(name), wire_for(keys(name))
    connection: Any = redis.Redis.from_url(
        os.environ["EMQ_TEST_URL"], protocol=3
    ).connection_pool.get_connection()
    connection.send_command("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", queue.pending)
    connection.read_response()
    wire.run(claim.take(queue, "floor", 30_000, 1))  # the server has the script from now on
    poll, reader = select.poll(), hiredis.Reader()
    poll.register(connection._sock.fileno(), select.POLLIN)
    say("ready")
    while True:
        poll.poll()
        reader.feed(connection._sock.recv(65_536))
        while reader.gets() is not False:
            pass
        taken = wire.run(claim.take(queue, "floor", 30_000, 1)).jobs
        at_ns = time_ns()
        for job in taken:
            say(str(at_ns))
            wire.run(settle.complete(queue, job))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
