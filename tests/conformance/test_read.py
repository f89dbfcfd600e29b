"""Looks at a queue: figures, pages of sets, one row, and the registry of queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emq_django.errors import InvalidInput, InvalidLane, InvalidQueueName
from emq_django.protocol import claim, enqueue, ids, keyspace, read, registry
from emq_django.protocol.records import Blob, JobSet
from tests.conformance.test_enqueue import now_ms
from tests.queue_state import read_state
from tests.samples import ACTIVE, DEAD, DUE, EXPIRED, IN_LANE, LANE, PENDING, fill

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from tests.speakers import Speaker

HOUR_MS = 3_600_000


def test_the_figures_of_a_queue_with_something_of_everything(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    fill(client, q)

    counts = speaker.run(read.counts(q))

    assert abs(counts.now_ms - now_ms(client)) < 5_000
    assert not counts.paused
    assert (counts.pending, counts.active, counts.scheduled, counts.dead) == (2, 4, 3, 2)
    assert (counts.lanes, counts.lane_pending, counts.lanes_counted) == (2, 2, 2)
    assert (counts.completed, counts.failed) == (7, 1)
    assert (counts.expired, counts.oldest_expired_ms, counts.next_due_ms) == (2, 1, 1)
    assert counts.oldest_pending_id == PENDING


def test_the_figures_of_an_empty_and_paused_queue(speaker: Speaker, client: Any, q: Queue) -> None:
    client.hset(q.meta, "paused", "1")

    counts = speaker.run(read.counts(q))

    assert counts.paused
    assert (counts.pending, counts.lanes, counts.expired, counts.completed) == (0, 0, 0, 0)
    assert (counts.oldest_expired_ms, counts.next_due_ms) == (None, None)
    assert counts.oldest_pending_id is None


def test_reads_change_nothing(speaker: Speaker, client: Any, q: Queue) -> None:
    before = fill(client, q)

    speaker.run(read.counts(q))
    speaker.run(read.page(q, JobSet.ACTIVE))
    speaker.run(read.row(q, ACTIVE))

    assert read_state(client, q) == before


# --- Pages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("job_set", [JobSet.PENDING, JobSet.ACTIVE, LANE])
def test_pages_follow_one_another_without_a_gap_or_a_double(
    speaker: Speaker, client: Any, q: Queue, job_set: JobSet | str, *, reverse: bool
) -> None:
    minted = ids.mint.many(25)
    lane = LANE if job_set == LANE else None
    speaker.run(enqueue.enqueue_many(q, [(job_id, b"") for job_id in minted], lane))
    if job_set is JobSet.ACTIVE:
        speaker.run(claim.take(q, "w", HOUR_MS, 25))  # one deadline: all scores are the same
    seen: list[str] = []
    cursor, score, more = None, None, True
    while more:
        page = speaker.run(
            read.page(q, job_set, 7, cursor=cursor, cursor_score=score, reverse=reverse)
        )
        assert page.total == 25
        seen += [entry.id for entry in page.entries]
        cursor, score, more = page.entries[-1].id, page.entries[-1].score, page.more

    assert seen == (minted[::-1] if reverse else minted)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_page_goes_on_although_the_cursor_has_left_the_set(
    speaker: Speaker, client: Any, q: Queue, *, reverse: bool
) -> None:
    minted = ids.mint.many(9)
    for number, job_id in enumerate(minted):
        speaker.run(enqueue.enqueue_at(q, job_id, b"", HOUR_MS + number))
    order = minted[::-1] if reverse else minted
    first = speaker.run(read.page(q, JobSet.SCHEDULE, 3, reverse=reverse))
    last = first.entries[-1]
    client.zrem(q.schedule, last.id)
    client.delete(q.row(last.id))

    page = speaker.run(
        read.page(q, JobSet.SCHEDULE, 3, cursor=last.id, cursor_score=last.score, reverse=reverse)
    )

    assert [entry.id for entry in page.entries] == order[3:6]


def test_an_entry_shows_the_facts_of_its_row_and_big_values_by_their_size(
    speaker: Speaker, client: Any, bare_q: Queue
) -> None:
    fill(client, bare_q)
    client.hset(bare_q.row(DEAD), "last_error", b"x" * 5_000)
    client.zadd(bare_q.dead, {"JOB00000000001": 0})  # a ghost
    client.set(bare_q.row("JOB00000000002"), b"no hash")
    client.zadd(bare_q.dead, {"JOB00000000002": 0})

    page = speaker.run(read.page(bare_q, JobSet.DEAD))

    ghost, broken, dead, _ = page.entries
    assert (ghost.exists, ghost.state, ghost.payload) == (False, None, Blob(0, None))
    assert (broken.exists, broken.state) == (True, None)
    assert (dead.state, dead.attempts, dead.lane, dead.worker) == ("dead", "5", None, None)
    assert dead.last_error == Blob(5_000, None)
    assert dead.payload.value == f"payload of {DEAD}".encode()


def test_odd_members_are_shown_as_they_are(speaker: Speaker, client: Any, bare_q: Queue) -> None:
    client.zadd(bare_q.pending, {b"": 0, b"\xff\0": 0, b"JOB": 0})

    page = speaker.run(read.page(bare_q, JobSet.PENDING))

    assert [keyspace.id_bytes(entry.id) for entry in page.entries] == [b"", b"JOB", b"\xff\0"]


def test_what_cannot_be_a_page_never_reaches_the_wire(q: Queue) -> None:
    with pytest.raises(InvalidInput, match="limit=0"):
        read.page(q, JobSet.PENDING, 0)
    with pytest.raises(InvalidInput, match="value_bytes=-1"):
        read.page(q, JobSet.PENDING, value_bytes=-1)
    with pytest.raises(InvalidLane):
        read.page(q, "no lane")


# --- One row --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job_id", "held_by"),
    [(PENDING, "pending"), (ACTIVE, "active"), (EXPIRED, "active"), (DUE, "schedule"),
     (DEAD, "dead"), (IN_LANE, "lane")],
)  # fmt: skip
def test_a_row_says_which_set_holds_it(
    speaker: Speaker, client: Any, q: Queue, job_id: str, held_by: str
) -> None:
    fill(client, q)

    row = speaker.run(read.row(q, job_id))

    assert row is not None
    assert (row.id, row.held_by, row.finished, row.ttl_ms) == (job_id, held_by, False, None)
    assert row.field_count == len(row.fields) == client.hlen(q.row(job_id))
    assert row.fields["payload"].value == f"payload of {job_id}".encode()


def test_nothing_is_known_of_an_unknown_id(speaker: Speaker, q: Queue) -> None:
    assert speaker.run(read.row(q, ids.mint.one())) is None


def test_a_ghost_a_mark_and_a_big_or_wide_row(speaker: Speaker, client: Any, bare_q: Queue) -> None:
    client.zadd(bare_q.dead, {"JOB00000000001": 3})
    client.set(bare_q.row("JOB00000000002") + b":done", "1")
    client.hset(bare_q.row("JOB00000000003"), mapping={"payload": b"x" * 100, b"\xff": b"y"})
    client.hset(bare_q.row("JOB00000000004"), mapping={f"f{n}": "v" for n in range(65)})
    client.set(bare_q.row("JOB00000000005"), b"no hash")
    client.zadd(bare_q.pending, {"JOB00000000005": 0})

    def look(number: int) -> Any:
        return speaker.run(read.row(bare_q, f"JOB{number:011}", value_bytes=50))

    assert (look(1).held_by, look(1).score, look(1).fields) == ("dead", 3.0, {})
    assert (look(2).finished, look(2).held_by) == (True, None)
    assert look(3).fields == {"payload": Blob(100, None), "\udcff": Blob(1, b"y")}
    assert (look(4).field_count, look(4).fields) == (65, {})
    assert (look(5).held_by, look(5).field_count) == ("pending", 0)


def test_a_row_with_an_end_says_when(speaker: Speaker, client: Any, bare_q: Queue) -> None:
    client.hset(bare_q.row(PENDING), "payload", "p")
    client.pexpire(bare_q.row(PENDING), HOUR_MS)

    row = speaker.run(read.row(bare_q, PENDING))

    assert row is not None
    assert 0 < (row.ttl_ms or 0) <= HOUR_MS


# --- The registry of queues -----------------------------------------------------------------------


@pytest.fixture
def _empty_registry(client: Any) -> Any:
    kept = client.smembers(keyspace.QUEUES_KEY)
    client.delete(keyspace.QUEUES_KEY)
    yield
    client.delete(keyspace.QUEUES_KEY)
    if kept:
        client.sadd(keyspace.QUEUES_KEY, *kept)


@pytest.mark.usefixtures("_empty_registry")
def test_queues_are_noted_once_and_listed_in_order(speaker: Speaker, client: Any) -> None:
    assert speaker.run(registry.registered()) == registry.Registry([], 0)
    for name in ("t-b", "a", "t-b", "\u00fc x"):
        assert speaker.run(registry.register(name))
    client.sadd(keyspace.QUEUES_KEY, b"\xff")

    assert speaker.run(registry.registered()) == registry.Registry(["a", "t-b", "\u00fc x"], 4)


@pytest.mark.usefixtures("_empty_registry")
def test_the_registry_has_an_end(speaker: Speaker, client: Any) -> None:
    names = [f"q{number}" for number in range(registry.LARGEST_REGISTRY)]
    client.sadd(keyspace.QUEUES_KEY, *names)

    assert not speaker.run(registry.register("one more"))
    assert speaker.run(registry.register("q7"))

    assert speaker.run(registry.registered()) == registry.Registry(sorted(names), len(names))


@pytest.mark.parametrize("name", ["", "{", "emq", "x" * 129])
def test_a_name_that_no_queue_can_have_is_not_noted(name: str) -> None:
    with pytest.raises(InvalidQueueName):
        registry.register(name)
