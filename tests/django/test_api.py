"""Every public verb and verdict by both faces against a real server, and every bad argument."""

from __future__ import annotations

import hashlib
import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import emq_django
from emq_django import ClaimedJob, EmqError, Receipt, Verdict
from emq_django.conf import keys
from emq_django.errors import (
    InvalidDuration,
    InvalidInput,
    InvalidJobId,
    InvalidLane,
    InvalidPayload,
    InvalidQueueName,
    KindRefused,
    PayloadTooLarge,
)
from emq_django.protocol.ids import mint
from tests.faces import FACES, Face

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from pytest_django.fixtures import Settings

    from tests.monitoring import Recording

LANE = "USR0NSuyFGSM3w"


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    one = Face(request.param)
    yield one
    one.close()


def server_ms(client: redis.Redis) -> int:
    seconds, micros = client.time()
    return int(seconds) * 1_000 + int(micros) // 1_000


# --- the names -----------------------------------------------------------------------------------


def test_every_public_name_loads_and_each_verb_has_its_twin() -> None:
    for name in emq_django.__all__:
        assert getattr(emq_django, name) is not None

    assert dir(emq_django) == sorted(emq_django.__all__)
    with pytest.raises(AttributeError, match="'enqueue_all'"):
        emq_django.enqueue_all  # noqa: B018


def test_the_package_can_be_imported_before_django_is_set_up() -> None:
    code = "import sys, emq_django; print(any(m.startswith('django') for m in sys.modules))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
    importlib.import_module("emq_django")


# --- enqueue -------------------------------------------------------------------------------------


def test_enqueue_answers_with_the_id_and_enqueued(
    face: Face, queue: str, redis_client: redis.Redis
) -> None:
    receipt = face.enqueue(queue, b"bytes")

    assert receipt == Receipt(receipt.id, Verdict.ENQUEUED)
    assert redis_client.hgetall(keys(queue).row(receipt.id)) == {
        b"state": b"pending", b"attempts": b"0", b"payload": b"bytes",
    }  # fmt: skip
    assert redis_client.zscore(keys(queue).pending, receipt.id) == 0


def test_a_row_that_exists_makes_a_duplicate_and_is_left_alone(
    face: Face, queue: str, redis_client: redis.Redis
) -> None:
    job_id = mint.one()
    face.enqueue(queue, b"first", job_id=job_id)

    receipt = face.enqueue(queue, b"second", job_id=job_id)

    assert receipt == Receipt(job_id, Verdict.DUPLICATE)
    assert redis_client.hget(keys(queue).row(job_id), "payload") == b"first"


def test_an_id_may_come_as_bytes(face: Face, queue: str) -> None:
    job_id = mint.one()

    assert face.enqueue(queue, b"x", job_id=job_id.encode()) == Receipt(job_id, Verdict.ENQUEUED)
    assert face.enqueue(queue, b"x", job_id=job_id).verdict is Verdict.DUPLICATE


def test_an_id_of_another_kind_is_refused_by_the_server(
    face: Face, queue: str, redis_client: redis.Redis
) -> None:
    with pytest.raises(KindRefused, match="EMQKIND"):
        face.enqueue(queue, b"x", job_id=LANE)

    assert redis_client.exists(keys(queue).row(LANE), keys(queue).pending) == 0


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x00\xff\r\n{}",
        bytearray(b"array"),
        memoryview(b"view"),
        memoryview(b"every other")[::2],
        bytes(range(256)) * 512,
        type("Named", (bytes,), {})(b"subclass"),
    ],
    ids=["empty", "binary", "bytearray", "view", "strided", "long", "subclass"],
)
def test_any_bytes_come_back_as_they_went_in(face: Face, queue: str, payload: Any) -> None:
    face.enqueue(queue, payload)

    job = face.claim(queue)

    assert type(job.payload) is bytes
    assert hashlib.sha256(job.payload).digest() == hashlib.sha256(bytes(payload)).digest()


