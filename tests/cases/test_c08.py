"""C08: which ids are accepted is pinned; every other one is refused aloud, before any command.

A periodic entry whose function raises this error belongs to the periodic jobs, which are not
offered yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emq_django import Verdict
from emq_django.conf import keys
from emq_django.errors import InvalidJobId
from emq_django.protocol import ids
from tests.faces import FACES, Face

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from tests.monitoring import Recording

GOOD = "JOB0NSuyFGSM3w"
BAD: list[Any] = [
    GOOD[:-1],
    GOOD + "x",
    "JOB0NSuyFGSM3-",
    "JOB0NSuyFGSM3_",
    "JOB0NSuyFGSM3 ",
    "job0NSuyFGSM3w",
    "JOB:NSuyFGSM3w",
    "01234567890123",
    "JOB0NSuyFGSMé3",
    "JÖB0NSuyFGSM3w",
    "",
    "JOBAzL8n0Y58m8",
]


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    one = Face(request.param)
    yield one
    one.close()


@pytest.mark.parametrize("kind", ["str", "bytes"])
@pytest.mark.parametrize("bad", BAD, ids=ascii)
def test_a_bad_id_is_one_typed_error_with_its_repr_and_no_command(
    face: Face,
    queue: str,
    monitor: Callable[[], AbstractContextManager[Recording]],
    bad: str,
    kind: str,
) -> None:
    job_id: Any = bad if kind == "str" else bad.encode()

    with monitor() as recording:
        with pytest.raises(InvalidJobId, match=re.escape(repr(job_id))):
            face.enqueue(queue, b"x", job_id=job_id)
        with pytest.raises(InvalidJobId, match=re.escape(repr(job_id))):
            face.enqueue_in(queue, b"x", 5, job_id=job_id)
        with pytest.raises(InvalidJobId, match=re.escape(repr(job_id))):
            face.enqueue_at(queue, b"x", 5, job_id=job_id)
        with pytest.raises(InvalidJobId, match=re.escape(repr(job_id))):
            face.enqueue_many(queue, [b"first", (job_id, b"x")])

    assert recording.commands == []


def test_str_and_bytes_name_the_same_key(face: Face, queue: str, redis_client: redis.Redis) -> None:
    assert face.enqueue(queue, b"x", job_id=GOOD).verdict is Verdict.ENQUEUED
    assert face.enqueue(queue, b"x", job_id=GOOD.encode()).verdict is Verdict.DUPLICATE
    assert face.enqueue_many(queue, [(GOOD.encode(), b"x")])[0].verdict is Verdict.DUPLICATE
    assert redis_client.zrange(keys(queue).pending, 0, -1) == [GOOD.encode()]


def test_none_asks_for_a_minted_id(face: Face, queue: str) -> None:
    receipt = face.enqueue(queue, b"x", job_id=None)

    assert ids.is_branded(receipt.id)
    assert receipt.id.startswith("JOB")


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("JOB00000000000", True),
        ("JOBAzL8n0Y58m7", True),
        ("JOBAzL8n0Y58m8", False),
        ("AAA0NSuyFGSM3w", True),
        ("ZZZ0NSuyFGSM3w", True),
        ("J0B0NSuyFGSM3w", False),
        ("[[[0NSuyFGSM3w", False),
        ("@@@0NSuyFGSM3w", False),
    ],
)
def test_the_accepted_ids_are_pinned(text: str, accepted: bool) -> None:
    assert ids.is_branded(text) is accepted


@given(st.text(min_size=0, max_size=16) | st.from_regex(r"[A-Z]{3}[0-9A-Za-z]{11}", fullmatch=True))
def test_the_accepted_ids_are_those_of_this_pattern(text: str) -> None:
    shape = re.compile(r"\A[A-Z]{3}[0-9A-Za-z]{11}\Z")
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    in_range = shape.match(text) is not None and (
        sum(digits.index(digit) * 62**place for place, digit in enumerate(reversed(text[3:])))
        < 2**63
    )

    assert ids.is_branded(text) is in_range
