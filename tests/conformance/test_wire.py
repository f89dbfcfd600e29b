"""How Calls are run: scripts are loaded when they are missing, and nothing is ever sent twice."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio

from emq_django import errors
from emq_django.protocol import claim, enqueue, ids, keyspace, read, settle, upkeep
from emq_django.protocol.records import ClaimedJob, Verdict
from emq_django.wire import kept
from tests.proxy import Proxy
from tests.queue_state import read_state
from tests.servers import start_server
from tests.speakers import EXECUTORS, AsyncSpeaker, SyncSpeaker, speak
from tests.stub_server import StubServer
from tests.topologies import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from emq_django.protocol.keyspace import Queue
    from tests.monitoring import Recording
    from tests.proxy import Mode
    from tests.servers import Server
    from tests.speakers import Executor, Speaker


@pytest.fixture(params=EXECUTORS)
def executor(request: pytest.FixtureRequest) -> Executor:
    chosen: Executor = request.param
    return chosen


@pytest.fixture
def talk(executor: Executor) -> Iterator[Callable[..., Speaker]]:
    """Return a speaker of its own to a port."""
    speakers: list[Speaker] = []

    def start(port: int, **options: Any) -> Speaker:
        speakers.append(speak(executor, port, **options))
        return speakers[-1]

    yield start
    for speaker in speakers:
        speaker.close()


@pytest.fixture
def relay(engine: Server) -> Iterator[Proxy]:
    """A proxy in front of the engine; see tests/proxy.py for its modes."""
    proxy = Proxy(engine.port)
    yield proxy
    proxy.close()


def names(recording: Recording) -> list[bytes]:
    return [command[0] for command in recording.commands]


# --- Scripts --------------------------------------------------------------------------------------


def test_a_cached_script_is_not_loaded_again(
    speaker: Speaker, q: Queue, monitor: Callable[[], AbstractContextManager[Recording]]
) -> None:
    speaker.run(read.counts(q))

    with monitor() as recording:
        speaker.run(read.counts(q))

    assert names(recording) == [b"EVALSHA"]


def test_a_script_that_the_server_forgot_is_loaded_and_run_once(
    speaker: Speaker,
    client: Any,
    q: Queue,
    monitor: Callable[[], AbstractContextManager[Recording]],
) -> None:
    call = enqueue.enqueue(q, ids.mint.one(), b"payload")
    client.script_flush()

    with monitor() as recording:
        verdict = speaker.run(call)

    assert verdict is Verdict.ENQUEUED
    assert names(recording) == [b"EVALSHA", b"SCRIPT", b"EVALSHA"]


def test_a_restart_is_survived(talk: Callable[..., Speaker], engine: Server) -> None:
    server = start_server(binary=str(engine.binary))
    try:
        speaker = talk(server.port)
        call = enqueue.enqueue(keyspace.queue("restart"), ids.mint.one(), b"")
        assert speaker.run(call) is Verdict.ENQUEUED
        assert speaker.run_many([call]) == [Verdict.DUPLICATE]

        server.restart()
        try:
            first: Any = speaker.run(call)
        except errors.ReplyLost:  # the kept connection was used a moment ago: taken as it is
            first = speaker.run(call)

        assert first is Verdict.ENQUEUED  # nothing is kept by this server
        assert speaker.run_many([call]) == [Verdict.DUPLICATE]
    finally:
        server.close()


def test_a_server_that_forgets_scripts_as_fast_as_they_are_loaded_is_busy(
    talk: Callable[..., Speaker], q: Queue
) -> None:
    missing, loaded = b"-NOSCRIPT No matching script.\r\n", b"$1\r\nx\r\n"
    call = read.counts(q)
    with StubServer([missing, loaded] * 9) as stub:
        with pytest.raises(errors.ServerBusy):
            talk(stub.port, driver_info=None).run(call)
        assert len(stub.commands) < 9
    with StubServer([loaded, missing] * 9) as stub:
        (answer,) = talk(stub.port, driver_info=None).run_many([call])

    assert isinstance(answer, errors.ServerBusy)
    assert len(stub.commands) == 4


# --- Flushes --------------------------------------------------------------------------------------


def test_a_flush_loads_first_and_once(
    talk: Callable[..., Speaker],
    engine: Server,
    client: Any,
    q: Queue,
    monitor: Callable[[], AbstractContextManager[Recording]],
) -> None:
    calls: list[Any] = [
        *(enqueue.enqueue(q, job_id, b"") for job_id in ids.mint.many(3)),
        read.counts(q),
        claim.claim(q, 30_000),
    ]
    client.script_flush()
    speaker = talk(engine.port)

    with monitor() as recording:
        first = speaker.run_many(calls)
        again = speaker.run_many(calls)

    assert names(recording) == [b"SCRIPT"] * 3 + [b"EVALSHA"] * 10
    assert first[:3] == [Verdict.ENQUEUED] * 3
    assert again[:3] == [Verdict.DUPLICATE] * 3


def test_a_script_that_was_forgotten_between_flushes_is_loaded_and_each_call_runs_once(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    calls = [enqueue.enqueue(q, job_id, b"") for job_id in ids.mint.many(5)]
    speaker.run_many(calls[:1])
    client.script_flush()

    assert speaker.run_many(calls) == [Verdict.DUPLICATE] + [Verdict.ENQUEUED] * 4


def test_a_script_that_is_forgotten_in_the_middle_of_a_flush_is_run_again_in_place(
    talk: Callable[..., Speaker], engine: Server, client: Any, q: Queue
) -> None:
    speaker = talk(engine.port)
    calls: list[Any] = [enqueue.enqueue(q, job_id, b"") for job_id in ids.mint.many(5)]
    speaker.run_many([upkeep.promote(q), *calls[:1]])
    forget = calls[2]._replace(script=calls[2].script._replace(sha="f" * 40))
    flushing: list[Any] = [calls[0], calls[1], forget, calls[3], calls[4]]

    # An unknown digest answers NOSCRIPT in the middle; its load then gives the right script.
    answers = speaker.run_many(flushing)

    assert answers[:2] == [Verdict.DUPLICATE, Verdict.ENQUEUED]
    assert answers[3:] == [Verdict.ENQUEUED] * 2
    assert isinstance(answers[2], errors.ServerBusy)  # it is never found, and never run
    assert client.zcard(q.pending) == 4


def test_errors_stand_in_their_place(speaker: Speaker, q: Queue) -> None:
    good, bad = ids.mint.one(), "ORD0KHTOWnGLuC"
    calls: list[Any] = [
        enqueue.enqueue(q, good, b""),
        enqueue.enqueue(q, bad, b""),
        enqueue.enqueue(q, good, b""),
        settle.complete(q, settle_job(q)),
        claim.claim(q, 30_000)._replace(args=("x",)),
        claim.claim(q, 30_000),
    ]

    answers: list[Any] = speaker.run_many(calls)

    assert [type(answer) for answer in answers[1:5:3]] == [errors.KindRefused, errors.ScriptFailed]
    assert answers[0] is Verdict.ENQUEUED
    assert answers[2] is Verdict.DUPLICATE
    assert answers[3] is Verdict.GONE
    assert answers[5].id == good


def settle_job(q: Queue) -> Any:
    return ClaimedJob(ids.mint.one(), b"", 1, q.name)


def test_an_empty_flush_sends_nothing(speaker: Speaker) -> None:
    assert speaker.run_many([]) == []


def test_a_flush_of_a_thousand_calls_answers_in_order(speaker: Speaker, q: Queue) -> None:
    minted = ids.mint.many(1_000)
    speaker.run_many([enqueue.enqueue(q, job_id, b"x" * 100) for job_id in minted])

    jobs: list[Any] = speaker.run_many([claim.claim(q, 30_000)] * 1_001)

    assert [job.id for job in jobs[:-1]] == minted
    assert jobs[-1] is None


# --- Lost replies ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "arrives"),
    [("drop_reply", True), ("truncate", True), ("silent", True), ("close", False),
     ("blackhole", False)],
)  # fmt: skip
def test_a_command_without_a_reply_is_a_lost_reply_and_is_sent_once(
    talk: Callable[..., Speaker], relay: Proxy, client: Any, q: Queue, mode: Mode, *, arrives: bool
) -> None:
    speaker = talk(relay.port)
    speaker.run(enqueue.enqueue(q, ids.mint.one(), b""))  # connected, the script is there
    job_id = ids.mint.one()
    relay.arm(mode, matching=job_id.encode())

    with pytest.raises(errors.ReplyLost, match="may have run"):
        speaker.run(enqueue.enqueue(q, job_id, b"payload"), timeout_s=0.2)

    assert client.exists(q.row(job_id)) == arrives
    assert len([one for one in relay.seen if job_id.encode() in one]) == 1
    # The next command goes over a new connection and gets its own answer, not the late one.
    expected = Verdict.DUPLICATE if arrives else Verdict.ENQUEUED
    assert speaker.run(enqueue.enqueue(q, job_id, b"payload")) is expected


@pytest.mark.parametrize("mode", ["drop_reply", "silent", "close", "blackhole"])
def test_a_flush_without_replies_tells_it_for_each_call(
    talk: Callable[..., Speaker], relay: Proxy, client: Any, q: Queue, mode: Mode
) -> None:
    speaker = talk(relay.port)
    speaker.run_many([enqueue.enqueue(q, ids.mint.one(), b"")])
    calls = [enqueue.enqueue(q, job_id, b"") for job_id in ids.mint.many(3)]
    relay.arm(mode, matching=b"EVALSHA")

    answers = speaker.run_many(calls, timeout_s=0.2)

    assert [type(answer) for answer in answers] == [errors.ReplyLost] * 3
    arrived = mode in {"drop_reply", "silent"}
    assert client.zcard(q.pending) == (4 if arrived else 1)
    again = Verdict.DUPLICATE if arrived else Verdict.ENQUEUED
    assert speaker.run_many(calls) == [again] * 3


def test_a_flush_that_is_cut_half_way_keeps_the_answers_that_came(
    talk: Callable[..., Speaker], relay: Proxy, client: Any, q: Queue
) -> None:
    speaker = talk(relay.port)
    speaker.run_many([enqueue.enqueue(q, ids.mint.one(), b"")])
    calls = [enqueue.enqueue(q, job_id, b"") for job_id in ids.mint.many(8)]
    relay.arm("truncate", matching=b"EVALSHA")

    answers: list[Any] = speaker.run_many(calls)

    assert answers[:4] == [Verdict.ENQUEUED] * 4  # ":1\r\n" eight times, and half of it arrived
    assert [type(answer) for answer in answers[4:]] == [errors.ReplyLost] * 4
    assert client.zcard(q.pending) == 9


def test_a_lost_claim_leaves_the_job_leased_once(
    talk: Callable[..., Speaker], relay: Proxy, client: Any, q: Queue
) -> None:
    speaker = talk(relay.port)
    minted = ids.mint.many(2)
    speaker.run_many([enqueue.enqueue(q, job_id, b"") for job_id in minted])
    speaker.run(claim.claim(q, 30_000)._replace(args=(30_000,), keys=claim.claim(q, 1).keys))
    relay.arm("drop_reply", matching=b"EVALSHA")

    with pytest.raises(errors.ReplyLost):
        speaker.run(claim.claim(q, 30_000))

    state = read_state(client, q)
    assert [state.row(job_id)[b"attempts"] for job_id in minted] == [b"1", b"1"]
    assert client.zcard(q.active) == 2


def test_timeout_s_shortens_the_read_and_only_that(
    talk: Callable[..., Speaker], relay: Proxy, q: Queue
) -> None:
    speaker = talk(relay.port)
    speaker.run(read.counts(q))
    relay.delay_s = 4  # under the connection's own five seconds
    relay.arm("delay", matching=b"EVALSHA")
    begin = time.monotonic()

    with pytest.raises(errors.ReplyLost):
        speaker.run(read.counts(q), timeout_s=0.05)

    assert time.monotonic() - begin < relay.delay_s  # it did not wait for the reply
    relay.delay_s = 0.3
    relay.arm("delay", matching=b"EVALSHA")
    assert speaker.run(read.counts(q)).pending == 0


# --- Kept connections -----------------------------------------------------------------------------


def test_one_connection_serves_one_caller(
    talk: Callable[..., Speaker], engine: Server, client: Any, q: Queue
) -> None:
    speaker = talk(engine.port, client_name="kept-alone", driver_info=None)
    for _ in range(20):
        speaker.run(read.counts(q))

    assert len([one for one in client.client_list() if one["name"] == "kept-alone"]) == 1


@pytest.mark.parametrize("idle_s", [0.0, kept.FRESH_S * 2])
def test_a_connection_that_the_server_closed_while_idle(
    talk: Callable[..., Speaker],
    engine: Server,
    client: Any,
    q: Queue,
    monkeypatch: pytest.MonkeyPatch,
    idle_s: float,
) -> None:
    """After a while it is looked at and replaced; right after its use it is taken as it is."""
    speaker = talk(engine.port, client_name="kept-idle")
    speaker.run(read.counts(q))
    (mine,) = [one for one in client.client_list() if one["name"] == "kept-idle"]
    client.client_kill_filter(_id=mine["id"])
    wait_until(
        lambda: not [one for one in client.client_list() if one["name"] == "kept-idle"], "the kill"
    )
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + idle_s)

    if idle_s > kept.FRESH_S:
        assert speaker.run(read.counts(q)).pending == 0
    else:
        with pytest.raises(errors.ReplyLost):
            speaker.run(enqueue.enqueue(q, ids.mint.one(), b""))
        assert speaker.run(read.counts(q)).pending == 0  # it was not kept


def test_a_late_reply_is_never_read_by_the_next_caller(
    talk: Callable[..., Speaker], relay: Proxy, q: Queue
) -> None:
    speaker = talk(relay.port)
    job_id = ids.mint.one()
    speaker.run(enqueue.enqueue(q, job_id, b"payload"))
    relay.delay_s = 0.1
    for _ in range(5):
        relay.arm("delay", matching=b"EVALSHA")
        with pytest.raises(errors.ReplyLost):
            speaker.run(read.counts(q), timeout_s=0.02)

        assert speaker.run(enqueue.enqueue(q, job_id, b"payload")) is Verdict.DUPLICATE


def test_16_threads_share_a_client(engine: Server, client: Any, q: Queue) -> None:
    speaker = SyncSpeaker(engine.port, client_name="kept-threads")
    wrong: list[Any] = []

    def work() -> None:
        for _ in range(300):
            verdict = speaker.run(enqueue.enqueue(q, ids.mint.one(), b""))
            if verdict is not Verdict.ENQUEUED:
                wrong.append(verdict)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert wrong == []
        assert client.zcard(q.pending) == 4_800
        named = [one for one in client.client_list() if one["name"] == "kept-threads"]
        assert len(named) <= 16
    finally:
        speaker.close()


def test_more_connections_than_are_kept_are_closed_when_they_come_back(
    engine: Server, client: Any, q: Queue, monkeypatch: pytest.MonkeyPatch, executor: Executor
) -> None:
    monkeypatch.setattr("emq_django.wire.kept.MOST_IDLE", 2)
    monkeypatch.setattr("emq_django.wire.kept_aio.MOST_IDLE", 2)
    speaker = speak(executor, engine.port, client_name="kept-few")
    try:
        if isinstance(speaker, AsyncSpeaker):
            wire = speaker.wire

            async def at_once() -> None:
                await asyncio.gather(*(wire.run(read.counts(q)) for _ in range(6)))

            speaker.runner.run(at_once())
        else:
            connections = [speaker.client._checkout() for _ in range(6)]
            for connection in connections:
                speaker.client._put_back(connection)

        def named() -> int:
            return len([one for one in client.client_list() if one["name"] == "kept-few"])

        wait_until(lambda: named() == 2, "two connections left")
        speaker.run(read.counts(q))
        assert named() == 2
    finally:
        speaker.close()


FORKING = """
import os, sys
from emq_django.protocol import enqueue, ids, read
from emq_django.protocol.keyspace import queue
from tests.speakers import SyncSpeaker

