"""Wire 6: what is sent to a node that has the module, and to one that has not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emq_django import errors
from emq_django.protocol import claim, enqueue, keyspace, settle
from emq_django.protocol.records import ClaimedJob, Verdict
from tests.speakers import EXECUTORS, speak
from tests.stub_server import StubServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers import Server
    from tests.speakers import Speaker

Q = keyspace.queue("q")
ID = "JOB0KHTOWnGLuC"
ROW, PENDING, ACTIVE = b"emq:{q}:job:" + ID.encode(), b"emq:{q}:pending", b"emq:{q}:active"
HGET = (b"HGET", b"emq:{q}:meta", b"paused")
CLAIM = (b"EMQ.CLAIM", b"3", PENDING, ACTIVE, b"emq:{q}:", b"30000")
NULL, ONE, ZERO = b"$-1\r\n", b":1\r\n", b":0\r\n"


@pytest.fixture(params=EXECUTORS)
def talk(request: pytest.FixtureRequest) -> Iterator[Callable[..., Speaker]]:
    speakers: list[Speaker] = []

    def start(port: int) -> Speaker:
        speakers.append(speak(request.param, port, wire=6, driver_info=None))
        return speakers[-1]

    yield start
    for speaker in speakers:
        speaker.close()


def test_enqueue_is_the_native_command(talk: Callable[..., Speaker]) -> None:
    with StubServer([ONE, ZERO]) as stub:
        speaker = talk(stub.port)
        verdicts = [speaker.run(enqueue.enqueue(Q, ID, b"\0payload\r\n")) for _ in range(2)]

    assert verdicts == [Verdict.ENQUEUED, Verdict.DUPLICATE]
    assert (
        stub.commands == [(b"EMQ.ENQUEUE", b"2", ROW, PENDING, ID.encode(), b"\0payload\r\n")] * 2
    )


def test_claim_reads_the_pause_and_then_is_one_command(talk: Callable[..., Speaker]) -> None:
    with StubServer([NULL, b"*3\r\n$14\r\n%b\r\n$1\r\np\r\n:1\r\n" % ID.encode()]) as stub:
        job = talk(stub.port).run(claim.claim(Q, 30_000))

    assert job == ClaimedJob(ID, b"p", 1, "q")
    assert stub.commands == [HGET, CLAIM]


def test_a_paused_queue_costs_one_read(talk: Callable[..., Speaker]) -> None:
    with StubServer([b"$1\r\n1\r\n"]) as stub:
        job = talk(stub.port).run(claim.claim(Q, 30_000))

    assert job is None
    assert stub.commands == [HGET]


def test_an_empty_queue_answers_none(talk: Callable[..., Speaker]) -> None:
    with StubServer([NULL, b"*0\r\n"]) as stub:
        assert talk(stub.port).run(claim.claim(Q, 30_000)) is None


def test_everything_else_is_an_evalsha(talk: Callable[..., Speaker]) -> None:
    call = settle.complete(Q, ClaimedJob(ID, b"p", 1, "q"))
    with StubServer([ONE]) as stub:
        verdict = talk(stub.port).run(call)

    assert verdict is Verdict.COMPLETED
    assert [command[:3] for command in stub.commands] == [
        (b"EVALSHA", call.script.sha.encode(), b"3")
    ]


def test_a_flush_sends_native_commands_without_loading_scripts(
    talk: Callable[..., Speaker],
) -> None:
    calls: list[Any] = [enqueue.enqueue(Q, ID, b"p"), enqueue.enqueue(Q, ID, b"p")]
    with StubServer([ONE, ZERO]) as stub:
        verdicts = talk(stub.port).run_many(calls)

    assert verdicts == [Verdict.ENQUEUED, Verdict.DUPLICATE]
    assert [command[0] for command in stub.commands] == [b"EMQ.ENQUEUE"] * 2


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b"-EMQKIND job id must be JOB-namespaced\r\n", errors.KindRefused),
        (b"-ERR something else\r\n", errors.ScriptFailed),
        (b"-LOADING\r\n", errors.ServerBusy),
    ],
)
def test_the_modules_refusals_are_the_scripts_errors(
    talk: Callable[..., Speaker], reply: bytes, error: type[errors.EmqError]
) -> None:
    with StubServer([reply]) as stub, pytest.raises(error):
        talk(stub.port).run(enqueue.enqueue(Q, ID, b"p"))


def test_a_node_without_the_module_is_named(talk: Callable[..., Speaker], engine: Server) -> None:
    speaker = talk(engine.port)

    with pytest.raises(errors.ModuleMissing, match=r"set EMQ\['WIRE'\] to 4"):
        speaker.run(enqueue.enqueue(Q, ID, b"p"))
    with pytest.raises(errors.ModuleMissing, match=r"EMQ\.CLAIM"):
        speaker.run(claim.claim(Q, 30_000))


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0", b"*-7\r\n"])
def test_what_is_no_redis_is_a_lost_reply_and_the_connection_is_not_used_again(
    talk: Callable[..., Speaker], garbage: bytes
) -> None:
    with StubServer([garbage, ONE]) as stub:
        speaker = talk(stub.port)
        with pytest.raises(errors.WireError):
            speaker.run(enqueue.enqueue(Q, ID, b"p"), timeout_s=0.5)

        assert speaker.run(enqueue.enqueue(Q, ID, b"p")) is Verdict.ENQUEUED
