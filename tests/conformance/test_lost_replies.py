"""A reply that never comes: enqueue finds out what happened, claim and settle never guess.

A relay between the project and the server loses, cuts, holds up or swallows one exchange.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pytest

from emq_django import ClaimedJob, Verdict
from emq_django.conf import keys
from emq_django.errors import PartlyEnqueued, ReplyLost, Unreachable
from emq_django.protocol import claim as claiming
from emq_django.protocol import scripts, settle, upkeep
from emq_django.protocol.ids import mint
from tests.faces import FACES, Face
from tests.monitoring import record
from tests.proxy import Proxy
from tests.queue_state import check_invariants
from tests.speakers import SyncSpeaker

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from pytest_django.fixtures import Settings

    from tests.proxy import Mode
    from tests.servers import Server

LANE = "USR0NSuyFGSM3w"
SILENT = {"silent", "blackhole"}

# What the relay does to one exchange, and whether the server gets to see the command.
FAULTS: list[Mode] = ["drop_reply", "truncate", "silent", "close", "blackhole"]
ARRIVING = {"drop_reply", "truncate", "silent"}

# Whoever waits for a connection's own five seconds, and not for its deadline, is past this.
FAR_S = 3


class Relay(Proxy):
    """A proxy whose fault stays on the connection that it hit, however many reads follow."""

    def __init__(self, target_port: int) -> None:
        self._broken: WeakKeyDictionary[threading.Thread, Mode] = WeakKeyDictionary()
        self.resends = threading.Event()  # cleared: a resend is held until it is set
        self.resends.set()
        super().__init__(target_port)

    def _mode_for(self, request: bytes) -> Mode:
        if sha("readmit") in request:
            self.resends.wait(5)
        link = threading.current_thread()  # one thread relays the requests of one connection
        mode = super()._mode_for(request)
        if mode not in {"forward", "delay"}:
            self._broken[link] = mode
        return self._broken.get(link, mode)


@pytest.fixture
def proxy(server: Server) -> Iterator[Relay]:
    relay = Relay(server.port)
    yield relay
    relay.close()


def sha(name: str) -> bytes:
    return scripts.load(name).sha.encode()


@pytest.fixture(params=FACES)
def face(
    request: pytest.FixtureRequest, proxy: Proxy, settings: Settings, redis_client: redis.Redis
) -> Iterator[Face]:
    """The public verbs over the relay; the silence of the server is noticed soon."""
    mode = request.node.callspec.params.get("mode", "silent")
    read_s = 0.8 if mode in SILENT else 5
    settings.EMQ = {**settings.EMQ, "CONNECTION": f"{proxy.url}?socket_timeout={read_s}"}
    # A server that knows the script is asked once per attempt, which the tests count.
    redis_client.script_load(scripts.load("readmit").text)
    one = Face(request.param)
    yield one
    one.close()


@pytest.fixture
def direct(server: Server) -> Iterator[SyncSpeaker]:
    """Another speaker, whose connection is sound."""
    speaker = SyncSpeaker(server.port)
    yield speaker
    speaker.close()


@contextmanager
def counted(server: Server, script: str) -> Iterator[list[int]]:
    """Count how often the server ran a script in the block."""
    count: list[int] = []
    with record(server) as recording:
        yield count
    count.append(sum(sha(script) in command for command in recording.commands))


# --- enqueue -------------------------------------------------------------------------------------

VERBS: dict[str, tuple[str, Callable[[Face, str, bytes], Any]]] = {
    "now": ("pending", lambda face, queue, payload: face.enqueue(queue, payload)),
    "lane": ("lane", lambda face, queue, payload: face.enqueue(queue, payload, lane=LANE)),
    "in": ("schedule", lambda face, queue, payload: face.enqueue_in(queue, payload, 60_000)),
    "at": ("schedule", lambda face, queue, payload: face.enqueue_at(queue, payload, 2**41)),
}


def members(client: redis.Redis, queue: str, place: str) -> list[Any]:
    q = keys(queue)
    key = q.lane(LANE) if place == "lane" else getattr(q, place)
    return list(client.zrange(key, 0, -1))


@pytest.mark.parametrize(
    ("verb", "mode"),
    [
        *(("now", mode) for mode in FAULTS),
        *((verb, mode) for verb in ("lane", "in", "at") for mode in ("drop_reply", "close")),
    ],
)
def test_an_enqueue_is_admitted_once_and_its_id_comes_back(
    face: Face, proxy: Proxy, queue: str, redis_client: redis.Redis, verb: str, mode: Mode
) -> None:
    place, admit = VERBS[verb]
    warm = admit(face, queue, b"warm")
    proxy.arm(mode, matching=b"lost and found")

    receipt = admit(face, queue, b"lost and found")

    assert receipt.verdict is (Verdict.SCHEDULED if place == "schedule" else Verdict.ENQUEUED)
    assert members(redis_client, queue, place) == [warm.id.encode(), receipt.id.encode()]
    assert redis_client.hget(keys(queue).row(receipt.id), "payload") == b"lost and found"
    assert sum(b"lost and found" in request for request in proxy.seen) == 2
    assert sum(sha("readmit") in request for request in proxy.seen) >= 1
    check_invariants(redis_client, keys(queue))


def test_a_late_reply_is_waited_for_and_nothing_is_sent_again(
    face: Face, proxy: Proxy, queue: str
) -> None:
    face.enqueue(queue, b"warm")
    proxy.delay_s = 0.3
    proxy.arm("delay", matching=b"late")

    assert face.enqueue(queue, b"late").verdict is Verdict.ENQUEUED
    assert sum(b"late" in request for request in proxy.seen) == 1


def test_several_lost_replies_in_a_row_are_still_one_job(
    face: Face, proxy: Proxy, queue: str, redis_client: redis.Redis
) -> None:
    face.enqueue(queue, b"warm")
    proxy.arm("drop_reply", matching=b"again", times=5)

    receipt = face.enqueue(queue, b"again")

    assert receipt.verdict is Verdict.ENQUEUED
    assert redis_client.zcard(keys(queue).pending) == 2
    assert sum(b"again" in request for request in proxy.seen) == 6


@pytest.mark.parametrize("mode", ["drop_reply", "silent", "close"])
@pytest.mark.parametrize(
    ("stored", "verdict"), [(b"mine", Verdict.ENQUEUED), (b"yours", Verdict.DUPLICATE)]
)
def test_the_stored_bytes_tell_whose_a_caller_id_is(
    face: Face,
    proxy: Proxy,
    queue: str,
    redis_client: redis.Redis,
    mode: Mode,
    stored: bytes,
    verdict: Verdict,
) -> None:
    job_id = face.enqueue(queue, stored).id
    proxy.arm(mode, matching=b"mine")

    receipt = face.enqueue(queue, b"mine", job_id=job_id)

    assert (receipt.id, receipt.verdict) == (job_id, verdict)
    assert redis_client.hget(keys(queue).row(job_id), "payload") == stored
    assert redis_client.zcard(keys(queue).pending) == 1


def test_a_server_that_stays_silent_ends_in_one_error_at_the_deadline(
    face: Face, proxy: Proxy, queue: str, settings: Settings, redis_client: redis.Redis
) -> None:
    settings.EMQ = {**settings.EMQ, "CONNECTION": proxy.url, "ENQUEUE_DEADLINE_S": 1}
    face.enqueue(queue, b"warm")
    proxy.mode = "silent"

    began_s = time.monotonic()
    with pytest.raises(ReplyLost, match=r"JOB\w{11} may have been admitted"):
        face.enqueue(queue, b"x")
    took_s = time.monotonic() - began_s

    assert 0.9 < took_s < FAR_S
    assert redis_client.zcard(keys(queue).pending) == 2
    began_s = time.monotonic()
    with pytest.raises(Unreachable):  # a new connection may not even get so far as to send
        face.enqueue(queue, b"y")
    assert time.monotonic() - began_s < FAR_S
    proxy.mode = "forward"
    assert face.enqueue(queue, b"z").verdict is Verdict.ENQUEUED


def test_a_host_that_answers_no_connect_is_given_up_at_the_deadline(
    face: Face, queue: str, settings: Settings
) -> None:
    # The backlog is full: the system drops what else comes, as a firewall does.
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, ExitStack() as opened:
        address = listener.getsockname()
        for _ in range(2):
            one = opened.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(address)
        settings.EMQ = {
            **settings.EMQ,
            "CONNECTION": f"redis://127.0.0.1:{address[1]}/0",
            "ENQUEUE_DEADLINE_S": 0.5,
        }

        for _ in range(2):
            began_s = time.monotonic()
            with pytest.raises(Unreachable) as caught:
                face.enqueue(queue, b"x")
            assert type(caught.value) is Unreachable
            assert 0.4 < time.monotonic() - began_s < FAR_S


def test_a_reply_lost_by_id_can_be_asked_for(
    face: Face, proxy: Proxy, queue: str, settings: Settings
) -> None:
    settings.EMQ = {**settings.EMQ, "ENQUEUE_DEADLINE_S": 0}
    face.enqueue(queue, b"warm")
    job_id = mint.one()
    proxy.arm("drop_reply", matching=b"mine")

    with pytest.raises(ReplyLost, match=f"{job_id} may have been admitted.*this job_id") as caught:
        face.enqueue(queue, b"mine", job_id=job_id)
    assert f"get_result('{queue}:{job_id}')" in str(caught.value)
    assert ".." not in str(caught.value)

    assert face.enqueue(queue, b"mine", job_id=job_id).verdict is Verdict.DUPLICATE


def test_closed_connections_cost_nothing(
    face: Face, proxy: Proxy, queue: str, redis_client: redis.Redis
) -> None:
    for number in range(5):
        face.enqueue(queue, b"%d" % number)
        proxy.drop_connections()

    payloads = [
        redis_client.hget(keys(queue).row(job_id.decode()), "payload")
        for job_id in members(redis_client, queue, "pending")
    ]
    assert payloads == [b"0", b"1", b"2", b"3", b"4"]


def test_scripts_that_the_server_forgot_are_no_lost_reply(
    face: Face, proxy: Proxy, queue: str, redis_client: redis.Redis
) -> None:
    face.enqueue(queue, b"warm")
    redis_client.script_flush()
    proxy.arm("drop_reply", matching=b"LOAD")

    assert face.enqueue(queue, b"x").verdict is Verdict.ENQUEUED

    redis_client.script_flush()
    receipts = face.enqueue_many(queue, [b"x"] * 250)
    assert len(receipts) == 250
    assert redis_client.zcard(keys(queue).pending) == 252


# --- a job that ran before the resend ------------------------------------------------------------


@contextmanager
def consumer(
    direct: SyncSpeaker, proxy: Relay, queue: str, done_ms: int
) -> Iterator[list[ClaimedJob]]:
    """Claim and complete the first job as soon as it is there, and before any resend."""
    ran: list[ClaimedJob] = []
    proxy.resends.clear()

    def consume() -> None:
        q = keys(queue)
        deadline = time.monotonic() + 5
        while not ran and time.monotonic() < deadline:
            job = direct.run(claiming.claim(q, 30_000))
            if job is not None:
                assert direct.run(settle.complete(q, job, done_ms)) is Verdict.COMPLETED
                ran.append(job)
        proxy.resends.set()

    thread = threading.Thread(target=consume)
    thread.start()
    yield ran
    thread.join()


@pytest.mark.parametrize("job_id", [None, "JOB0NSuyFGSM3w"])
def test_a_job_that_ran_meanwhile_is_not_run_again_while_its_mark_lives(
    face: Face, proxy: Relay, queue: str, redis_client: redis.Redis, direct: SyncSpeaker,
    job_id: str | None,
) -> None:  # fmt: skip
    redis_client.delete(keys(queue).pending)
    proxy.arm("silent", matching=b"runs once")

    with consumer(direct, proxy, queue, done_ms=10_000) as ran:
        receipt = face.enqueue(queue, b"runs once", job_id=job_id)

    assert receipt.verdict is Verdict.ENQUEUED
    assert [job.id for job in ran] == [receipt.id]
    assert redis_client.exists(keys(queue).row(receipt.id), keys(queue).pending) == 0
    assert direct.run(claiming.claim(keys(queue), 30_000)) is None


def test_without_a_mark_the_resend_admits_the_job_once_more(
    face: Face, proxy: Relay, queue: str, redis_client: redis.Redis, direct: SyncSpeaker
) -> None:
    proxy.arm("silent", matching=b"runs twice")

    with consumer(direct, proxy, queue, done_ms=0) as ran:
        receipt = face.enqueue(queue, b"runs twice")

    assert receipt.verdict is Verdict.ENQUEUED
    assert [job.id for job in ran] == [receipt.id]
    assert members(redis_client, queue, "pending") == [receipt.id.encode()]


def test_a_bulk_does_not_run_again_what_ran_meanwhile(
    face: Face, proxy: Relay, queue: str, redis_client: redis.Redis, direct: SyncSpeaker
) -> None:
    proxy.arm("silent", matching=b"in a bulk")

    with consumer(direct, proxy, queue, done_ms=10_000) as ran:
        receipts = face.enqueue_many(queue, [b"in a bulk"] * 5)

    ids = [receipt.id for receipt in receipts]
    assert {receipt.verdict for receipt in receipts} == {Verdict.ENQUEUED}
    assert [job.id for job in ran] == ids[:1]
    assert members(redis_client, queue, "pending") == [job_id.encode() for job_id in ids[1:]]


# --- bulk ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lane", "given"), [(None, False), (LANE, True)], ids=["flat-minted", "lane-given"]
)
@pytest.mark.parametrize("mode", FAULTS)
def test_a_bulk_that_breaks_in_the_middle_of_a_flush_is_admitted_once(
    face: Face, proxy: Proxy, queue: str, redis_client: redis.Redis, mode: Mode,
    lane: str | None, given: bool,
) -> None:  # fmt: skip
    # Some 200 KiB a flush: the relay reads each in several pieces, and one of them breaks.
    payloads = [b"<%04d>" % (number // 10) * 30 for number in range(2_500)]
    items = [(mint.one(), payload) for payload in payloads] if given else payloads
    proxy.arm(mode, matching=b"<0155>")

    receipts = face.enqueue_many(queue, items, lane=lane)

    assert {receipt.verdict for receipt in receipts} == {Verdict.ENQUEUED}
    ids = [receipt.id.encode() for receipt in receipts]
    assert members(redis_client, queue, "lane" if lane else "pending") == ids
    with redis_client.pipeline(transaction=False) as pipe:
        for receipt in receipts:
            pipe.hget(keys(queue).row(receipt.id), "payload")
        assert pipe.execute() == payloads
    assert sum(sha("readmit") in request for request in proxy.seen) >= 1
    check_invariants(redis_client, keys(queue))


def test_a_bulk_that_cannot_go_on_says_what_is_in_and_what_may_be(
    face: Face, proxy: Proxy, queue: str, settings: Settings, redis_client: redis.Redis
) -> None:
    settings.EMQ = {**settings.EMQ, "ENQUEUE_DEADLINE_S": 0}
    ids = [mint.one() for _ in range(2_500)]
    proxy.arm("close", matching=ids[1_500].encode())

    with pytest.raises(PartlyEnqueued, match="of 2500 jobs were admitted") as caught:
        face.enqueue_many(queue, [(job_id, b"x" * 200) for job_id in ids])

    pending = set(members(redis_client, queue, "pending"))
    kinds = {"in": 0, "maybe": 0, "unsent": 0}
    for job_id, outcome in zip(ids, caught.value.outcomes, strict=True):
        if isinstance(outcome, ReplyLost):
            kinds["maybe"] += 1
            assert job_id in str(outcome)
        elif isinstance(outcome, Unreachable):
            kinds["unsent"] += 1
            assert job_id.encode() not in pending
        else:
            kinds["in"] += 1
            assert job_id.encode() in pending
    assert kinds["in"] >= 1_000
    assert 1 <= kinds["maybe"] <= 1_000
    assert kinds["unsent"] == 500


# --- claim ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", FAULTS)
def test_a_claim_is_never_sent_twice_and_its_job_comes_back_after_the_lease(
    face: Face, proxy: Proxy, queue: str, redis_client: redis.Redis, server: Server,
    direct: SyncSpeaker, mode: Mode,
) -> None:  # fmt: skip
    first, second = (face.enqueue(queue, payload).id for payload in (b"1", b"2"))
    proxy.arm(mode, matching=sha("claim"))

    with counted(server, "claim") as count, pytest.raises(ReplyLost):
        face.claim(queue, 1)

    arrived = mode in ARRIVING
    # A server that does not know the script yet is asked once more: nothing ran.
    assert count[0] <= 1 + arrived
    q = keys(queue)
    assert redis_client.zcard(q.active) <= 1
    if redis_client.zcard(q.active):
        _after_the_lease(redis_client, queue)
        assert direct.run(upkeep.reap(q)).moved == 1
    check_invariants(redis_client, q)
    jobs = [face.claim(queue), face.claim(queue)]
    assert [job.id for job in jobs] == [first, second]
    assert jobs[0].attempts in ({1, 2} if arrived else {1})
    assert jobs[1].attempts == 1


def test_a_claim_whose_reply_is_lost_leaves_the_next_job_to_the_next_claim(
    face: Face, proxy: Proxy, queue: str, redis_client: redis.Redis, server: Server
) -> None:
    _, second = (face.enqueue(queue, payload).id for payload in (b"1", b"2"))
    face.claim(queue + "-other")  # the script is there
    proxy.arm("drop_reply", matching=sha("claim"))

    with counted(server, "claim") as count, pytest.raises(ReplyLost):
        face.claim(queue)
    job = face.claim(queue)

    assert count == [1]
    assert job.id == second
    assert redis_client.zcard(keys(queue).active) == 2


# --- settle --------------------------------------------------------------------------------------

SETTLES: dict[str, tuple[Callable[[Face, ClaimedJob], Verdict], Verdict, str | None]] = {
    "complete": (lambda face, job: face.complete(job), Verdict.GONE, None),
    "release": (lambda face, job: face.release(job), Verdict.STALE, "pending"),
    "retry": (
        lambda face, job: face.retry(job, error="e", delay_ms=60_000), Verdict.STALE, "schedule",
    ),
    "extend": (lambda face, job: face.extend(job, lease_ms=60_000), Verdict.EXTENDED, "active"),
}  # fmt: skip


@pytest.mark.parametrize("verb", SETTLES)
@pytest.mark.parametrize("mode", ["drop_reply", "silent", "close"])
def test_a_settlement_is_sent_once_and_can_be_sent_again_without_harm(
    face: Face, proxy: Proxy, queue: str, redis_client: redis.Redis, verb: str, mode: Mode
) -> None:
    send, after_arrival, place = SETTLES[verb]
    face.enqueue(queue, b"warm")
    send(face, face.claim(queue))  # the script is there
    face.enqueue(queue, b"job")
    while (job := face.claim(queue)).payload != b"job":
        pass
    before = sum(sha(verb) in request for request in proxy.seen)
    proxy.arm(mode, matching=sha(verb))

    with pytest.raises(ReplyLost):
        send(face, job)

    assert sum(sha(verb) in request for request in proxy.seen) == before + 1
    again = send(face, job)
    moved = {"complete": Verdict.COMPLETED, "release": Verdict.RELEASED, "retry": Verdict.SCHEDULED}
    expected = after_arrival if mode in ARRIVING else moved.get(verb, Verdict.EXTENDED)
    assert again is expected
    held = check_invariants(redis_client, keys(queue))
    assert held.place(job.id) == ([place] if place else [])
    if verb == "retry":
        assert held.row(job.id)[b"failures"] == b"1"


def _after_the_lease(client: redis.Redis, queue: str) -> None:
    (entry,) = client.zrange(keys(queue).active, 0, -1, withscores=True)
    ends_ms = float(entry[1])
    while True:  # the lease is a millisecond of the server's clock
        seconds, micros = client.time()
        if int(seconds) * 1_000 + int(micros) // 1_000 > ends_ms:
            return
