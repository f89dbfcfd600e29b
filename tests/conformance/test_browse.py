"""What an operator's pages read: results, filtered slices and counts within bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emq_django.errors import WrongType
from emq_django.protocol import browse, enqueue, operate, recover, settle
from emq_django.protocol.browse import FINISHED, Place, Sieve
from emq_django.protocol.claim import claim, take
from emq_django.protocol.records import Blob, JobSet, Verdict
from emq_django.protocol.results import Kept, result

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from emq_django.protocol.records import ClaimedJob
    from tests.speakers import Speaker

IDS = [f"JOB0000000000{number}" for number in range(1, 6)]
LANE = "USR0KHTOWnGLuC"
KEPT = Kept(60_000, 1_000, 10, b"", (("value", b"42"), ("worker", b"w \xff")))


def fill(speaker: Speaker, q: Queue) -> None:
    """Admit five jobs, of which the second and the fourth speak of mail."""
    for number, job_id in enumerate(IDS):
        payload = b"mail %d" % number if number % 2 else b"other %d" % number
        assert speaker.run(enqueue.enqueue(q, job_id, payload)) is Verdict.ENQUEUED


def end(speaker: Speaker, q: Queue, count: int) -> list[ClaimedJob]:
    """Complete jobs, each with a result."""
    jobs = []
    for _ in range(count):
        job = speaker.run(claim(q, 30_000))
        assert job is not None
        assert speaker.run(settle.complete(q, job, kept=KEPT)) is Verdict.COMPLETED
        jobs.append(job)
    return jobs


def test_a_result_is_read_in_place_of_its_row(speaker: Speaker, q: Queue) -> None:
    fill(speaker, q)
    before = speaker.run(result(q, IDS[0]))
    end(speaker, q, 1)
    left = speaker.run(result(q, IDS[0]))

    assert before is not None
    assert left is not None
    assert (before.ended, left.ended) == (False, True)
    assert (left.text("value"), left.number("value")) == ("42", 42)
    assert (left.text("worker"), left.number("worker")) == ("w \ufffd", None)
    assert (before.text("value"), before.number("value")) == ("", None)
    assert speaker.run(result(q, "JOB00000000099")) is None


def test_a_results_payload_and_row_are_read_as_they_were_left(speaker: Speaker, q: Queue) -> None:
    fill(speaker, q)
    end(speaker, q, 1)

    assert speaker.run(browse.payload(q, IDS[0], 100)) == Blob(7, b"other 0")
    assert speaker.run(browse.payload(q, IDS[1], 3)) == Blob(6, None)
    assert speaker.run(browse.payload(q, "JOB00000000099", 100)) is None
    row = speaker.run(browse.result_row(q, IDS[0]))
    assert row is not None
    assert row.fields["value"].value == b"42"
    assert speaker.run(browse.result_row(q, "JOB00000000099")) is None


def test_finished_jobs_are_paged_in_the_order_of_their_end(speaker: Speaker, q: Queue) -> None:
    fill(speaker, q)
    end(speaker, q, 3)

    first = speaker.run(browse.finished(q, 2))
    last = first.entries[-1]
    second = speaker.run(browse.finished(q, 2, Place(cursor=last.id, score=last.score)))

    assert [entry.id for entry in (*first.entries, *second.entries)] == IDS[:3]
    backwards = speaker.run(browse.finished(q, 1, Place(reverse=True)))
    assert [entry.id for entry in backwards.entries] == [IDS[2]]


def test_a_set_is_sifted_step_by_step(speaker: Speaker, q: Queue) -> None:
    fill(speaker, q)
    sieve = Sieve(texts=(b"mail",))

    first = speaker.run(browse.sift(q, JobSet.PENDING, 3, Place(), sieve))
    assert first.last is not None
    place = Place(cursor=first.last.id)
    second = speaker.run(browse.sift(q, JobSet.PENDING, 3, place, sieve, facts=False))

    assert (first.looked, first.more, [one.id for one in first.entries]) == (3, True, [IDS[1]])
    assert (second.looked, second.more, second.entries) == (2, False, [])
    assert [one.id for one in second.members] == [IDS[3]]


def test_an_empty_set_has_no_last_member(speaker: Speaker, q: Queue) -> None:
    sifted = speaker.run(browse.sift(q, LANE, 3, Place(), Sieve(lane=LANE)))

    assert (sifted.looked, sifted.last, sifted.more, sifted.members) == (0, None, False, [])


def test_results_are_sifted_behind_a_score(speaker: Speaker, q: Queue) -> None:
    fill(speaker, q)
    end(speaker, q, 2)
    page = speaker.run(browse.finished(q))
    score = page.entries[0].score

    place = Place(cursor=IDS[0], score=score)
    sifted = speaker.run(browse.sift(q, FINISHED, 10, place, Sieve(attempts=1)))

    assert [one.id for one in sifted.entries] == [IDS[1]]


@pytest.mark.parametrize(
    ("sieve", "asks"),
    [
        (Sieve(), False),
        (Sieve(attempts=1), True),
        (Sieve(lane=LANE), True),
        (Sieve(task=b"x"), True),
        (Sieve(texts=(b"x",)), True),
        (Sieve(died_within_ms=1), True),
        (Sieve(died_from_ms=1), True),
        (Sieve(died_until_ms=1), True),
    ],
    ids=["nothing", "attempts", "lane", "task", "texts", "within", "from", "until"],
)
def test_a_sieve_says_whether_it_asks_for_anything(sieve: Sieve, asks: bool) -> None:
    assert bool(sieve) is asks


def test_members_are_counted_within_bounds(speaker: Speaker, q: Queue) -> None:
    fill(speaker, q)
    end(speaker, q, 2)
    score = speaker.run(browse.finished(q)).entries[-1].score

    assert speaker.run(browse.tally(q, JobSet.PENDING)) == 3
    assert speaker.run(browse.tally(q, JobSet.PENDING, low=IDS[2])) == 2
    assert speaker.run(browse.tally(q, JobSet.PENDING, IDS[2], IDS[4])) == 1
    assert speaker.run(browse.tally(q, FINISHED, high=score)) == 2
    assert speaker.run(browse.tally(q, FINISHED, low=score + 1)) == 0


def test_ids_are_cut_into_parts_of_a_size() -> None:
    assert browse.chunks(IDS, 2) == [IDS[:2], IDS[2:4], IDS[4:]]
    assert browse.chunks([], 2) == []


def test_ghosts_are_dropped_and_jobs_are_not(speaker: Speaker, client: Any, bare_q: Queue) -> None:
    fill(speaker, bare_q)
    client.delete(bare_q.row(IDS[1]))

    assert speaker.run(operate.drop_ghosts(bare_q, IDS[:2])) == [False, True]
    assert client.zcard(bare_q.pending) == 4


def test_parking_a_job_whose_row_went_is_told(speaker: Speaker, q: Queue) -> None:
    fill(speaker, q)
    (job,) = end(speaker, q, 1)

    assert speaker.run(settle.park(q, job, 1_000, 60_000, "no such task")) is Verdict.GONE


def test_a_row_of_another_kind_is_no_verdict(speaker: Speaker, client: Any, bare_q: Queue) -> None:
    fill(speaker, bare_q)
    job = speaker.run(claim(bare_q, 30_000))
    assert job is not None
    client.delete(bare_q.row(job.id))
    client.set(bare_q.row(job.id), "text")

    with pytest.raises(WrongType):
        speaker.run(settle.complete(bare_q, job))


def test_jobs_of_a_worker_are_found_and_handed_back(speaker: Speaker, q: Queue) -> None:
    fill(speaker, q)
    taken = speaker.run(take(q, "one", 30_000, 2))
    speaker.run(take(q, "two", 30_000))
    cursor, held = recover.START, []
    while True:
        part = speaker.run(recover.marked(q, "one", cursor))
        held += part.held
        cursor = part.cursor
        if cursor == recover.START:
            break

    assert sorted((one.id, one.token) for one in held) == [
        (job.id, job.attempts) for job in taken.jobs
    ]
    verdicts = speaker.run(recover.hand_back(q, [*held, recover.Held(IDS[4], 7)]))
    assert verdicts == [Verdict.RELEASED, Verdict.RELEASED, Verdict.STALE]
