"""C10: a server at its memory limit refuses admissions aloud, and the queue can be emptied."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from emq_django import Verdict
from emq_django.admin.links import Links
from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.errors import ServerFull
from emq_django.protocol import upkeep
from tests.engines import BINARIES, name_of, own_server
from tests.faces import FACES, Face
from tests.queue_state import check_invariants

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from pytest_django.fixtures import Settings

    from tests.queue_state import QueueState

QUEUE = "emails"
LANE = "USR0NSuyFGSM3w"

pytestmark = pytest.mark.usefixtures("server")


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    one = Face(request.param)
    yield one
    one.close()


@pytest.fixture(params=BINARIES, ids=name_of)
def client(request: pytest.FixtureRequest, settings: Settings) -> Iterator[redis.Redis]:
    """A client of a server of this test, to which the project's queues point."""
    with own_server(request.param, settings) as server, server.client() as raw:
        yield raw


def fill_up(client: redis.Redis) -> None:
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", "1")


def free(client: redis.Redis) -> None:
    client.config_set("maxmemory", "0")


def state(client: redis.Redis) -> QueueState:
    return check_invariants(client, keys(QUEUE))


@pytest.mark.parametrize(
    "admit",
    [
        lambda face: face.enqueue(QUEUE, b"x"),
        lambda face: face.enqueue(QUEUE, b"x", lane=LANE),
        lambda face: face.enqueue_in(QUEUE, b"x", 5),
        lambda face: face.enqueue_at(QUEUE, b"x", 5),
        lambda face: face.enqueue_many(QUEUE, [b"x"] * 250),
        lambda face: face.enqueue_many(QUEUE, [b"x"] * 250, lane=LANE),
    ],
    ids=["now", "lane", "in", "at", "many", "many-lane"],
)
def test_every_admission_is_refused_and_leaves_nothing(
    face: Face, client: redis.Redis, admit: Callable[[Face], Any]
) -> None:
    fill_up(client)

    with pytest.raises(ServerFull):
        admit(face)

    assert client.keys(keys(QUEUE).base + b"*") == []
    free(client)
    admit(face)
    assert client.keys(keys(QUEUE).base + b"*") != []


def test_claim_and_complete_work_on_a_full_server(face: Face, client: redis.Redis) -> None:
    face.enqueue_many(QUEUE, [b"%d" % number for number in range(20)])
    fill_up(client)

    runs = []
    while (job := face.claim(QUEUE)) is not None:
        runs.append(job.payload)
        assert face.complete(job) is Verdict.COMPLETED

    assert runs == [b"%d" % number for number in range(20)]
    assert client.keys(keys(QUEUE).base + b"job:*") == []


@pytest.mark.parametrize(
    "verb",
    [
        lambda face, job: face.retry(job, error="e" * 100, delay_ms=5),
        lambda face, job: face.retry(job, error="e" * 100, delay_ms=5, max_attempts=1),
        lambda face, job: face.release(job),
        lambda face, job: face.extend(job, lease_ms=60_000),
        lambda face, job: wire_for(keys(QUEUE)).run(upkeep.promote(keys(QUEUE))),
        lambda face, job: wire_for(keys(QUEUE)).run(upkeep.reap(keys(QUEUE))),
    ],
    ids=["retry", "bury", "release", "extend", "promote", "reap"],
)
def test_a_verb_works_on_a_full_server_or_leaves_the_job_where_it_was(
    face: Face, client: redis.Redis, verb: Callable[[Face, Any], Any]
) -> None:
    face.enqueue_many(QUEUE, [b"x"] * 5)
    face.enqueue_in(QUEUE, b"due", 0)
    expired = face.claim(QUEUE, 1)
    held = face.claim(QUEUE, 60_000)
    while (client.zscore(keys(QUEUE).active, expired.id) or 0) >= _now_ms(client):
        pass  # the server's clock decides, and it is about a millisecond away
    before = state(client)
    fill_up(client)

    refused = False
    try:
        verb(face, held)
    except ServerFull:
        refused = True

    after = state(client)
    assert (after == before) is refused
    assert set(after.places) == set(before.places)


def test_twenty_jobs_end_with_one_run_each_once_there_is_room(
    face: Face, client: redis.Redis
) -> None:
    receipts = face.enqueue_many(QUEUE, [b"x"] * 20)
    fill_up(client)
    runs: dict[str, int] = dict.fromkeys((receipt.id for receipt in receipts), 0)

    for _ in range(5):
        job = face.claim(QUEUE)
        with pytest.raises(ServerFull):
            face.enqueue(QUEUE, b"more")
        runs[job.id] += 1
        assert face.complete(job) is Verdict.COMPLETED
    free(client)
    while (job := face.claim(QUEUE)) is not None:
        runs[job.id] += 1
        assert face.complete(job) is Verdict.COMPLETED

    assert set(runs.values()) == {1}
    assert state(client).places == {}


@pytest.mark.django_db
def test_the_admin_opens_on_a_full_server(client: redis.Redis) -> None:
    sync = Face("sync")
    sync.enqueue_many(QUEUE, [b"x"] * 20)
    sync.close()
    fill_up(client)
    browser = Client()
    browser.force_login(User.objects.create_superuser("root"))
    url = Links("admin").queue(QUEUE)
    assert url is not None

    response = browser.get(url)

    assert response.status_code == 200
    assert b"JOB" in response.content


def _now_ms(client: redis.Redis) -> float:
    seconds, micros = client.time()
    return float(int(seconds) * 1_000 + int(micros) // 1_000)
