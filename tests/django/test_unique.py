"""`enqueue(..., unique=key)`: a second job with the key is a duplicate of the one that lives."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.db import transaction

from emq_django import api, errors
from emq_django.protocol.records import Verdict

pytestmark = pytest.mark.server

KEY = "invoice 42"
VERBS: dict[str, tuple[Any, ...]] = {"enqueue": (), "enqueue_in": (0,), "enqueue_at": (5,)}


@pytest.fixture(params=["sync", "async"])
def put(request: pytest.FixtureRequest) -> Any:
    if request.param == "sync":
        return lambda name, *args, **kwargs: vars(api)[name](*args, **kwargs)
    return lambda name, *args, **kwargs: asyncio.run(vars(api)[f"a{name}"](*args, **kwargs))


@pytest.mark.parametrize("verb", VERBS)
def test_a_second_job_with_the_key_is_a_duplicate_of_the_first(
    queue: str, put: Any, verb: str
) -> None:
    first = put(verb, queue, b"first", *VERBS[verb], unique=KEY)
    second = put(verb, queue, b"second", *VERBS[verb], unique=KEY)

    success = Verdict.ENQUEUED if verb == "enqueue" else Verdict.SCHEDULED
    assert first.verdict is success
    assert (second.id, second.verdict) == (first.id, Verdict.DUPLICATE)
    assert put(verb, queue, b"third", *VERBS[verb], unique="another").verdict is success
    assert put(verb, queue, b"fourth", *VERBS[verb]).verdict is success


def test_the_key_is_free_when_the_job_is_done(queue: str, put: Any) -> None:
    put("enqueue", queue, b"first", unique=KEY)
    job = api.claim(queue)
    assert job is not None
    assert put("enqueue", queue, b"second", unique=KEY).id == job.id
    api.complete(job)

    assert put("enqueue", queue, b"third", unique=KEY).verdict is Verdict.ENQUEUED


def test_a_callers_id_that_is_there_is_a_duplicate_with_any_key(queue: str, put: Any) -> None:
    job_id = put("enqueue", queue, b"first", unique=KEY).id

    for key in (KEY, "another"):
        receipt = put("enqueue", queue, b"first", unique=key, job_id=job_id)
        assert (receipt.id, receipt.verdict) == (job_id, Verdict.DUPLICATE)


@pytest.mark.parametrize("bad", ["", 5, b"key", "x" * 256])
@pytest.mark.parametrize("verb", VERBS)
def test_a_key_that_is_no_short_text_is_refused_before_anything_is_sent(
    queue: str, put: Any, verb: str, bad: Any, monitor: Any
) -> None:
    with monitor() as recording, pytest.raises(errors.InvalidInput, match="unique="):
        put(verb, queue, b"job", *VERBS[verb], unique=bad)

    assert recording.commands == []


def test_the_call_can_be_carried_by_another_client(queue: str) -> None:
    class Via:
        def run(self, call: Any) -> Any:
            assert call.script.name == "readmit"
            return "JOB00000000001"

    receipt = api.enqueue(queue, b"job", unique=KEY, via=Via())

    assert (receipt.id, receipt.verdict) == ("JOB00000000001", Verdict.DUPLICATE)


@pytest.mark.django_db(transaction=True)
def test_on_commit_the_key_is_looked_at_when_the_transaction_commits(
    queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "emq_django.enqueue")
    with transaction.atomic():
        announced = api.enqueue(queue, b"announced", unique=KEY, on_commit=True)
        now = api.enqueue(queue, b"now", unique=KEY)

    assert (announced.verdict, now.verdict) == (Verdict.DEFERRED, Verdict.ENQUEUED)
    assert f"{announced.id} that was announced" in caplog.text
    assert f"{now.id} holds its unique key" in caplog.text
    job = api.claim(queue)
    assert job is not None
    assert job.id == now.id
    assert api.claim(queue) is None


@pytest.mark.django_db(transaction=True)
def test_a_bad_key_is_refused_in_the_transaction_and_not_at_its_commit(queue: str) -> None:
    with pytest.raises(errors.InvalidInput, match="at most 255"), transaction.atomic():
        api.enqueue(queue, b"job", unique="x" * 256, on_commit=True)
