"""A server that refuses a script's own commands: at its memory limit, or for a restricted user."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from emq_django import errors
from emq_django.protocol import scripts
from tests.conformance.conserved import check_conserved
from tests.queue_state import read_state
from tests.samples import SAMPLES, fill
from tests.servers import start_server
from tests.speakers import SyncSpeaker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emq_django.protocol.keyspace import Queue
    from tests.servers import Server

CASES = [
    pytest.param(name, number, id=f"{name}-{number}")
    for name, calls in SAMPLES.items()
    for number in range(len(calls))
]
# Ways in, and what only adds: refused before anything is written.
REFUSED_WHEN_FULL = {
    "enqueue", "enqueue_lane", "enqueue_many", "schedule", "repeat_register", "repeat_fire",
    "pause", "progress", "add_log", "update_payload",
}  # fmt: skip
# Ways on and out: a server that is full is emptied by them, and a running job keeps its lease.
GO_ON_WHEN_FULL = {
    "claim", "take", "complete", "complete_many", "retry", "release", "delay", "extend",
    "extend_many", "promote", "reap", "trim_dead", "reprocess", "remove", "drain", "obliterate",
    "reassign", "resume", "lane_resume", "repeat_cancel", "counts", "page", "row", "state", "logs",
    "lane_depths", "repeat_due", "registered",
}  # fmt: skip


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_full_server_is_emptied_and_takes_nothing_new(
    sync_speaker: SyncSpeaker, client: Any, bare_q: Queue, name: str, number: int
) -> None:
    call = SAMPLES[name][number](bare_q)
    sync_speaker.run(SAMPLES[name][number](bare_q))  # its script is in the cache
    before = fill(client, bare_q, name)
    client.config_set("maxmemory", 1)
    try:
        outcome: Any = sync_speaker.run(call)
    except errors.ServerFull as exc:
        outcome = exc
    finally:
        client.config_set("maxmemory", 0)

    after = read_state(client, bare_q)
    if isinstance(outcome, errors.ServerFull):
        assert name not in GO_ON_WHEN_FULL
        assert after == before
    else:
        assert name not in REFUSED_WHEN_FULL
        check_conserved(name, before, after, outcome)


WRITES = frozenset(
    re.findall(
        r"\w+",
        """
        DEL HDEL HINCRBY HSET LMOVE LPUSH LREM LTRIM PEXPIRE PUBLISH RENAME RPUSH SADD SET SREM
        UNLINK ZADD ZPOPMIN ZREM ZREMRANGEBYRANK
        """,
    )
)


@pytest.fixture(scope="module")
def guarded(engine: Server) -> Iterator[Server]:
    """A server of its own: the user `u` stands in the server's list of users."""
    server = start_server(binary=str(engine.binary))
    yield server
    server.close()


@pytest.fixture(scope="module")
def restricted(guarded: Server) -> Iterator[SyncSpeaker]:
    with guarded.client() as client:
        client.execute_command("ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all")
    speaker = SyncSpeaker(guarded.port, username="u", password="p")
    yield speaker
    speaker.close()


@pytest.mark.parametrize(
    ("name", "number"), [case for case in CASES if case.values[0] != "obliterate"]
)
def test_a_user_who_may_not_read_costs_no_job(
    restricted: SyncSpeaker, guarded: Server, bare_q: Queue, name: str, number: int
) -> None:
    """Reads come before writes; where a script goes from job to job, a job is moved as a whole.

    Writes are another matter: what a script has taken out of one set it can't put into the next
    without ZADD. A user of this package needs every command in WRITES.
    """
    with guarded.client() as client:
        for command in sorted(_commands(name, client) - WRITES):
            client.execute_command("ACL", "SETUSER", "u", "+@all", f"-{command.lower()}")
            before = fill(client, bare_q, name)
            try:
                outcome: Any = restricted.run(SAMPLES[name][number](bare_q))
            except errors.AccessRefused as exc:
                outcome = exc
            after = read_state(client, bare_q)
            check_conserved(name, before, after, outcome)
            if command == "TIME" and isinstance(outcome, errors.AccessRefused):
                assert after == before


@pytest.mark.parametrize("name", SAMPLES)
def test_a_user_who_may_not_write_is_refused_before_the_first_write(
    restricted: SyncSpeaker, guarded: Server, bare_q: Queue, name: str
) -> None:
    with guarded.client() as client:
        rules = [f"-{command.lower()}" for command in WRITES]
        client.execute_command("ACL", "SETUSER", "u", "+@all", *rules)
        before = fill(client, bare_q, name)
        try:
            restricted.run(SAMPLES[name][0](bare_q))
        except errors.AccessRefused:
            assert _commands(name, client) & WRITES

        assert read_state(client, bare_q) == before


def _commands(name: str, client: Any) -> set[str]:
    """Return the commands that a script may run: capitals that the server knows as commands."""
    code = re.sub(r"--[^\n]*", "", scripts.load(name).text)
    words = sorted(set(re.findall(r"'([A-Z]{3,})'", code)))
    known = client.execute_command("COMMAND INFO", *words) if words else []
    return {info[0].decode().upper() for info in known if info}