speaker, q = SyncSpeaker(int(sys.argv[1])), queue(sys.argv[2])
known = ids.mint.one()
speaker.run(enqueue.enqueue(q, known, b"parent"))
pid = os.fork()
for _ in range(200):  # both go on at once, over connections of their own
    verdict = speaker.run(enqueue.enqueue(q, ids.mint.one(), b"payload"))
    assert verdict.value == "enqueued", verdict
    assert speaker.run(read.row(q, known)).fields["payload"].value == b"parent"
speaker.close()
if pid == 0:
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""


def test_a_forked_child_and_its_parent_do_not_share_connections(
    engine: Server, client: Any, q: Queue
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, str(engine.port), q.name],
        capture_output=True, text=True, check=False, timeout=50,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert client.zcard(q.pending) == 401


def test_hostile_payloads_come_back_through_every_way_in(speaker: Speaker, q: Queue) -> None:
    payloads = [
        bytes(range(256)),
        b"\0" * 10,
        b"\r\n*1\r\n$4\r\nPING\r\n",
        os.urandom(1 << 20),
        b"",
    ]
    minted = ids.mint.many(2 * len(payloads))
    one_by_one, in_bulk = minted[: len(payloads)], minted[len(payloads) :]
    for job_id, payload in zip(one_by_one, payloads, strict=True):
        speaker.run(enqueue.enqueue(q, job_id, payload))
    speaker.run(enqueue.enqueue_many(q, list(zip(in_bulk, payloads, strict=True))))

    jobs = speaker.run(claim.take(q, "w", 30_000, 100)).jobs

    assert [(job.id, job.payload) for job in jobs] == list(zip(minted, payloads * 2, strict=True))


