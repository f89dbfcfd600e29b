"""The user that docs/reference/wire.md proposes may do all that is needed, and little else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redis.exceptions import NoPermissionError

from emq_django.wire.fence import greeting
from emq_django.wire.sync import Wire
from tests.samples import SAMPLES, fill
from tests.speakers import kept_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emq_django.protocol.keyspace import Queue
    from tests.servers import Server

PAGE = Path(__file__).parents[2] / "docs/reference/wire.md"
RULES = re.search(r"^ACL SETUSER emq (.*)$", PAGE.read_text("utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def user(engine: Server) -> Iterator[dict[str, Any]]:
    """Make the user on this server and return the options of its connections."""
    assert RULES is not None
    with engine.client() as admin:
        rules = RULES[1].replace("SECRET", "secret").split()
        admin.execute_command("ACL", "SETUSER", "emq", *rules)
        yield {"username": "emq", "password": "secret"}
        admin.execute_command("ACL", "DELUSER", "emq")


@pytest.mark.parametrize("name", SAMPLES)
def test_the_user_may_run_every_script(
    engine: Server, client: Any, bare_q: Queue, user: dict[str, Any], name: str
) -> None:
    client.script_flush()  # it has to load the script too
    kept = kept_client(engine.port, **user)
    for sample in SAMPLES[name]:
        fill(client, bare_q, name)

        Wire(kept, 4).run(sample(bare_q))
    kept.close()


def test_the_user_may_pass_the_fence_and_wait_as_a_worker_does(
    engine: Server, user: dict[str, Any], bare_q: Queue
) -> None:
    with engine.client(**user) as raw:
        steps = greeting("echomq:3.0.0")
        command = next(steps)
        assert raw.execute_command(*command) in {None, b"echomq:3.0.0"}
        raw.client_setname("emq-worker")
        number = raw.client_id()
        raw.execute_command("CLIENT", "LIST", "ID", number)
        assert raw.execute_command("CLIENT", "KILL", "ID", 2**40) == 0
        raw.execute_command("HELLO", 3)
        raw.execute_command("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", bare_q.base)
        raw.execute_command("CLIENT", "TRACKING", "OFF")
        raw.ping()
        raw.blpop([bare_q.base + b"wake"], timeout=0.01)


@pytest.mark.parametrize(
    "command",
    [
        ("FLUSHDB",), ("KEYS", "*"), ("GET", "session:1"), ("SET", "emqx", "1"),
        ("CONFIG", "SET", "maxmemory", "1"), ("EVAL", "return 1", 0), ("SHUTDOWN",),
        ("SCRIPT", "FLUSH"), ("PUBLISH", "other", "x"), ("ACL", "LIST"),
    ],
    ids=lambda command: command[0],
)  # fmt: skip
def test_the_user_may_not_touch_anything_else(
    engine: Server, user: dict[str, Any], command: tuple[Any, ...]
) -> None:
    with engine.client(**user) as raw, pytest.raises(NoPermissionError):
        raw.execute_command(*command)