def test_a_lane_parks_the_job_apart_from_the_flat_set(
    face: Face, queue: str, redis_client: redis.Redis
) -> None:
    receipt = face.enqueue(queue, b"x", lane=LANE)

    assert receipt.verdict is Verdict.ENQUEUED
    assert redis_client.zscore(keys(queue).lane(LANE), receipt.id) == 0
    assert redis_client.hget(keys(queue).row(receipt.id), "group") == LANE.encode()
    assert face.claim(queue) is None


@pytest.mark.parametrize("delay", [60_000, timedelta(minutes=1)])
def test_enqueue_in_parks_by_the_server_clock(
    face: Face, queue: str, redis_client: redis.Redis, delay: Any
) -> None:
    before = server_ms(redis_client)

    receipt = face.enqueue_in(queue, b"x", delay)

    assert receipt.verdict is Verdict.SCHEDULED
    due = redis_client.zscore(keys(queue).schedule, receipt.id)
    assert before + 60_000 <= due <= server_ms(redis_client) + 60_000  # type: ignore[operator]
    assert face.claim(queue) is None


@pytest.mark.parametrize(
    ("when", "due_ms"),
    [
        (0, 0),
        (1_893_456_000_001, 1_893_456_000_001),
        (datetime(2030, 1, 1, 0, 0, 0, 1_999, tzinfo=UTC), 1_893_456_000_001),
        (datetime(2030, 1, 1, 5, tzinfo=timezone(timedelta(hours=5))), 1_893_456_000_000),
        (datetime(2001, 9, 9, 1, 46, 39, 1_000, tzinfo=UTC), 999_999_999_001),
    ],
)
def test_enqueue_at_keeps_the_very_millisecond(
    face: Face, queue: str, redis_client: redis.Redis, when: Any, due_ms: int
) -> None:
    receipt = face.enqueue_at(queue, b"x", when, lane=LANE)

    assert receipt.verdict is Verdict.SCHEDULED
    assert redis_client.zscore(keys(queue).schedule, receipt.id) == due_ms
    assert redis_client.hget(keys(queue).row(receipt.id), "group") == LANE.encode()


def test_a_parked_id_that_lives_is_a_duplicate(face: Face, queue: str) -> None:
    job_id = face.enqueue(queue, b"x").id

    assert face.enqueue_in(queue, b"x", 5, job_id=job_id).verdict is Verdict.DUPLICATE
    assert face.enqueue_at(queue, b"x", 5, job_id=job_id).verdict is Verdict.DUPLICATE


# --- enqueue_many --------------------------------------------------------------------------------


def test_a_bulk_answers_in_input_order(face: Face, queue: str, redis_client: redis.Redis) -> None:
    taken, given = mint.one(), mint.one()
    face.enqueue(queue, b"before", job_id=taken)

    receipts = face.enqueue_many(
        queue, [b"a", (given, bytearray(b"b")), (taken, b"c"), (None, memoryview(b"d")), b""]
    )

    verdicts = [receipt.verdict for receipt in receipts]
    enqueued = Verdict.ENQUEUED
    assert verdicts == [enqueued, enqueued, Verdict.DUPLICATE, enqueued, enqueued]
    assert [receipts[1].id, receipts[2].id] == [given, taken]
    rows = [redis_client.hget(keys(queue).row(receipt.id), "payload") for receipt in receipts]
    assert rows == [b"a", b"b", b"before", b"d", b""]


def test_a_bulk_may_come_from_a_generator_and_go_to_a_lane(
    face: Face, queue: str, redis_client: redis.Redis
) -> None:
    receipts = face.enqueue_many(queue, (b"%d" % n for n in range(250)), lane=LANE)

    assert [receipt.id for receipt in receipts] == sorted(receipt.id for receipt in receipts)
    assert redis_client.zcard(keys(queue).lane(LANE)) == 250


@pytest.mark.parametrize("nothing", [[], (), iter(())])
def test_an_empty_bulk_sends_nothing(
    face: Face,
    queue: str,
    monitor: Callable[[], AbstractContextManager[Recording]],
    nothing: Any,
) -> None:
    with monitor() as recording:
        assert face.enqueue_many(queue, nothing) == []

    assert recording.commands == []


