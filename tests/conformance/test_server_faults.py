"""A server that refuses: each fault is a typed error at once, or waited out until the deadline."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import redis

from emq_django import EmqError, Verdict
from emq_django.conf import keys
from emq_django.errors import (
    AccessRefused,
    NotReplicated,
    PersistenceFailed,
    ReplyLost,
    ServerBusy,
    ServerFull,
    ServerReadOnly,
    Unreachable,
)
from tests.engines import BINARIES, name_of, own_server
from tests.faces import FACES, Face
from tests.queue_state import check_invariants
from tests.servers import free_port, start_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import Settings

    from tests.servers import Server

QUEUE = "emails"

pytestmark = pytest.mark.usefixtures("server")


class Fault(NamedTuple):
    """How a server is made to refuse writes and put right again, and what it must be called."""

    begin: Callable[[redis.Redis], object]
    end: Callable[[redis.Redis], object]
    error: type[EmqError]


def _config(client: Any, name: str, value: str) -> None:
    client.config_set(name, value)


def _command(client: Any, *words: str) -> None:
    client.execute_command(*words)


def _fail_to_save(client: Any) -> None:
    """Let the server notice that it can't write its snapshot: a folder stands in the way."""
    client.config_set("save", "3600 1")
    place = _snapshot(client)
    place.unlink(missing_ok=True)
    place.mkdir()
    (place / "in the way").touch()
    _save(client, "err")


def _save_again(client: Any) -> None:
    place = _snapshot(client)
    (place / "in the way").unlink()
    place.rmdir()
    _save(client, "ok")
    client.config_set("save", "")


def _snapshot(client: Any) -> Path:
    return Path(client.config_get("dir")["dir"], client.config_get("dbfilename")["dbfilename"])


def _save(client: Any, wanted: str) -> None:
    client.bgsave()
    _until(
        lambda: (
            (info := client.info("persistence"))["rdb_last_bgsave_status"] == wanted
            and not info["rdb_bgsave_in_progress"]
        )
    )


def _until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)  # poll, with the deadline above


PASSING = {
    "readonly": Fault(
        lambda client: _command(client, "REPLICAOF", "127.0.0.1", str(free_port())),
        lambda client: _command(client, "REPLICAOF", "NO", "ONE"),
        ServerReadOnly,
    ),
    "noreplicas": Fault(
        lambda client: _config(client, "min-replicas-to-write", "1"),
        lambda client: _config(client, "min-replicas-to-write", "0"),
        NotReplicated,
    ),
}
STAYING = {
    "oom": Fault(
        lambda client: _config(client, "maxmemory", "1"),
        lambda client: _config(client, "maxmemory", "0"),
        ServerFull,
    ),
    "misconf": Fault(_fail_to_save, _save_again, PersistenceFailed),
    "noperm": Fault(
        lambda client: _command(client, "ACL", "SETUSER", "default", "-evalsha"),
        lambda client: _command(client, "ACL", "SETUSER", "default", "+evalsha"),
        AccessRefused,
    ),
    "noperm-keys": Fault(
        lambda client: _command(client, "ACL", "SETUSER", "default", "resetkeys", "~other:*"),
        lambda client: _command(client, "ACL", "SETUSER", "default", "allkeys"),
        AccessRefused,
    ),
}
ADMIT: dict[str, Callable[[Face], list[Any]]] = {
    "one": lambda face: [face.enqueue(QUEUE, b"x")],
    "bulk": lambda face: face.enqueue_many(QUEUE, [b"x"] * 150),
}


@pytest.fixture(scope="module", params=BINARIES, ids=name_of)
def faulty(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of this module, whole again after each test."""
    server = start_server(binary=str(request.param))
    yield server
    server.close()


@pytest.fixture
def client(faulty: Server) -> Iterator[redis.Redis]:
    with faulty.client() as raw:
        yield raw
        raw.flushall()


@pytest.fixture
def project(faulty: Server, settings: Settings) -> Callable[..., None]:
    """Point the project's queues at that server."""

    def use(**emq: Any) -> None:
        settings.EMQ = {**settings.EMQ, "CONNECTION": faulty.url, **emq}

    return use


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest, project: Callable[..., None]) -> Iterator[Face]:
    project()
    one = Face(request.param)
    yield one
    one.close()


@contextmanager
def later(seconds: float, act: Callable[[], object]) -> Iterator[None]:
    """Do something from another thread while the block runs; done when it ends."""
    timer = threading.Timer(seconds, act)
    timer.start()
    yield
    timer.join()


@pytest.mark.parametrize("admit", ADMIT)
@pytest.mark.parametrize("name", PASSING)
def test_a_fault_that_ends_in_time_is_waited_out(
    face: Face, client: redis.Redis, name: str, admit: str
) -> None:
    fault = PASSING[name]
    ADMIT[admit](face)
    before = client.zcard(keys(QUEUE).pending)
    fault.begin(client)

    with later(0.2, lambda: fault.end(client)):
        receipts = ADMIT[admit](face)

    assert {receipt.verdict for receipt in receipts} == {Verdict.ENQUEUED}
    assert client.zcard(keys(QUEUE).pending) == before + len(receipts)
    check_invariants(client, keys(QUEUE))


@pytest.mark.parametrize("admit", ADMIT)
@pytest.mark.parametrize("name", PASSING)
def test_a_fault_that_stays_is_its_own_error_at_the_deadline(
    face: Face, client: redis.Redis, project: Callable[..., None], name: str, admit: str
) -> None:
    fault = PASSING[name]
    project(ENQUEUE_DEADLINE_S=0.4)
    ADMIT[admit](face)
    before = client.zcard(keys(QUEUE).pending)
    fault.begin(client)

    try:
        began_s = time.monotonic()
        with pytest.raises(fault.error) as caught:
            ADMIT[admit](face)
        took_s = time.monotonic() - began_s
    finally:
        fault.end(client)

    assert type(caught.value) is fault.error
    assert 0.3 < took_s < 5  # the connection's own time, which it must not wait for
    assert client.zcard(keys(QUEUE).pending) == before
    assert {receipt.verdict for receipt in ADMIT[admit](face)} == {Verdict.ENQUEUED}


