"""Whatever the server does, a page says so and an action ends in words: never a 500, never late."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import redis
from django.contrib.admin.models import LogEntry
from django.test import Client

from emq_django.admin.links import Links
from emq_django.admin.tokens import copies_token, once_token
from emq_django.conf import keys
from emq_django.protocol.ids import mint
from tests.django.conftest import job_url, overview_url, queue_url, text_of
from tests.django.test_admin_pages import with_server
from tests.servers import Server, free_port

QUEUE = "faulty"
Fault = Callable[[Server], AbstractContextManager[str]]


@contextmanager
def refused(_server: Server) -> Iterator[str]:
    yield f"redis://127.0.0.1:{free_port()}/0"


@contextmanager
def read_only(server: Server) -> Iterator[str]:
    with server.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", free_port())
        yield server.url
        client.execute_command("REPLICAOF", "NO", "ONE")


@contextmanager
def limited(server: Server) -> Iterator[str]:
    with server.client() as client:
        client.acl_setuser(
            "weak", enabled=True, passwords=["+pw"], commands=["+@read", "+evalsha", "+script"],
            keys="*",
        )  # fmt: skip
        yield f"redis://weak:pw@127.0.0.1:{server.port}/0"


@contextmanager
def full(server: Server) -> Iterator[str]:
    with server.client() as client:
        client.config_set("maxmemory", 1)
        yield server.url
        client.config_set("maxmemory", 0)


@contextmanager
def busy(server: Server) -> Iterator[str]:
    """In a script that does not end."""
    with server.client() as client:
        client.config_set("busy-reply-threshold", 50)
        spinner = threading.Thread(target=_spin, args=(server,))
        spinner.start()
        try:
            until_busy(client)
            yield server.url
        finally:
            client.execute_command("SCRIPT KILL")
            spinner.join()


def _spin(server: Server) -> None:
    with server.client() as client, pytest.raises(redis.ResponseError):
        client.eval("while true do end", 0)


def until_busy(client: Any) -> None:
    for _ in range(500):
        try:
            client.ping()
        except redis.ResponseError:
            return
        time.sleep(0.01)  # polls a server that tells only by its answers
    raise AssertionError("the script does not run")


FAULTS: dict[str, tuple[Fault, str]] = {
    "refused": (refused, "The server did not answer."),
    "read-only": (read_only, "The server that answered is a replica."),
    "limited": (limited, "refused the user or the command"),
    "full": (full, "at its memory limit"),
    "busy": (busy, "The server is not ready"),
}


@pytest.fixture
def dead_id(fresh_server: Callable[..., Server]) -> tuple[Server, str]:
    server, job_id, queue = fresh_server(), mint.one(), keys(QUEUE)
    with server.client() as client:
        client.hset(queue.row(job_id), mapping={"state": "dead", "attempts": 1, "payload": "x"})
        client.zadd(queue.dead, {job_id: 0})
    return server, job_id


def ask(client: Client, method: str, url: str, form: dict[str, Any] | None = None) -> Any:
    began = time.monotonic()
    answer = getattr(client, method)(url, form) if form else getattr(client, method)(url)
    assert time.monotonic() - began < 3.5, url  # 3 s, and what this machine takes
    return answer


@pytest.mark.parametrize("fault", FAULTS)
def test_pages_and_actions_in_every_state_of_the_server(
    fault: str, dead_id: tuple[Server, str], root: Client
) -> None:
    server, job_id = dead_id
    make, told = FAULTS[fault]
    links = Links("admin")
    dead_list, job = queue_url(QUEUE, "?tab=dead"), job_url(QUEUE, job_id)
    copies, once, again = copies_token([job_id]), once_token(), once_token()
    actions: list[tuple[str, dict[str, Any]]] = [
        (dead_list, {"action": "retry", "id": job_id}),
        (dead_list, {"action": "delete", "id": job_id, "confirmed": "1"}),
        (dead_list, {"action": "retry_all", "confirmed": "1", "once": once}),
        (queue_url(QUEUE), {"action": "pause", "confirmed": "1"}),
        (
            queue_url(QUEUE),
            {"action": "drain", "confirmed": "1", "once": again, "name": QUEUE},
        ),
        (job, {"action": "copy", "id": job_id, "confirmed": "1", "copies": copies}),
        (links.edit(QUEUE, job_id) or "", {"payload": "y", "digest": "", "confirmed": "1"}),
        (links.download(QUEUE, job_id) or "", {"download": "1"}),
    ]
    with make(server) as url, with_server(url, QUEUE):
        for page in (overview_url(), queue_url(QUEUE), dead_list, job):
            assert ask(root, "get", page).status_code == 200
        spoken = []
        for where, form in actions:
            answer = ask(root, "post", where, form)
            assert answer.status_code in {200, 303}, form
            if answer.status_code == 303:
                spoken.append(text_of(ask(root, "get", answer["Location"])))
    assert any(told in page for page in spoken)
    with server.client() as client:
        if fault != "full":  # a full server still lets jobs out
            assert client.zscore(keys(QUEUE).dead, job_id) is not None
            assert not LogEntry.objects.filter(change_message="Retried.").exists()


@pytest.mark.slow
def test_a_server_that_loads_its_data(fresh_server: Callable[..., Server], root: Client) -> None:
    """A replica that gets all of its source's data anew says LOADING meanwhile."""
    slowly = ["--key-load-delay", "4000", "--loading-process-events-interval-bytes", "1024"]
    source, server = fresh_server("--repl-diskless-sync-delay", "0"), fresh_server(*slowly)
    queue, job_id = keys(QUEUE), mint.one()
    with source.client() as client:
        for number in range(1_000):
            client.set(f"filler-{number}", "x" * 100)
        client.hset(queue.row(job_id), mapping={"state": "dead", "attempts": 1, "payload": "x"})
        client.zadd(queue.dead, {job_id: 0})
    with server.client() as client, with_server(server.url, QUEUE):
        client.execute_command("REPLICAOF", "127.0.0.1", source.port)
        until_loading(client)
        page = ask(root, "get", queue_url(QUEUE))
        answer = ask(root, "post", queue_url(QUEUE, "?tab=dead"), {"action": "retry", "id": job_id})
        spoken = text_of(ask(root, "get", answer["Location"]))

    assert "The server is not ready: it loads its data, fails over or is busy." in text_of(page)
    assert "0 done, 1 failed, outcome unknown" in spoken
    with source.client() as client:
        assert client.zscore(queue.dead, job_id) is not None
    assert not LogEntry.objects.exists()


def until_loading(client: Any) -> None:
    for _ in range(2_000):
        try:
            client.ping()
        except redis.BusyLoadingError:
            return
        time.sleep(0.005)  # polls a server that tells only by its answers
    raise AssertionError("the server never said that it loads")
