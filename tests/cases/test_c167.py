"""C167: what the docs propose lets nobody in, and a server that turns replica stops no worker."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.conf import settings
from django.test import override_settings
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError

from emq_django import api, enqueue
from emq_django.connections import close_all
from emq_django.embedded import LOOPBACK, ServerOptions
from emq_django.errors import AccessRefused
from emq_django.task_backend.compat import TaskResultStatus
from emq_django.workers import worker_for
from tests.operating.shell import run_here
from tests.task_backend import zoo
from tests.task_backend.conftest import TASKS
from tests.worker.processes import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers import Server
    from tests.worker.processes import Bench

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/harden-a-server.md").read_text("utf-8")
USERS, SERVER, COMPOSE, TLS = re.findall(r"```(?:text|yaml)\n(.*?)```", PAGE, re.DOTALL)
TEXTS = [
    ROOT / "README.md",
    *(ROOT / "docs").rglob("*.md"),
    *(one for one in (ROOT / "example_project").rglob("*") if one.suffix in {".py", ".md", ".yml"}),
]


@pytest.fixture
def hardened(fresh_server: Callable[..., Server], tmp_path: Path) -> Iterator[Server]:
    """A server with the page's users and its configuration."""
    users = tmp_path / "users.acl"
    users.write_text(USERS)
    lines = SERVER.replace("/etc/emq/users.acl", str(users)).splitlines()
    # What the fixture decides for every server (its own folder and address) stays as it is.
    chosen = [line for line in lines if not line.startswith(("bind", "protected", "append"))]
    arguments = [word.strip('"') for line in chosen for word in f"--{line}".split()]
    yield fresh_server(*arguments, appendonly=True)
    close_all()


def test_the_user_of_the_page_does_all_that_a_project_needs(hardened: Server) -> None:
    url = hardened.url.replace("//", "//emq:SECRET@")
    emq = {"CONNECTION": url, "QUEUES": {"mail": {"HANDLER": "builtins.repr"}, "tasks": {}}}
    with override_settings(EMQ={**emq, "SIGN_PAYLOADS": True}, TASKS=TASKS):
        enqueue("mail", b"x")
        enqueue("mail", b"x", lane="USR0KHTOWnGLuC")
        api.enqueue_at("mail", b"x", 1)
        result = zoo.add.using(queue_name="tasks").enqueue(1, b=2)
        shown = [run_here("emq_queues"), run_here("emq_health"), run_here("emq_doctor", "--fix")]
        worker_for(["mail", "tasks"], burst=True).run()
        result.refresh()

    assert [one.text for one in shown if one.code] == []
    assert "may not run" not in shown[2].out
    assert "SECRET" not in "".join(one.text for one in shown)
    assert result.status == TaskResultStatus.SUCCESSFUL


@pytest.mark.parametrize(
    "command",
    [
        "REPLICAOF 127.0.0.1 1", "SLAVEOF NO ONE", "CONFIG SET dir /tmp", "CONFIG GET dir",
        "FLUSHALL", "FLUSHDB", "KEYS *", "SHUTDOWN NOSAVE", "MIGRATE 127.0.0.1 1 k 0 1", "SAVE",
        "ACL LIST", "SCRIPT FLUSH", "GET session:1", "SET emqx 1", "SUBSCRIBE other",
    ],
)  # fmt: skip
def test_the_user_of_the_page_can_do_no_harm(hardened: Server, command: str) -> None:
    with hardened.client(username="emq", password="SECRET") as client:
        assert client.ping()
        with pytest.raises(NoPermissionError):
            client.execute_command(*command.split())


def test_nobody_gets_in_without_a_name_and_what_is_taken_away_is_gone(hardened: Server) -> None:
    with hardened.client() as client, pytest.raises(AuthenticationError):
        client.ping()
    with override_settings(EMQ={"CONNECTION": hardened.url}), pytest.raises(AccessRefused):
        enqueue("mail", b"x")
    with hardened.client(username="operator", password="OPERATOR-SECRET") as client:
        for command in ("DEBUG SLEEP 0", "MODULE LIST"):
            with pytest.raises(ResponseError, match="unknown command"):
                client.execute_command(*command.split())
        assert "noeviction" in str(client.config_get("maxmemory-policy"))


def test_the_page_s_users_are_those_of_the_wire() -> None:
    wire = (ROOT / "docs/reference/wire.md").read_text("utf-8")
    rules = re.search(r"^ACL SETUSER emq (.*)$", wire, re.MULTILINE)

    assert rules is not None
    assert f"user emq {rules[1]}" in USERS.splitlines()


def test_what_is_shown_binds_to_this_machine_and_has_a_password(tmp_path: Path) -> None:
    ours = ServerOptions(data_dir=tmp_path, port=6379).arguments()
    published = re.findall(r'^ +- "([^"]*6379)"$', COMPOSE, re.MULTILINE)

    assert ours[ours.index("--bind") + 1] == LOOPBACK
    assert published
    assert all(one.startswith(f"{LOOPBACK}:") for one in published)
    assert "users.acl" in COMPOSE
    assert f"bind {LOOPBACK}" in SERVER.splitlines()
    assert "user default off" in USERS.splitlines()
    assert "port 0" in TLS.splitlines()
    assert 'os.environ["QUEUE_URL"]' in PAGE
    for path in TEXTS:
        shown = [line for line in path.read_text("utf-8").splitlines() if "0.0.0.0" in line]
        assert all("never `0.0.0.0`" in line for line in shown), path


def test_a_worker_outlives_a_server_that_is_a_replica_for_a_while(
    bench: Bench, fresh_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = fresh_server()
    gate = tmp_path / "gate"
    bench.url = server.url
    with override_settings(EMQ={**settings.EMQ, "CONNECTION": server.url}):
        running = bench.add(wait_for=str(gate))
        worker = bench.start("--concurrency", "1")
        bench.started()
        waiting = [bench.add() for _ in range(5)]
        with server.client() as client:
            client.replicaof(LOOPBACK, "1")
            gate.touch()
            worker.wait_for_log("READONLY")  # the job has ended, and can't be reported
            client.replicaof("NO", "ONE")
        until(bench.empty, "all the work is done")
        worker.signal(signal.SIGTERM)

        assert worker.exit_code() == 0, worker.log()
        close_all()
    said = [line for line in worker.log().splitlines() if "READONLY" in line]
    assert " ERROR server " in said[0]
    assert "in trouble" in said[0]
    assert "name its master" in said[0]
    assert bench.ledger.count("start") == dict.fromkeys([running, *waiting], 1)
    assert bench.ledger.count("end") == dict.fromkeys([running, *waiting], 1)