@pytest.mark.parametrize("admit", ADMIT)
@pytest.mark.parametrize("name", STAYING)
def test_a_fault_that_does_not_pass_is_told_at_once(
    face: Face, client: redis.Redis, name: str, admit: str
) -> None:
    fault = STAYING[name]
    ADMIT[admit](face)
    before = client.zcard(keys(QUEUE).pending)
    fault.begin(client)
    try:
        began_s = time.monotonic()
        with pytest.raises(fault.error) as caught:
            ADMIT[admit](face)
        took_s = time.monotonic() - began_s
    finally:
        fault.end(client)

    assert type(caught.value) is fault.error
    assert took_s < 5  # the deadline, to which it would be tried again
    assert client.zcard(keys(QUEUE).pending) == before
    check_invariants(client, keys(QUEUE))
    assert {receipt.verdict for receipt in ADMIT[admit](face)} == {Verdict.ENQUEUED}


@pytest.mark.parametrize("name", PASSING | STAYING)
def test_a_claim_and_a_settlement_tell_at_once_and_move_nothing(
    face: Face, client: redis.Redis, name: str
) -> None:
    fault = (PASSING | STAYING)[name]
    receipts = face.enqueue_many(QUEUE, [b"x"] * 2)
    job = face.claim(QUEUE)
    fault.begin(client)
    try:
        outcomes = [_outcome(lambda: face.claim(QUEUE)), _outcome(lambda: face.complete(job))]
    finally:
        fault.end(client)

    held = check_invariants(client, keys(QUEUE))
    if fault.error is ServerFull:  # a full server can be emptied
        assert outcomes[0].id == receipts[1].id
        assert outcomes[1] is Verdict.COMPLETED
    else:
        assert [type(one) for one in outcomes] == [fault.error] * 2
        assert [held.place(one.id) for one in receipts] == [["active"], ["pending"]]
        assert face.complete(job) is Verdict.COMPLETED


# --- a long script -------------------------------------------------------------------------------


@contextmanager
def a_long_script(server: Server, client: Any, seconds: float) -> Iterator[None]:
    """Hold the server for a while; the block begins when it answers BUSY to others."""
    client.config_set("lua-time-limit", "20")

    def hold() -> None:
        with server.client(socket_timeout=30) as holder, pytest.raises(redis.ResponseError):
            holder.eval("while true do end", 0)

    def let_go() -> None:
        with server.client(socket_timeout=30) as killer:
            killer.script_kill()

    thread = threading.Thread(target=hold)
    thread.start()
    _until(lambda: _is_busy(client))
    with later(seconds, let_go):
        yield
    thread.join()


def _is_busy(client: Any) -> bool:
    try:
        client.ping()
    except redis.ResponseError as exc:
        return "BUSY" in str(exc)
    return False


@pytest.mark.parametrize("admit", ADMIT)
def test_a_long_script_is_waited_out(
    face: Face, faulty: Server, client: redis.Redis, admit: str
) -> None:
    with a_long_script(faulty, client, 0.4):
        receipts = ADMIT[admit](face)

    assert {receipt.verdict for receipt in receipts} == {Verdict.ENQUEUED}
    assert client.zcard(keys(QUEUE).pending) == len(receipts)


def test_a_script_that_is_longer_than_the_deadline_is_a_busy_server(
    face: Face, faulty: Server, client: redis.Redis, project: Callable[..., None]
) -> None:
    project(ENQUEUE_DEADLINE_S=0.2)

    with a_long_script(faulty, client, 1), pytest.raises(ServerBusy, match="BUSY"):
        face.enqueue(QUEUE, b"x")

    assert client.zcard(keys(QUEUE).pending) == 0


# --- a server that starts ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deadline_s", "error"),
    [(10, None), (0.3, (ServerBusy, Unreachable))],
    ids=["waits", "gives up"],
)
def test_a_server_that_loads_its_data(
    client: redis.Redis, faulty: Server, settings: Settings, deadline_s: float, error: Any
) -> None:
    # Some 300 commands at 5 ms. Redis 6.2 is silent meanwhile, the others say LOADING.
    slowly = ["--key-load-delay", "5000"]
    answers = "loading-process-events-interval-bytes"
    if client.config_get(answers):
        slowly += [f"--{answers}", "1024"]
    with own_server(
        faulty.binary, settings, *slowly, appendonly=True, ENQUEUE_DEADLINE_S=deadline_s
    ) as server:
        face = Face("sync")
        first = face.enqueue_many(QUEUE, [b"x" * 100] * 300)
        outcome: list[Any] = []

        def meet_it_on_its_way_up() -> None:
            _until(lambda: _listens(server.port))
            outcome.append(_outcome(lambda: face.enqueue(QUEUE, b"late")))

        thread = threading.Thread(target=meet_it_on_its_way_up)

        server.stop()
        thread.start()
        server.start()  # returns when the server answers
        thread.join()

        (late,) = outcome
        with server.client() as client:
            held = check_invariants(client, keys(QUEUE))
        assert all(held.place(receipt.id) == ["pending"] for receipt in first)
        if error is None:
            assert held.place(late.id) == ["pending"]
        else:
            assert isinstance(late, error)
            assert len(held.rows) in ({300, 301} if isinstance(late, ReplyLost) else {300})


def _outcome(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except EmqError as exc:
        return exc


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True