@pytest.mark.parametrize("flush", [False, True])
def test_an_interrupt_while_reading_drops_the_connection(
    engine: Server, q: Queue, monkeypatch: pytest.MonkeyPatch, executor: Executor, *, flush: bool
) -> None:
    speaker = speak(executor, engine.port)
    try:
        speaker.run(read.counts(q))
        kind = redis.Connection if executor == "sync" else redis.asyncio.Connection
        call = speaker.run_many if flush else speaker.run
        argument: Any = [read.counts(q)] if flush else read.counts(q)
        with monkeypatch.context() as patched:
            patched.setattr(kind, "read_response", _interrupted)
            with pytest.raises(Interrupted):
                call(argument)

        assert speaker.client._idle == []
        assert speaker.run(read.counts(q)).pending == 0
    finally:
        speaker.close()


class Interrupted(BaseException):
    """What Ctrl-C raises, without its meaning for the test runner."""


def _interrupted(*_: object, **__: object) -> None:
    raise Interrupted


# --- Cancellation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("moment", ["connecting", "reading", "looking"])
def test_a_cancelled_call_drops_its_connection(
    relay: Proxy, client: Any, q: Queue, moment: str, protocol: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Warnings are errors: a connection that is left to the garbage collector fails this test."""
    speaker = AsyncSpeaker(relay.port, protocol=protocol)

    async def cancel_half_way() -> None:
        if moment != "connecting":
            await speaker.wire.run(read.counts(q))
        if moment == "looking":
            monkeypatch.setattr(redis.asyncio.Connection, "can_read", _never)
            monkeypatch.setattr("emq_django.wire.kept_aio.FRESH_S", 0)
        relay.mode = "blackhole"
        task = asyncio.create_task(speaker.wire.run(enqueue.enqueue(q, ids.mint.one(), b"")))
        await asyncio.sleep(0.05)  # let it get as far as it can
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        relay.mode = "forward"
        monkeypatch.undo()
        assert speaker.client._idle == []
        assert (await speaker.wire.run(read.counts(q))).pending == 0

    speaker.runner.run(cancel_half_way())
    speaker.close()


async def _never(_: object) -> bool:
    await asyncio.Event().wait()
    return True
