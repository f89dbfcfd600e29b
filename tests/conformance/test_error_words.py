"""Every word a real server refuses with, and the error it becomes."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import redis

from emq_django import errors
from emq_django.protocol import claim, enqueue, ids, keyspace, settle
from emq_django.protocol.records import ClaimedJob
from tests.servers import Server, start_server
from tests.speakers import EXECUTORS, speak
from tests.topologies import start_cluster, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from emq_django.errors import EmqError
    from tests.speakers import Executor, Speaker

Q = keyspace.queue("words")
ID = "JOB0KHTOWnGLuC"
ENQUEUE = enqueue.enqueue(Q, ID, b"payload")


@pytest.fixture
def another(engine: Server) -> Iterator[Callable[..., Server]]:
    """Start a server of the same kind with further arguments."""
    started: list[Server] = []

    def start(*args: str) -> Server:
        started.append(start_server(*args, binary=str(engine.binary)))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture(params=EXECUTORS)
def talk(request: pytest.FixtureRequest) -> Iterator[Callable[..., Speaker]]:
    """Return a speaker to a server."""
    speakers: list[Speaker] = []

    def start(server: Server, **options: Any) -> Speaker:
        executor: Executor = request.param
        speakers.append(speak(executor, server.port, **options))
        return speakers[-1]

    yield start
    for speaker in speakers:
        speaker.close()


def refused(speaker: Speaker, error: type[EmqError], text: str, call: Any = ENQUEUE) -> None:
    """Assert that a Call is refused in a trip of its own, and in place in a flush."""
    with pytest.raises(error, match=text) as caught:
        speaker.run(call)
    assert type(caught.value) is error
    assert isinstance(caught.value.__cause__, redis.RedisError)
    assert [type(one) for one in speaker.run_many([call, call])] == [error, error]


def test_a_replica_is_read_only(
    another: Callable[..., Server], talk: Callable[..., Speaker]
) -> None:
    server = another("--replicaof", "127.0.0.1", "1")
    speaker = talk(server)

    refused(speaker, errors.ServerReadOnly, "read only replica")

    with server.client() as client:
        assert client.dbsize() == 0
        client.config_set("replica-serve-stale-data", "no")
        refused(speaker, errors.ServerBusy, "MASTER")


def test_a_server_at_its_memory_limit_is_full(
    another: Callable[..., Server], talk: Callable[..., Speaker]
) -> None:
    server = another("--maxmemory", "1")

    refused(talk(server), errors.ServerFull, "maxmemory")


def test_a_server_that_cannot_save_takes_no_writes(
    another: Callable[..., Server], talk: Callable[..., Speaker]
) -> None:
    server = another("--save", "900", "1")
    with server.client() as client:
        shutil.rmtree(server.data_dir)
        client.bgsave()
        wait_until(
            lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err", "a failed save"
        )

        refused(talk(server), errors.PersistenceFailed, "MISCONF")


def test_a_server_without_its_replicas_takes_no_writes(
    another: Callable[..., Server], talk: Callable[..., Speaker]
) -> None:
    server = another("--min-replicas-to-write", "1")

    refused(talk(server), errors.NotReplicated, "NOREPLICAS")


@contextmanager
def in_background(work: Callable[[], Any]) -> Iterator[None]:
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join(30)


def test_a_server_that_runs_a_long_script_is_busy(
    another: Callable[..., Server], talk: Callable[..., Speaker]
) -> None:
    server = another("--lua-time-limit", "5")
    speaker = talk(server)
    with server.client() as busy, server.client() as other:

        def loop() -> None:
            with pytest.raises(redis.ResponseError, match=r"(?i)killed"):
                busy.eval("while true do end", 0)

        with in_background(loop):
            try:
                wait_until(lambda: _is(speaker, errors.ServerBusy), "a busy server")
                refused(speaker, errors.ServerBusy, "BUSY")
            finally:
                other.execute_command("SCRIPT", "KILL")

    assert speaker.run(ENQUEUE)


def test_a_server_that_loads_its_data_is_busy(
    another: Callable[..., Server], talk: Callable[..., Speaker], engine: Server
) -> None:
    with engine.client() as client:
        old = client.info("server")["redis_version"] < "7"
    server = another(*(() if old else ("--enable-debug-command", "yes")))
    speaker = talk(server)
    with server.client(socket_timeout=None) as loading, server.client() as other:
        if not old:  # there it can't be set: others are heard after each 2 MB
            loading.config_set("loading-process-events-interval-bytes", "1024")
        loading.config_set("key-load-delay", "5000" if old else "20000")  # us
        for number in range(400 if old else 100):
            loading.set(f"key{number}", os.urandom(65_536 if old else 1_024))  # not compressible

        with in_background(lambda: loading.execute_command("DEBUG", "RELOAD")):
            wait_until(lambda: _is(speaker, errors.ServerBusy), "a loading server")
            refused(speaker, errors.ServerBusy, r"(?i)loading")
            if not old:  # there it ends by itself, after two seconds
                other.config_set("key-load-delay", "0")


def _is(speaker: Speaker, error: type[EmqError]) -> bool:
    try:
        speaker.run(claim.claim(Q, 1_000))
    except error:
        return True
    return False


def test_a_user_who_may_not_run_scripts_is_refused(
    another: Callable[..., Server], talk: Callable[..., Speaker]
) -> None:
    server = another()
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-evalsha")

    refused(talk(server, username="u", password="p"), errors.AccessRefused, "(?i)permission")


@pytest.mark.parametrize("rule", ["-exists", "resetkeys"])
def test_a_user_who_may_not_run_a_command_inside_is_refused(
    another: Callable[..., Server], talk: Callable[..., Speaker], rule: str
) -> None:
    server = another()
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", rule)

    refused(talk(server, username="u", password="p"), errors.AccessRefused, "(?i)permission|script")


def test_a_user_who_may_not_load_scripts_is_told_so_in_a_flush_too(
    another: Callable[..., Server], talk: Callable[..., Speaker]
) -> None:
    server = another()
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-script")
    speaker = talk(server, username="u", password="p")

    refused(speaker, errors.AccessRefused, "(?i)permission")

    with server.client() as raw:
        raw.script_load(ENQUEUE.script.text)
    assert speaker.run_many([ENQUEUE])  # somebody else has loaded it
    assert speaker.run(ENQUEUE)


def test_a_missing_or_wrong_password_is_an_access_error(
    another: Callable[..., Server], talk: Callable[..., Speaker]
) -> None:
    server = another("--requirepass", "secret")

    refused(talk(server), errors.LoginRefused, "(?i)authentication")
    refused(talk(server, password="wrong"), errors.LoginRefused, "(?i)password|invalid")
    refused(talk(server, protocol=3), errors.LoginRefused, "(?i)auth")
    assert talk(server, password="secret").run(ENQUEUE)


def test_a_key_of_another_type_is_a_wrong_type(speaker: Speaker, client: Any, bare_q: Any) -> None:
    client.set(bare_q.pending, b"x")

    refused(speaker, errors.WrongType, "WRONGTYPE", claim.claim(bare_q, 1_000))


def test_the_words_of_our_own_scripts(speaker: Speaker, client: Any, q: Any) -> None:
    job = ClaimedJob(ids.mint.one(), b"", 1, q.name)
    extending = settle.extend(q, job, 1_000)
    client.hset(q.row(job.id), "attempts", "2")

    refused(speaker, errors.KindRefused, "EMQKIND", enqueue.enqueue(q, "ORD0KHTOWnGLuC", b""))
    refused(speaker, errors.ScriptFailed, "EMQARG", claim.claim(q, 1)._replace(args=("x",)))
    refused(speaker, errors.ScriptFailed, "EMQSTALE", extending._replace(refusal=None))
    client.delete(q.row(job.id))


def test_a_closed_port_is_unreachable_and_nothing_was_sent(
    another: Callable[..., Server], talk: Callable[..., Speaker]
) -> None:
    server = another()
    server.stop()

    refused(talk(server), errors.Unreachable, "no connection")


@pytest.mark.slow
def test_the_words_of_a_cluster(engine: Server, talk: Callable[..., Speaker]) -> None:
    cluster = start_cluster(masters=2, binary=str(engine.binary))
    try:
        here = keyspace.slot(Q.base) * 2 // 16_384
        owner, other = cluster.nodes[here], cluster.nodes[1 - here]
        refused(talk(other), errors.WireError, "node of a cluster")

        with owner.client() as client, other.client() as target:
            name = target.execute_command("CLUSTER", "MYID").decode()
            client.zadd(Q.pending, {"JOB00000000001": 0})
            client.execute_command("CLUSTER", "SETSLOT", keyspace.slot(Q.base), "MIGRATING", name)
            # Redis 6.2 sends on as soon as one key is missing; later ones tell half a move apart.
            old = client.info("server")["redis_version"] < "7"
            refused(talk(owner), errors.WireError if old else errors.ServerBusy, r"\w")
            client.execute_command("CLUSTER", "SETSLOT", keyspace.slot(Q.base), "STABLE")

            client.execute_command("CLUSTER", "DELSLOTS", keyspace.slot(Q.base))
            refused(talk(owner), errors.ServerBusy, r"\w")
    finally:
        cluster.close()
