"""via= carries any object with run(call) in the connection's place and never inspects it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest

import emq_django
from emq_django import Receipt, Verdict
from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.errors import InvalidPayload, PartlyEnqueued, ServerBusy, ServerFull
from emq_django.protocol.ids import mint
from tests.faces import FACES, Face

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.monitoring import Recording

Record = Callable[[], AbstractContextManager["Recording"]]


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    one = Face(request.param)
    yield one
    one.close()


class Only:
    """Has `run` and nothing else: any other look at it is an error, truth and equality included."""

    __slots__ = ("_calls", "_reply")

    def __init__(self, calls: list[Any], reply: Callable[[Any], Any]) -> None:
        self._calls = calls
        self._reply = reply

    def run(self, call: Any) -> Any:
        self._calls.append(call)
        return self._reply(call)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"via was asked for {name}")

    def __bool__(self) -> bool:
        raise AssertionError("via was tested for truth")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("via was compared")

    __hash__ = None  # type: ignore[assignment]


class AsyncOnly(Only):
    """The same with a `run` that is awaited."""

    __slots__ = ()

    async def run(self, call: Any) -> Any:
        return super().run(call)


def carrier(face: Face, reply: Callable[[Any], Any]) -> tuple[Any, list[Any]]:
    calls: list[Any] = []
    return (AsyncOnly if face.is_async else Only)(calls, reply), calls


def admitted(call: Any) -> Any:
    if call.script.name == "enqueue_many":
        return [Verdict.ENQUEUED] * ((len(call.args) - 1) // 2)
    return Verdict.SCHEDULED if call.script.name == "schedule" else Verdict.ENQUEUED


def refuse(error: Exception) -> Callable[[Any], Any]:
    def reply(call: Any) -> Any:
        raise error

    return reply


def test_every_enqueue_gives_its_call_to_via_and_sends_nothing(
    face: Face, queue: str, monitor: Record
) -> None:
    via, calls = carrier(face, admitted)

    with monitor() as recording:
        receipts = [
            face.enqueue(queue, b"x", via=via),
            face.enqueue(queue, b"x", lane="USR0NSuyFGSM3w", via=via),
            face.enqueue_in(queue, b"x", 5, via=via),
            face.enqueue_at(queue, b"x", 5, via=via),
            *face.enqueue_many(queue, [b"x", b"y"], via=via),
        ]

    assert recording.commands == []
    names = ["enqueue", "enqueue_lane", "schedule", "schedule", "enqueue_many"]
    assert [call.script.name for call in calls] == names
    assert all(isinstance(receipt, Receipt) for receipt in receipts)


def test_what_via_gets_is_what_the_connection_would_run(queue: str) -> None:
    calls: list[Any] = []
    via = Only(calls, lambda call: wire_for(keys(queue)).run(call))
    job_id = mint.one()

    assert emq_django.enqueue(queue, b"x", job_id=job_id, via=via).verdict is Verdict.ENQUEUED
    assert emq_django.enqueue(queue, b"x", job_id=job_id, via=via).verdict is Verdict.DUPLICATE
    job = emq_django.claim(queue)
    assert job is not None
    assert (job.id, job.payload) == (job_id, b"x")


@pytest.mark.parametrize("error", [ServerBusy("busy"), ServerFull("full"), OSError("theirs")])
def test_an_error_of_via_is_raised_as_it_is_and_nothing_is_tried_again(
    face: Face, queue: str, error: Exception
) -> None:
    via, calls = carrier(face, refuse(error))

    with pytest.raises(type(error)) as caught:
        face.enqueue(queue, b"x", via=via)
    with pytest.raises(type(error)) as caught_many:
        face.enqueue_many(queue, [b"x"], via=via)

    assert caught.value is caught_many.value is error
    assert len(calls) == 2


def test_a_bulk_through_via_may_end_half_way(face: Face, queue: str) -> None:
    answers = iter([[Verdict.ENQUEUED] * 100, ServerFull("full"), [Verdict.ENQUEUED] * 50])

    def reply(call: Any) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    via, calls = carrier(face, reply)

    with pytest.raises(PartlyEnqueued, match="150 of 250"):
        face.enqueue_many(queue, [b"x"] * 250, via=via)

    assert len(calls) == 3


def test_a_minted_id_that_via_finds_taken_is_minted_again(face: Face, queue: str) -> None:
    verdicts = iter([Verdict.DUPLICATE, Verdict.ENQUEUED])
    via, calls = carrier(face, lambda call: next(verdicts))

    receipt = face.enqueue(queue, b"x", via=via)

    assert receipt == Receipt(calls[1].args[0], Verdict.ENQUEUED)


def test_bad_arguments_never_reach_via(face: Face, queue: str) -> None:
    via, calls = carrier(face, admitted)

    with pytest.raises(InvalidPayload):
        face.enqueue(queue, "text", via=via)

    assert calls == []
