"""The two documents of the specification, "Enqueue & claim" and "The record hash", line by line."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from emq_django import api, errors
from emq_django.protocol import claim, enqueue, ids, keyspace, settle
from emq_django.protocol.calls import Call
from emq_django.protocol.records import Verdict
from tests.queue_state import read_state
from tests.speakers import raw

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from emq_django.protocol.keyspace import Queue
    from tests.monitoring import Recording
    from tests.speakers import Speaker

PROTOCOL_ID = "JOB0KHTOWnGLuC"
FOREIGN_KIND = "ORD0KHTOWnGLuC"  # well formed, another namespace
LEASE_MS = 30_000


def server_ms(client: Any) -> int:
    seconds, micros = client.time()
    return int(seconds) * 1000 + int(micros) // 1000


# --- Enqueue: the verdicts ------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_new_id_is_enqueued_with_its_row_and_its_pending_entry(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    verdict = speaker.run(enqueue.enqueue(q, PROTOCOL_ID, b"\x00\r\n\xff"))

    assert verdict is Verdict.ENQUEUED
    assert client.hgetall(q.row(PROTOCOL_ID)) == {
        b"state": b"pending",
        b"attempts": b"0",
        b"payload": b"\x00\r\n\xff",
    }
    assert client.zrange(q.pending, 0, -1, withscores=True) == [(PROTOCOL_ID.encode(), 0.0)]
    assert set(read_state(client, q).keys) == {b"pending", b"job:" + PROTOCOL_ID.encode()}


def test_a_duplicate_writes_nothing_and_the_first_payload_stays(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    speaker.run(enqueue.enqueue(q, PROTOCOL_ID, b"first"))
    before = read_state(client, q)

    assert speaker.run(enqueue.enqueue(q, PROTOCOL_ID, b"second")) is Verdict.DUPLICATE

    assert read_state(client, q) == before


@pytest.mark.parametrize("state", ["active", "scheduled", "dead"])
def test_an_id_is_a_duplicate_wherever_its_row_lives(
    speaker: Speaker, client: Any, q: Queue, state: str
) -> None:
    speaker.run(enqueue.enqueue(q, PROTOCOL_ID, b"first"))
    job = speaker.run(claim.claim(q, LEASE_MS))
    assert job is not None
    if state != "active":
        speaker.run(settle.retry(q, job, "boom", 60_000, 9 if state == "scheduled" else 1))
    before = read_state(client, q)
    assert before.row(PROTOCOL_ID)[b"state"] == state.encode()

    assert speaker.run(enqueue.enqueue(q, PROTOCOL_ID, b"second")) is Verdict.DUPLICATE

    assert read_state(client, q) == before


def test_an_id_can_come_again_once_its_job_is_complete(speaker: Speaker, q: Queue) -> None:
    speaker.run(enqueue.enqueue(q, PROTOCOL_ID, b"1"))
    job = speaker.run(claim.claim(q, LEASE_MS))
    assert job is not None
    speaker.run(settle.complete(q, job))

    assert speaker.run(enqueue.enqueue(q, PROTOCOL_ID, b"2")) is Verdict.ENQUEUED


def test_another_kind_is_refused_on_the_server_before_any_write(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    with pytest.raises(errors.KindRefused, match="EMQKIND"):
        speaker.run(enqueue.enqueue(q, FOREIGN_KIND, b"payload"))

    assert read_state(client, q).keys == {}


def test_the_kind_gate_comes_before_the_existence_test(
    speaker: Speaker, client: Any, bare_q: Queue
) -> None:
    client.hset(bare_q.row(FOREIGN_KIND), "state", "pending")

    with pytest.raises(errors.KindRefused):
        speaker.run(enqueue.enqueue(bare_q, FOREIGN_KIND, b"payload"))


BAD_IDS = [
    "job0KHTOWnGLuC", "JOB0KHTOWnGLu", "JOB0KHTOWnGLuCC", "JOB0KHTOWnGLu-", "JOBAzL8n0Y58m8",
    "JOBB0000000000", "JOBa0000000000", "JOBzzzzzzzzzzz", "J0B00000000000", "JOB-0000000000",
    "JOB 0000000000", "JOB0KHTOWnGLü1", "JOB0KHTOWnGLu\n", "", "0KHTOWnGLuC",
]  # fmt: skip


def test_a_malformed_id_never_reaches_the_wire(
    server_monitor: Callable[[], AbstractContextManager[Recording]],
) -> None:
    with server_monitor() as recording:
        for bad in BAD_IDS:
            with pytest.raises(errors.InvalidJobId, match="14 characters"):
                api.enqueue("specification", b"payload", job_id=bad)

    assert recording.commands == []


@pytest.mark.parametrize("bad", ["", "a{b", "a}b", "a\0b", "{q}", "\ud800"])
def test_a_queue_name_with_a_brace_or_nul_raises_before_any_key_is_built(
    server_monitor: Callable[[], AbstractContextManager[Recording]],
    bad: str,
) -> None:
    with server_monitor() as recording:
        with pytest.raises(errors.InvalidQueueName, match="is not a queue name"):
            api.enqueue(bad, b"payload")
        with pytest.raises(errors.InvalidQueueName, match="is not a queue name"):
            api.claim(bad)

    assert recording.commands == []


def test_via_names_what_runs_the_call_and_is_carried_never_inspected() -> None:
    class Via:
        def run(self, call: object) -> Verdict:
            self.call = call
            return Verdict.ENQUEUED

    via = Via()

    receipt = api.enqueue("specification", b"payload", job_id=PROTOCOL_ID, via=via)

    assert receipt.verdict is Verdict.ENQUEUED
    assert isinstance(via.call, Call)
    assert via.call.args == (PROTOCOL_ID, b"payload")


# --- Enqueue: the wire ----------------------------------------------------------------------------


def test_enqueue_and_claim_send_the_two_commands_of_the_specification_and_nothing_else(
    speaker: Speaker, q: Queue, monitor: Callable[[], AbstractContextManager[Recording]]
) -> None:
    enqueuing, claiming = enqueue.enqueue(q, PROTOCOL_ID, b"\xff\0"), claim.claim(q, LEASE_MS)
    speaker.run(claiming)
    speaker.run(enqueue.enqueue(q, "JOB00000000001", b""))  # both scripts are in the cache now
    speaker.run(claiming)

    with monitor() as recording:
        speaker.run(enqueuing)
        speaker.run(claiming)

    root = b"emq:{" + q.name.encode() + b"}:"
    row = root + b"job:" + PROTOCOL_ID.encode()
    # The one named difference: the pause flag is read inside the claim, not in a trip before it.
    assert recording.commands == [
        (b"EVALSHA", enqueuing.script.sha.encode(), b"2", row, root + b"pending",
         PROTOCOL_ID.encode(), b"\xff\0"),
        (b"EVALSHA", claiming.script.sha.encode(), b"3", root + b"pending", root + b"active",
         root, b"30000"),
    ]  # fmt: skip


# --- Enqueue: order -------------------------------------------------------------------------------


@pytest.mark.slow
def test_byte_order_is_mint_order_over_10000_ids_from_8_threads(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    minted: list[str] = []
    lock = threading.Lock()

    def mint_some() -> None:
        for _ in range(1_250):
            with lock:  # the order of the list is the order of minting
                minted.append(ids.mint.one())

    threads = [threading.Thread(target=mint_some) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    calls = [
        enqueue.enqueue_many(q, [(job_id, b"") for job_id in minted[i : i + 100]])
        for i in range(9_900, -1, -100)  # admitted backwards: the order is not that of arrival
    ]

    verdicts = [verdict for answer in speaker.run_many(calls) for verdict in _verdicts(answer)]

    assert verdicts == [Verdict.ENQUEUED] * 10_000
    stored = client.zrange(q.pending, 0, -1, withscores=True)
    assert [member.decode() for member, _ in stored] == minted
    assert {score for _, score in stored} == {0.0}


def _verdicts(answer: object) -> list[Verdict]:
    assert isinstance(answer, list), answer
    return answer


@pytest.mark.slow
def test_ids_of_4_processes_are_in_order_to_the_ms(speaker: Speaker, client: Any, q: Queue) -> None:
    code = (
        "import sys, time\n"
        "from emq_django.protocol.ids import mint\n"
        "input()\n"
        "for _ in range(500):\n"
        "    before = time.time_ns() // 1_000_000\n"
        "    job_id = mint.one()\n"
        "    print(before, job_id, time.time_ns() // 1_000_000)\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    lines = [line.split() for process in processes for line in process.communicate()[0].split("\n")]
    minted = {job_id: (int(before), int(after)) for before, job_id, after in filter(None, lines)}
    assert len(minted) == 2_000

    speaker.run_many([enqueue.enqueue(q, job_id, b"") for job_id in minted])

    order = [member.decode() for member in client.zrange(q.pending, 0, -1)]
    latest_start = 0
    for job_id in order:
        before, after = minted[job_id]
        # None was minted in an earlier ms than one that stands before it.
        assert after >= latest_start
        latest_start = max(latest_start, before)


# --- Claim ----------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_claim_answers_id_payload_and_attempts_and_leases_the_job(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    speaker.run(enqueue.enqueue(q, PROTOCOL_ID, b"payload"))

    reply = speaker.run(raw(claim.claim(q, LEASE_MS)))

    assert reply == [PROTOCOL_ID.encode(), b"payload", 1]
    state = read_state(client, q)
    assert state.row(PROTOCOL_ID) == {
        b"state": b"active",
        b"attempts": b"1",
        b"payload": b"payload",
    }
    assert state.place(PROTOCOL_ID) == ["active"]


def test_the_oldest_id_is_claimed_first(speaker: Speaker, q: Queue) -> None:
    minted = ids.mint.many(5)
    speaker.run(enqueue.enqueue_many(q, [(job_id, b"") for job_id in reversed(minted)]))

    claimed = [speaker.run(claim.claim(q, LEASE_MS)) for _ in minted]

    assert [job.id for job in claimed if job] == minted


def test_an_empty_queue_answers_an_empty_array(speaker: Speaker, q: Queue) -> None:
    call = claim.claim(q, LEASE_MS)

    assert speaker.run(raw(call)) == []
    assert speaker.run(call) is None


def test_attempts_is_the_fencing_token_and_rises_with_each_claim(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    speaker.run(enqueue.enqueue(q, PROTOCOL_ID, b""))
    tokens = []
    for _ in range(3):
        job = speaker.run(claim.claim(q, LEASE_MS))
        assert job is not None
        tokens.append(job.attempts)
        speaker.run(settle.release(q, job))

    assert tokens == [1, 2, 3]
    assert read_state(client, q).row(PROTOCOL_ID)[b"attempts"] == b"3"


@pytest.mark.parametrize("drift_s", [-600, 0, 600])
def test_the_lease_is_the_servers_time_plus_the_window_whatever_our_clock_says(
    speaker: Speaker,
    client: Any,
    q: Queue,
    monkeypatch: pytest.MonkeyPatch,
    drift_s: int,
) -> None:
    speaker.run(enqueue.enqueue(q, PROTOCOL_ID, b""))
    real_s, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real_s() + drift_s)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + drift_s * 1_000_000_000)
    before = server_ms(client)

    speaker.run(claim.claim(q, 12_345))

    after = server_ms(client)
    score = client.zscore(q.active, PROTOCOL_ID)
    assert score is not None
    assert before + 12_345 <= score <= after + 12_345


def test_a_paused_queue_hands_nothing_over_and_keeps_its_jobs(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    speaker.run(enqueue.enqueue(q, PROTOCOL_ID, b""))
    client.hset(q.meta, "paused", "1")
    before = read_state(client, q)

    assert speaker.run(claim.claim(q, LEASE_MS)) is None

    assert read_state(client, q) == before
    client.hdel(q.meta, "paused")
    assert speaker.run(claim.claim(q, LEASE_MS)) is not None


def test_any_value_of_the_flag_is_a_pause(speaker: Speaker, client: Any, q: Queue) -> None:
    speaker.run(enqueue.enqueue(q, PROTOCOL_ID, b""))
    client.hset(q.meta, "paused", "0")

    assert speaker.run(claim.claim(q, LEASE_MS)) is None


def test_a_ghost_is_consumed_without_a_skeleton_and_the_next_claim_serves_the_head(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    ghost, real = "JOB00000000001", PROTOCOL_ID
    client.zadd(q.pending, {ghost: 0})
    speaker.run(enqueue.enqueue(q, real, b"real"))

    assert speaker.run(claim.claim(q, LEASE_MS)) is None

    state = read_state(client, q)
    assert set(state.keys) == {b"pending", b"job:" + real.encode()}
    job = speaker.run(claim.claim(q, LEASE_MS))
    assert job is not None
    assert (job.id, job.payload, job.attempts) == (real, b"real", 1)


@pytest.mark.parametrize("lease", [0, -1, 1.5, "30000", None, True, 2**52 + 1, float("nan")])
def test_a_lease_that_is_not_a_positive_integer_never_reaches_the_wire(
    q: Queue, lease: int
) -> None:
    with pytest.raises(errors.InvalidDuration, match="whole number of milliseconds from 1"):
        claim.claim(q, lease)


# --- Both ----------------------------------------------------------------------------------------


def test_the_keys_are_spelled_as_specified() -> None:
    q = keyspace.queue("q")

    assert q.row(PROTOCOL_ID) == b"emq:{q}:job:JOB0KHTOWnGLuC"
    assert (q.pending, q.active, q.base) == (b"emq:{q}:pending", b"emq:{q}:active", b"emq:{q}:")


def test_any_bytes_come_back_as_they_went_in(speaker: Speaker, q: Queue) -> None:
    payloads = [
        b"",
        bytes(range(256)),
        b"\0",
        b"\r\n$5\r\nhello\r\n",
        b"*1\r\n",
        os.urandom(1 << 20),
    ]
    minted = ids.mint.many(len(payloads))
    speaker.run_many(
        [enqueue.enqueue(q, job_id, data) for job_id, data in zip(minted, payloads, strict=True)]
    )

    claimed = [speaker.run(claim.claim(q, LEASE_MS)) for _ in payloads]

    assert [job.payload for job in claimed if job] == payloads