# --- claim and settle ----------------------------------------------------------------------------


def test_claim_hands_over_the_oldest_job_with_its_token(
    face: Face, queue: str, redis_client: redis.Redis
) -> None:
    first = face.enqueue(queue, b"1")
    face.enqueue(queue, b"2")
    before = server_ms(redis_client)

    job = face.claim(queue, 5_000)

    assert job == ClaimedJob(first.id, b"1", 1, queue)
    ends = redis_client.zscore(keys(queue).active, first.id)
    assert before + 5_000 <= ends <= server_ms(redis_client) + 5_000  # type: ignore[operator]
    assert redis_client.hget(keys(queue).row(first.id), "state") == b"active"


def test_claim_of_an_empty_or_paused_queue_is_none(
    face: Face, queue: str, redis_client: redis.Redis
) -> None:
    assert face.claim(queue) is None

    face.enqueue(queue, b"x")
    redis_client.hset(keys(queue).meta, "paused", "1")

    assert face.claim(queue) is None
    redis_client.hdel(keys(queue).meta, "paused")
    assert face.claim(queue) is not None


def settlements(face: Face) -> dict[Verdict, Callable[[ClaimedJob], Verdict]]:
    return {
        Verdict.COMPLETED: face.complete,
        Verdict.RELEASED: face.release,
        Verdict.SCHEDULED: lambda job: face.retry(job, error="boom", delay_ms=60_000),
        Verdict.DEAD: lambda job: face.retry(job, error="boom", delay_ms=0, max_attempts=1),
        Verdict.EXTENDED: lambda job: face.extend(job, lease_ms=90_000),
    }


@pytest.mark.parametrize(
    ("verdict", "place"),
    [
        (Verdict.COMPLETED, None),
        (Verdict.RELEASED, "pending"),
        (Verdict.SCHEDULED, "schedule"),
        (Verdict.DEAD, "dead"),
        (Verdict.EXTENDED, "active"),
    ],
)
def test_a_settlement_moves_the_job_and_says_so(
    face: Face, queue: str, redis_client: redis.Redis, verdict: Verdict, place: str | None
) -> None:
    face.enqueue(queue, b"x")
    job = face.claim(queue)

    assert settlements(face)[verdict](job) is verdict

    held = [
        name
        for name in ("pending", "active", "schedule", "dead")
        if redis_client.zscore(getattr(keys(queue), name), job.id) is not None
    ]
    assert held == ([place] if place else [])
    assert redis_client.exists(keys(queue).row(job.id)) == (place is not None)


@pytest.mark.parametrize(
    "verdict",
    [Verdict.COMPLETED, Verdict.RELEASED, Verdict.SCHEDULED, Verdict.DEAD, Verdict.EXTENDED],
)
def test_a_settlement_after_the_lease_was_lost_is_stale_and_later_gone(
    face: Face, queue: str, verdict: Verdict
) -> None:
    face.enqueue(queue, b"x")
    lost = face.claim(queue)
    face.release(lost)
    holder = face.claim(queue)
    settle = settlements(face)[verdict]

    assert settle(lost) is Verdict.STALE
    assert face.complete(holder) is Verdict.COMPLETED
    assert settle(lost) is Verdict.GONE


def test_retry_takes_a_timedelta_and_keeps_the_error(
    face: Face, queue: str, redis_client: redis.Redis
) -> None:
    face.enqueue(queue, b"x")
    job = face.claim(queue)
    before = server_ms(redis_client)

    face.retry(job, error="ä\x00 \udcff boom", delay_ms=timedelta(seconds=60))

    due = redis_client.zscore(keys(queue).schedule, job.id)
    assert before + 60_000 <= due <= server_ms(redis_client) + 60_000  # type: ignore[operator]
    last_error = redis_client.hget(keys(queue).row(job.id), "last_error")
    assert last_error == "ä\x00 \\udcff boom".encode()


# --- two projects --------------------------------------------------------------------------------


