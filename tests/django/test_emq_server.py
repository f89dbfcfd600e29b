"""`manage.py emq_server` becomes a server, or says why it does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.core.management import CommandError, call_command

from emq_django.embedded import LOOPBACK, ping
from tests.servers import free_port

if TYPE_CHECKING:
    from pytest_django import Settings

    from tests.servers import Server

Exec = list[tuple[Path, list[str]]]


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> Exec:
    calls: Exec = []
    monkeypatch.setattr(os, "execv", lambda path, arguments: calls.append((path, arguments)))
    return calls


def test_the_process_becomes_the_server_and_ends_cleanly_on_sigterm(
    server: Server, tmp_path: Path
) -> None:
    port = free_port()
    command = [sys.executable, "-m", "django", "emq_server", "--binary", str(server.binary)]
    command += ["--port", str(port), "--data-dir", str(tmp_path / "data")]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        deadline = time.monotonic() + 20
        while not ping((LOOPBACK, port)):
            assert time.monotonic() < deadline, "the server did not come up"
            assert process.poll() is None
            time.sleep(0.02)  # poll, with the deadline above

        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=20)

    assert process.returncode == 0
    assert f"{server.binary.name} at {LOOPBACK}:{port}" in output
    assert f"look for the queue at {LOOPBACK}:{server.port}, not here" in output
    assert list((tmp_path / "data").rglob("*.aof")), "no append-only file was written"
    assert (tmp_path / "data" / ".gitignore").read_text() == "*\n"


def test_a_second_start_says_that_a_server_is_running(
    server: Server, executed: Exec, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("emq_server", binary=str(server.binary))

    assert f"already running at {LOOPBACK}:{server.port}" in capsys.readouterr().out
    assert executed == []


def test_it_listens_where_the_settings_look(
    settings: Settings, tmp_path: Path, executed: Exec
) -> None:
    port = free_port()
    settings.EMQ = {"CONNECTION": f"redis://localhost:{port}/1"}

    call_command("emq_server", binary=sys.executable, data_dir=tmp_path)

    [(_, arguments)] = executed
    assert arguments[arguments.index("--port") + 1] == str(port)


def test_it_listens_on_the_socket_where_the_settings_look(
    settings: Settings, tmp_path: Path, executed: Exec
) -> None:
    path = tmp_path / "s"
    settings.CACHES = {
        "default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": f"unix://{path}"}
    }
    settings.EMQ = {}

    call_command("emq_server", binary=sys.executable, data_dir=tmp_path)

    [(_, arguments)] = executed
    assert arguments[arguments.index("--unixsocket") + 1] == str(path)
    assert arguments[arguments.index("--port") + 1] == "0"


def test_it_says_so_when_the_queue_is_on_another_machine(
    settings: Settings,
    tmp_path: Path,
    executed: Exec,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.EMQ = {"CONNECTION": "redis://queue.example.com:7000/0"}
    monkeypatch.setattr("emq_django.embedded.ping", lambda address: False)

    call_command("emq_server", binary=sys.executable, data_dir=tmp_path)

    assert "look for the queue at queue.example.com:7000, not here" in capsys.readouterr().err
    assert "6379" in executed[0][1]


def test_a_missing_binary_is_a_command_error() -> None:
    with pytest.raises(CommandError, match="no-such-server"):
        call_command("emq_server", binary="no-such-server")


@pytest.mark.parametrize("name", ["a-file", "a-file/below"])
def test_a_data_folder_that_cannot_be_made_is_a_command_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "a-file").write_bytes(b"")
    monkeypatch.setattr("emq_django.embedded.ping", lambda address: False)

    with pytest.raises(CommandError, match=r"--data-dir '.*a-file.*' can't be made: "):
        call_command("emq_server", binary=sys.executable, data_dir=tmp_path / name)
