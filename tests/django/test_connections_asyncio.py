"""One client per running loop, closed when the loop shuts down, without a ResourceWarning."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from emq_django import connections
from emq_django.conf import keys
from emq_django.connections import async_wire_for, close_all, wire_for
from emq_django.protocol.claim import claim
from emq_django.protocol.enqueue import enqueue
from emq_django.protocol.ids import mint

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

    from tests.servers import Server

pytestmark = pytest.mark.usefixtures("server")


async def exchange(queue: str) -> int:
    """Run one Call and return the id of the client that ran it."""
    wire = async_wire_for(keys(queue))
    await wire.run(claim(keys(queue), 30_000))
    return id(wire.client)


async def many(queue: str) -> None:
    await asyncio.gather(*(exchange(queue) for _ in range(20)))


def open_clients(server: Server, name: str) -> int:
    with server.client() as client:
        return sum(one["name"] == name for one in client.client_list())


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda queue: asyncio.run(many(queue)), id="asyncio.run"),
        pytest.param(lambda queue: async_to_sync(many)(queue), id="async_to_sync"),
    ],
)
def test_a_loop_that_ends_leaves_no_connection(
    run: object, server: Server, settings: Settings, queue: str
) -> None:
    settings.EMQ = {**settings.EMQ, "CONNECTION": f"{server.url}?client_name={queue}"}
    others = set(connections._loops)  # of tests before this one, on loops still open

    for _ in range(3):
        run(queue)  # type: ignore[operator]

    assert set(connections._loops) <= others
    gc.collect()
    assert open_clients(server, queue) == 0


def test_a_runner_keeps_one_client_over_its_runs_and_closes_it(
    server: Server, settings: Settings, queue: str
) -> None:
    settings.EMQ = {**settings.EMQ, "CONNECTION": f"{server.url}?client_name={queue}"}

    with asyncio.Runner() as runner:
        used = {runner.run(exchange(queue)) for _ in range(3)}
        assert open_clients(server, queue) == 1

    assert len(used) == 1
    assert open_clients(server, queue) == 0


async def test_an_async_test_uses_the_client_of_its_loop(queue: str) -> None:
    assert await exchange(queue) == await exchange(queue)
    assert asyncio.get_running_loop() in connections._loops


async def test_sync_code_called_from_a_loop_uses_the_threads_client(queue: str) -> None:
    q = keys(queue)
    await sync_to_async(lambda: wire_for(q).run(enqueue(q, mint.one(), b"x")))()

    job = await async_wire_for(q).run(claim(q, 30_000))

    assert job is not None


def test_loops_of_two_threads_have_their_own_clients(queue: str) -> None:
    used: list[int] = []
    ready = threading.Barrier(2)

    def one() -> None:
        async def both_at_once() -> None:
            used.append(await exchange(queue))
            await asyncio.to_thread(ready.wait)

        asyncio.run(both_at_once())

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(used)) == 2


async def test_close_all_makes_a_loop_start_afresh(queue: str) -> None:
    before = await exchange(queue)
    kept = async_wire_for(keys(queue))

    close_all()

    assert await exchange(queue) != before
    assert await kept.run(claim(keys(queue), 1)) is None  # who still holds it can go on


def test_outside_a_loop_there_is_no_async_wire(queue: str) -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        async_wire_for(keys(queue))


SCRIPT = """
import asyncio, gc, sys
import django
django.setup()
from asgiref.sync import async_to_sync
from emq_django.conf import keys
from emq_django.connections import async_wire_for, wire_for
from emq_django.protocol.claim import claim

q = keys(sys.argv[1])

async def go(n):
    await asyncio.gather(*(async_wire_for(q).run(claim(q, 1)) for _ in range(n)))

async def cancelled():
    tasks = [asyncio.create_task(go(5)) for _ in range(5)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

async def fails():
    await go(1)
    raise KeyError("x")

wire_for(q).run(claim(q, 1))
asyncio.run(go(10))
async_to_sync(go)(10)
asyncio.run(cancelled())
try:
    asyncio.run(fails())
except KeyError:
    pass
with asyncio.Runner() as runner:
    runner.run(go(3)); runner.run(go(3))
loop = asyncio.new_event_loop()
loop.run_until_complete(go(2))
loop.run_until_complete(loop.shutdown_asyncgens())
loop.close()
gc.collect()
"""


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_python_in_dev_mode_has_nothing_to_warn_about(
    kind: str, server: Server, queue: str
) -> None:
    url = server.url if kind == "tcp" else f"unix://{server.socket_path}"

    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", SCRIPT, queue],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "EMQ_TEST_URL": url, "DJANGO_SETTINGS_MODULE": "tests.settings"},
    )

    # asyncio's debug mode reports slow steps, which a busy machine has.
    said = [line for line in done.stderr.splitlines() if not line.startswith("Executing <")]
    assert (done.returncode, said) == (0, [])
