"""Admissions that differ in lane, due time or key, driven by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emq_django.delivery import Admission, Distinct, Patience, distinct
from emq_django.errors import ReplyLost
from emq_django.protocol import keyspace
from emq_django.protocol.enqueue import Readmission
from emq_django.protocol.ids import mint
from emq_django.protocol.records import Receipt, Verdict
from tests.unit.steps import Clock, play

if TYPE_CHECKING:
    from tests.unit.steps import Played

QUEUE = keyspace.queue("q")
FOUND = [Readmission.SAME, Readmission.DONE, Readmission.OTHER]


def admit(answers: Any, job_id: str | None = None) -> Played:
    clock = Clock()
    entry = Distinct(Admission(QUEUE, b"p", job_id, None))
    return play(distinct([entry], Patience(5.0, 5.0, clock)), clock, answers)


def ids_of(played: Played) -> list[Any]:
    return [calls[0].args[0] for calls, _ in played.flushes]


@pytest.mark.parametrize("found", FOUND)
def test_a_minted_id_that_another_job_had_is_minted_again_also_where_the_bytes_are_equal(
    found: Readmission, moves: list[int]
) -> None:
    played = admit([[found], [Readmission.ADMITTED]])

    first, second = ids_of(played)
    assert first != second
    assert moves == [1]
    assert played.result == [Receipt(second, Verdict.ENQUEUED)]


@pytest.mark.parametrize("found", FOUND)
def test_a_caller_id_that_is_taken_is_a_duplicate(found: Readmission) -> None:
    job_id = mint.one()

    assert admit([[found]], job_id).result == [Receipt(job_id, Verdict.DUPLICATE)]


@pytest.mark.parametrize("found", [Readmission.SAME, Readmission.DONE])
def test_after_a_lost_reply_a_job_that_is_there_or_done_was_admitted(found: Readmission) -> None:
    played = admit([[ReplyLost("")], [found]])

    first, second = ids_of(played)
    assert first == second
    assert played.result == [Receipt(first, Verdict.ENQUEUED)]