def test_a_prefix_keeps_two_projects_apart(
    queue: str, redis_client: redis.Redis, settings: Settings
) -> None:
    def project(prefix: str) -> None:
        settings.EMQ = {**settings.EMQ, "QUEUE_PREFIX": f"{queue}-{prefix}"}

    project("a")
    here = emq_django.enqueue("emails", b"a")
    project("b")

    assert emq_django.claim("emails") is None
    assert emq_django.enqueue("emails", b"b", job_id=here.id).verdict is Verdict.ENQUEUED
    project("a")
    job = emq_django.claim("emails")
    assert job == ClaimedJob(here.id, b"a", 1, "emails")
    assert emq_django.complete(job) is Verdict.COMPLETED
    project("b")
    other = emq_django.claim("emails")
    assert other is not None
    assert other.payload == b"b"
    redis_client.delete(*redis_client.keys(f"emq:{{{queue}-*"))


# --- bad arguments -------------------------------------------------------------------------------

BAD_PAYLOADS: list[Any] = ["text", None, 7, 1.5, True, [b"x"], {"a": 1}, object()]
BAD_IDS: list[Any] = [
    "", "JOB0NSuyFGSM3", "JOB0NSuyFGSM3ww", "JOB0NSuyFGSM3_", "job0NSuyFGSM3w", "JOB:NSuyFGSM3w",
    "01234567890123", "JOB0NSuyFGSMé", "JOBAzL8n0Y58m8", "JOBzzzzzzzzzzz", " JOB0NSuyFGSM3w",
    "JOB0NSuyFGSM3w\n", "JOB\u0660NSuyFGSM3w", 7, 1.5, True, ["JOB0NSuyFGSM3w"],
]  # fmt: skip
BAD_QUEUES: list[Any] = [
    "", "a{b", "a}b", "a\0b", "emq\0", None, 7, b"bytes", ["list"], {}, "\ud800", "x" * 129,
]  # fmt: skip
BAD_LEASES: list[Any] = [0, -1, True, 1.5, "30000", None, 2**52 + 1, 10**30, timedelta(seconds=1)]
BAD_DELAYS: list[Any] = [
    -1, True, 1.5, "5", None, 2**52 + 1, timedelta(milliseconds=-1), timedelta.max,
]  # fmt: skip
BAD_TIMES: list[Any] = [
    datetime(2030, 1, 1), date(2030, 1, 1), time(12), 1.5, "2030-01-01T00:00:00Z", None, True, -1,  # noqa: DTZ001
    datetime(1969, 12, 31, tzinfo=UTC), timedelta(1), 2**52 + 1,
]  # fmt: skip


class Bad(NamedTuple):
    """A call, the error that it must raise and words of its message."""

    error: type[EmqError]
    words: str
    verb: str
    args: tuple[Any, ...]
    options: dict[str, Any]


def bad(raises: type[EmqError], words: str, verb: str, /, *args: Any, **options: Any) -> Bad:
    return Bad(raises, words, verb, args, options)


def _as_bytes(job_id: Any) -> Any:
    return job_id.encode() if isinstance(job_id, str) else job_id


