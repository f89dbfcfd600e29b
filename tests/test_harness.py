"""The test harness does what the other tests rely on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from emq_django.embedded import LOOPBACK, ServerUnavailable, ping
from tests.servers import start_server

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tests.monitoring import Recording
    from tests.proxy import Mode, Proxy
    from tests.servers import Server


@pytest.mark.smoke
def test_the_session_has_a_server_that_never_evicts_and_writes_nothing(
    redis_client: redis.Redis,
) -> None:
    wanted = {"maxmemory-policy": "noeviction", "appendonly": "no", "save": "", "bind": "127.0.0.1"}

    found = {name: redis_client.config_get(name)[name] for name in wanted}

    assert found == wanted


def test_the_server_is_reached_over_its_socket_and_its_port(server: Server) -> None:
    assert ping((LOOPBACK, server.port))
    assert ping(server.socket_path)


def test_a_restart_keeps_port_and_data(fresh_server: Callable[..., Server]) -> None:
    server = fresh_server(appendonly=True)
    with server.client() as client:
        client.set("kept", b"1")

    server.restart()

    with server.client() as client:
        assert client.get("kept") == b"1"


def test_extra_arguments_win(fresh_server: Callable[..., Server]) -> None:
    server = fresh_server("--maxmemory", "3mb")

    with server.client() as client:
        assert client.config_get("maxmemory") == {"maxmemory": str(3 * 1024 * 1024)}


@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is a feature of Linux")
def test_a_server_does_not_outlive_a_killed_parent(server: Server) -> None:
    code = (
        "from tests.servers import start_server\n"
        "s = start_server(); print(s.port, s.data_dir, flush=True); input()"
    )
    environment = {**os.environ, "EMQ_TEST_SERVER": str(server.binary)}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as parent:
        assert parent.stdout is not None
        port, folder = parent.stdout.readline().split()
        assert ping((LOOPBACK, int(port)))

        parent.kill()
        parent.wait()

    _wait_for(lambda: not ping((LOOPBACK, int(port))))
    subprocess.run(["rm", "-r", folder], check=True)


def test_a_taken_port_is_an_error_even_though_a_server_answers_there(server: Server) -> None:
    with pytest.raises(ServerUnavailable, match="instead of starting"):
        start_server(binary=str(server.binary), port=server.port)


@pytest.mark.parametrize(
    ("mode", "arrives"),
    [("drop_reply", True), ("truncate", True), ("close", False)],
)
def test_the_proxy_loses_one_exchange_and_then_forwards(
    proxy: Proxy, redis_client: redis.Redis, mode: Mode, *, arrives: bool
) -> None:
    with redis.Redis(port=proxy.port, retry=Retry(NoBackoff(), 0), protocol=2) as client:
        client.ping()
        proxy.arm(mode, matching=b"SET")

        with pytest.raises(redis.ConnectionError):
            client.set("harness", b"1" * 10)

        assert redis_client.exists("harness") == arrives
        assert client.set("harness", b"2")
    redis_client.delete("harness")


@pytest.mark.parametrize(("mode", "arrives"), [("silent", True), ("blackhole", False)])
def test_a_silent_proxy_ends_in_a_timeout(
    proxy: Proxy, redis_client: redis.Redis, mode: Mode, *, arrives: bool
) -> None:
    with redis.Redis(
        port=proxy.port, socket_timeout=0.1, retry=Retry(NoBackoff(), 0), protocol=2
    ) as client:
        client.ping()
        proxy.arm(mode, matching=b"SET")

        with pytest.raises(redis.TimeoutError):
            client.set("harness", b"1")

    assert redis_client.delete("harness") == arrives


def test_the_monitor_shows_what_clients_send_byte_for_byte(
    redis_client: redis.Redis, monitor: Callable[[], AbstractContextManager[Recording]]
) -> None:
    odd = b'a "quoted" \\ \x00\xff\r\n\t end'

    with monitor() as recording:
        redis_client.eval("redis.call('GET', KEYS[1])", 1, odd)

    assert recording.commands == [(b"EVAL", b"redis.call('GET', KEYS[1])", b"1", odd)]


def _wait_for(condition: Callable[[], bool], *, timeout_s: float = 5.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)  # poll, with the deadline above