def _bad_enqueues() -> Iterator[Bad]:
    job_id = mint.one()
    for one in BAD_PAYLOADS:
        yield bad(InvalidPayload, "bytes|encode", "enqueue", "q", one)
        yield bad(InvalidPayload, "bytes|encode", "enqueue_in", "q", one, 5)
        yield bad(InvalidPayload, "bytes|encode", "enqueue_at", "q", one, 5)
        pairs = [b"good", (job_id, one)]
        yield bad(InvalidPayload, r"items\[1\].*(bytes|encode)", "enqueue_many", "q", pairs)
    for one in [*BAD_IDS, *map(_as_bytes, BAD_IDS)]:
        yield bad(InvalidJobId, re.escape(repr(one)), "enqueue", "q", b"x", job_id=one)
        yield bad(InvalidJobId, r"items\[1\]", "enqueue_many", "q", [b"x", (one, b"x")])
        yield bad(InvalidLane, re.escape(repr(one)), "enqueue", "q", b"x", lane=one)
        yield bad(InvalidLane, re.escape(repr(one)), "enqueue_many", "q", [b"x"], lane=one)
    for one in BAD_QUEUES:
        yield bad(InvalidQueueName, "queue", "enqueue", one, b"x")
        yield bad(InvalidQueueName, "queue", "enqueue_in", one, b"x", 5)
        yield bad(InvalidQueueName, "queue", "enqueue_many", one, [b"x"])
    for one in BAD_DELAYS:
        yield bad(InvalidDuration, "delay=", "enqueue_in", "q", b"x", one)
    for one in BAD_TIMES:
        yield bad(InvalidDuration, "when=", "enqueue_at", "q", b"x", one)
    for items in ("text", b"bytes", bytearray(b"x"), memoryview(b"x"), None, 7, object()):
        yield bad(InvalidPayload, "give a list", "enqueue_many", "q", items)
    for item in ((), (b"x",), (job_id, b"x", b"y"), [job_id, b"x"]):
        yield bad(InvalidPayload, r"items\[1\]", "enqueue_many", "q", [b"x", item])
    other_kind = [b"x", (LANE, b"x")]
    yield bad(KindRefused, r"items\[1\].*JOB-namespaced", "enqueue_many", "q", other_kind)


def _bad_settlements() -> Iterator[Bad]:
    job = ClaimedJob(mint.one(), b"x", 1, "q")
    for one in BAD_QUEUES[:-1]:  # an existing queue may have a name that is too long for a new one
        yield bad(InvalidQueueName, "queue", "claim", one)
    for one in BAD_LEASES:
        yield bad(InvalidDuration, "lease_ms=", "claim", "q", one)
        yield bad(InvalidDuration, "lease_ms=", "claim", "q", lease_ms=one)
        yield bad(InvalidDuration, "lease_ms=", "extend", job, lease_ms=one)
    for one in BAD_DELAYS:
        yield bad(InvalidDuration, "delay", "retry", job, error="e", delay_ms=one)
    for one in (-1, True, 1.5, "5", None):
        tries = {"error": "e", "delay_ms": 5, "max_attempts": one}
        yield bad(InvalidInput, "max_attempts=", "retry", job, **tries)
    for one in (None, 7, b"bytes", ValueError("e")):
        yield bad(InvalidInput, "error=", "retry", job, error=one, delay_ms=5)
    for one in (None, "JOB0NSuyFGSM3w", b"x", 7, Receipt("JOB0NSuyFGSM3w", Verdict.ENQUEUED)):
        yield bad(InvalidInput, "job=", "complete", one)
        yield bad(InvalidInput, "job=", "release", one)
        yield bad(InvalidInput, "job=", "extend", one, lease_ms=5)
        yield bad(InvalidInput, "job=", "retry", one, error="e", delay_ms=5)


@pytest.mark.parametrize("table", [_bad_enqueues, _bad_settlements])
def test_bad_arguments_raise_one_typed_error_each_and_nothing_is_sent(
    face: Face,
    queue: str,
    monitor: Callable[[], AbstractContextManager[Recording]],
    table: Callable[[], Iterator[Bad]],
) -> None:
    face.enqueue(queue, b"a connection to send on is there")

    with monitor() as recording:
        for one in table():
            with pytest.raises(one.error, match=one.words) as caught:
                getattr(face, one.verb)(*one.args, **one.options)
            assert type(caught.value) is one.error, one

    assert recording.commands == []


def test_a_payload_over_the_limit_names_size_limit_and_remedy(
    face: Face, queue: str, settings: Settings
) -> None:
    settings.EMQ = {**settings.EMQ, "MAX_PAYLOAD_BYTES": 1_000}
    face.enqueue(queue, b"x" * 1_000)

    with pytest.raises(PayloadTooLarge, match=r"1,001 bytes.*MAX_PAYLOAD_BYTES.*1,000.*raise"):
        face.enqueue(queue, b"x" * 1_001)
