"""The original's conformance list, in its order and with its verdicts, by our builders.

Each test has a scenario's name. What is not here is named in `ELSEWHERE` with the reason.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis

from emq_django import errors
from emq_django.errors import FenceRefused
from emq_django.protocol import (
    claim,
    enqueue,
    ids,
    keyspace,
    lanes,
    notes,
    operate,
    read,
    repeats,
    settle,
    upkeep,
)
from emq_django.protocol.lanes import Reassigned
from emq_django.protocol.operate import Obliterated, Removed, Reprocessed, Updated
from emq_django.protocol.records import ClaimedJob, JobSet, Verdict
from emq_django.protocol.repeats import Firing
from emq_django.wire.fence import greeting
from emq_django.wire.kept import KeptClient
from emq_django.wire.sync import Wire
from emq_django.worker.retry import ceiling_ms
from tests.acts import (
    LANE,
    LEASE_MS,
    OTHER_LANE,
    expire,
    fall_due,
    kill,
    put,
    put_many,
    put_off,
    start,
    take_all,
    take_one,
)
from tests.queue_state import read_state
from tests.speakers import SyncSpeaker

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from tests.servers import Server
    from tests.speakers import Speaker

LISTED_TEXT = """
fence mint duplicate kind order claim stale complete retry dead reap rotate pause limit schedule
repeat backoff resubscribe counts state metrics dedup rate lane_depth queue_pause drain obliterate
update_data update_progress job_logs remove_job reprocess_job lock_extend stalled events telemetry
cancel unknown_state rate_consult dedup_release extend_locks_batch stalled_group obliterate_grouped
reassign lane_drain reap_group flow_add flow_fanin flow_children_values flow_cross_queue
flow_fail_parent flow_ignore_dep flow_add_bulk flow_grandchild flow_grandchild_fail pool_enqueue
pool_order native_lock_field native_lock_refuses weighted_proportion starvation_drill batch_claim
batch_claim_short batch_partial_failure batch_shaping_floor batch_shaping_timeout
batch_shaping_partial_failure grouped_batch_affinity grouped_batch_ceiling grouped_batch_fairness
batch_partition batch_delay batch_delay_stale stream_verbs stream_append stream_group
stream_retention stream_archived stream_time_travel
"""
LISTED = LISTED_TEXT.split()

ELSEWHERE = {
    "flow_": "parents and children are not spoken yet",
    "stream_": "event streams are not spoken yet",
    "batch_shaping_": "a consumer of batches is not there yet",
    "resubscribe": "in tests.django.test_listen: a matter of the listener, not of a transition",
    "telemetry": "inside the original's process, nothing on the wire",
    "cancel": "inside the original's process, nothing on the wire",
}


def test_every_scenario_is_here_or_elsewhere_for_a_reason() -> None:
    here = re.findall(r"^def test_(\w+)\(", Path(__file__).read_text("utf-8"), re.MULTILINE)
    assert len(LISTED) == 79

    missing = [name for name in LISTED if name not in here]

    assert [name for name in missing if not name.startswith(tuple(ELSEWHERE))] == []
    assert [name for name in here if name in LISTED] == [n for n in LISTED if n in here]


# --- Fence to pause -------------------------------------------------------------------------------


def test_fence(engine: Server, client: Any) -> None:
    """A first client claims an empty database, the next reads its own version, another refuses."""

    def connect(claimed: str | None) -> bool:
        kept = KeptClient(
            lambda: redis.Connection(port=engine.port, db=7),  # type: ignore[no-untyped-call]
            greet=lambda: greeting(claimed),
        )
        try:
            return Wire(kept, 4).run(operate.resume(keyspace.queue("fence")))
        finally:
            kept.close()

    with engine.client(db=7) as raw:
        raw.delete("{emq}:version")
        connect(None)
        assert raw.get("{emq}:version") is None
        connect("echomq:3.0.0")
        connect("echomq:3.1.0")
        assert raw.get("{emq}:version") == b"echomq:3.0.0"
        raw.set("{emq}:version", "echomq:4.0.0")
        with pytest.raises(FenceRefused, match=r"echomq:4\.0\.0"):
            connect("echomq:3.0.0")
        assert raw.get("{emq}:version") == b"echomq:4.0.0"
        raw.delete("{emq}:version")


def test_mint(speaker: Speaker, client: Any, q: Queue) -> None:
    job_id = put(speaker, q, b"p1")

    assert read_state(client, q).row(job_id) == {
        b"state": b"pending",
        b"attempts": b"0",
        b"payload": b"p1",
    }


def test_duplicate(speaker: Speaker, client: Any, q: Queue) -> None:
    job_id = put(speaker, q, b"first")

    assert speaker.run(enqueue.enqueue(q, job_id, b"second")) is Verdict.DUPLICATE

    assert read_state(client, q).row(job_id)[b"payload"] == b"first"


def test_kind(speaker: Speaker, client: Any, q: Queue) -> None:
    with pytest.raises(errors.KindRefused):
        speaker.run(enqueue.enqueue(q, "ORD0KHTOWnGLuC", b""))

    assert read_state(client, q).keys == {}


def test_order(speaker: Speaker, q: Queue) -> None:
    minted = put_many(speaker, q, 5)

    page = speaker.run(read.page(q, JobSet.PENDING, reverse=True))

    assert [entry.id for entry in page.entries] == minted[::-1]


def test_claim(speaker: Speaker, client: Any, q: Queue) -> None:
    job_id = put(speaker, q)

    job = speaker.run(claim.claim(q, LEASE_MS))

    assert job is not None
    assert (job.id, job.attempts) == (job_id, 1)
    assert read_state(client, q).row(job_id)[b"state"] == b"active"


def test_stale(speaker: Speaker, client: Any, q: Queue) -> None:
    job = start(speaker, q)
    wrong = ClaimedJob(job.id, b"", 2, q.name)
    client.script_flush()

    assert speaker.run(settle.complete(q, wrong)) is Verdict.STALE
    assert speaker.run(settle.retry(q, wrong, "boom", 0, 9)) is Verdict.STALE
    assert speaker.run(settle.complete(q, job)) is Verdict.COMPLETED


def test_complete(speaker: Speaker, client: Any, q: Queue) -> None:
    job = start(speaker, q)

    assert speaker.run(settle.complete(q, job)) is Verdict.COMPLETED
    assert speaker.run(settle.complete(q, job)) is Verdict.GONE

    state = read_state(client, q)
    assert (state.row(job.id), state.place(job.id)) == ({}, [])


def test_retry(speaker: Speaker, client: Any, q: Queue) -> None:
    job = start(speaker, q)

    assert speaker.run(settle.retry(q, job, "boom", 0, 3)) is Verdict.SCHEDULED
    row = read_state(client, q).row(job.id)
    assert (row[b"state"], row[b"last_error"]) == (b"scheduled", b"boom")
    fall_due(client, q, job.id)
    assert speaker.run(upkeep.promote(q)).moved == 1
    assert take_one(speaker, q).attempts == 2


def test_dead(speaker: Speaker, q: Queue) -> None:
    job = kill(speaker, q)

    (entry,) = speaker.run(read.page(q, JobSet.DEAD)).entries

    assert (entry.id, entry.state, entry.last_error.value) == (job.id, "dead", b"boom")


def test_reap(speaker: Speaker, client: Any, q: Queue) -> None:
    job = start(speaker, q)
    expire(client, q, job.id)

    assert speaker.run(upkeep.reap(q)).moved == 1

    assert take_one(speaker, q).attempts == 2


def test_rotate(speaker: Speaker, q: Queue) -> None:
    put_many(speaker, q, 2, LANE)
    put_many(speaker, q, 2, OTHER_LANE)

    assert [take_one(speaker, q).lane for _ in range(4)] == [LANE, OTHER_LANE] * 2


def test_pause(speaker: Speaker, q: Queue) -> None:
    put(speaker, q, lane=LANE)
    speaker.run(lanes.pause_lane(q, LANE))

    assert take_all(speaker, q) == []
    speaker.run(lanes.resume_lane(q, LANE))
    assert len(take_all(speaker, q)) == 1


def test_limit(speaker: Speaker, q: Queue) -> None:
    put_many(speaker, q, 2, LANE)
    speaker.run(lanes.limit_lane(q, LANE, 1))
    job = take_one(speaker, q)

    assert take_all(speaker, q) == []
    speaker.run(settle.complete(q, job))
    assert len(take_all(speaker, q)) == 1


def test_schedule(speaker: Speaker, client: Any, q: Queue) -> None:
    at, in_ = ids.mint.many(2)
    assert speaker.run(enqueue.enqueue_at(q, at, b"", 5)) is Verdict.SCHEDULED
    assert speaker.run(enqueue.enqueue_in(q, in_, b"", 60_000)) is Verdict.SCHEDULED
    assert speaker.run(enqueue.enqueue_in(q, in_, b"", 0)) is Verdict.DUPLICATE

    assert speaker.run(upkeep.promote(q)).moved == 1

    assert take_one(speaker, q).id == at
    assert read_state(client, q).place(in_) == ["schedule"]


def test_repeat(speaker: Speaker, client: Any, q: Queue) -> None:
    speaker.run(repeats.register_repeat(q, "tick", 60_000, b"tick", 5))
    fired = []
    for _ in range(2):
        client.zadd(q.base + b"repeat", {"tick": 5})
        (due,) = speaker.run(repeats.due_repeats(q)).due
        fired.append(ids.mint.one())
        assert speaker.run(repeats.fire(q, due, fired[-1])).firing is Firing.FIRED

    assert [job.id for job in take_all(speaker, q)] == sorted(fired)


def test_backoff(speaker: Speaker, client: Any, q: Queue) -> None:
    """The job dies at exactly the asked-for number of tries."""
    put(speaker, q)
    verdicts = []
    for _ in range(3):
        job = take_one(speaker, q)
        verdicts.append(speaker.run(settle.retry(q, job, "boom", 0, 3)))
        if verdicts[-1] is Verdict.SCHEDULED:
            fall_due(client, q, job.id)
            speaker.run(upkeep.promote(q))

    assert verdicts == [Verdict.SCHEDULED, Verdict.SCHEDULED, Verdict.DEAD]
    assert [ceiling_ms(tries, 100, 10_000) for tries in (1, 3, 20)] == [100, 400, 10_000]


# --- Counts to cancel -----------------------------------------------------------------------------


def test_counts(speaker: Speaker, q: Queue) -> None:
    kill(speaker, q)
    start(speaker, q)
    put_off(speaker, q)
    put_many(speaker, q, 3)
    put(speaker, q, lane=LANE)

    counts = speaker.run(read.counts(q))

    assert (counts.pending, counts.active, counts.scheduled, counts.dead) == (3, 1, 1, 1)
    assert counts.lane_pending == 1


def test_state(speaker: Speaker, q: Queue) -> None:
    dead, active, parked = kill(speaker, q).id, start(speaker, q).id, put_off(speaker, q)
    waiting = put(speaker, q)

    found = [speaker.run(read.state(q, job_id)) for job_id in (waiting, active, parked, dead)]

    assert found == ["pending", "active", "scheduled", "dead"]


def test_metrics(speaker: Speaker, q: Queue) -> None:
    kill(speaker, q)
    for _ in range(2):
        speaker.run(settle.complete(q, start(speaker, q)))

    counts = speaker.run(read.counts(q))

    assert (counts.completed, counts.failed) == (2, 1)


def test_dedup(speaker: Speaker, client: Any, q: Queue) -> None:
    """A caller's key names a job; another job's removal leaves it alone."""
    job_id, other = put(speaker, q), put(speaker, q)
    client.set(q.base + b"de:order-1", job_id)

    speaker.run(operate.remove(q, [other], dedup_id="order-1"))

    assert client.get(q.base + b"de:order-1") == job_id.encode()
    client.delete(q.base + b"de:order-1")


def test_rate(speaker: Speaker, q: Queue) -> None:
    """The ceiling of jobs in flight; the original tells of it, ours keeps it."""
    speaker.run(operate.limit_queue(q, concurrency=1))
    put_many(speaker, q, 2)

    assert len(take_all(speaker, q)) == 1
    assert take_all(speaker, q) == []


def test_lane_depth(speaker: Speaker, q: Queue) -> None:
    put_many(speaker, q, 3, LANE)
    put(speaker, q, lane=OTHER_LANE)

    depths = speaker.run(lanes.lane_depths(q, [LANE, OTHER_LANE]))

    assert [lane.waiting for lane in depths] == [3, 1]


def test_queue_pause(speaker: Speaker, q: Queue) -> None:
    put(speaker, q)
    put(speaker, q, lane=LANE)
    speaker.run(operate.pause(q))

    assert speaker.run(claim.claim(q, LEASE_MS)) is None
    assert take_all(speaker, q) == []
    speaker.run(operate.resume(q))
    assert len(take_all(speaker, q)) == 2


def test_drain(speaker: Speaker, client: Any, q: Queue) -> None:
    active, parked = start(speaker, q), put_off(speaker, q)
    put_many(speaker, q, 3)

    assert speaker.run(operate.drain(q, JobSet.PENDING)) == (3, 0)

    assert set(read_state(client, q).rows) == {active.id.encode(), parked.encode()}


def test_obliterate(speaker: Speaker, client: Any, q: Queue) -> None:
    job = start(speaker, q)
    put(speaker, q)
    assert speaker.run(operate.obliterate(q)) is Obliterated.NOT_PAUSED
    speaker.run(operate.pause(q))
    assert speaker.run(operate.obliterate(q)) is Obliterated.ACTIVE
    assert read_state(client, q).place(job.id) == ["active"]

    assert speaker.run(operate.obliterate(q, force=True)) is Obliterated.DONE

    assert read_state(client, q).keys == {}


def test_update_data(speaker: Speaker, q: Queue) -> None:
    put(speaker, q)
    job_id = speaker.run(read.page(q, JobSet.PENDING)).entries[0].id

    assert speaker.run(operate.update_payload(q, job_id, b"new")) is Updated.UPDATED
    assert speaker.run(operate.update_payload(q, "JOB00000000001", b"")) is Updated.GONE
    assert take_one(speaker, q).payload == b"new"


def test_update_progress(speaker: Speaker, client: Any, q: Queue) -> None:
    job = start(speaker, q)

    assert speaker.run(notes.progress(q, job.id, "50")) is True
    assert speaker.run(notes.progress(q, "JOB00000000001", "50")) is False
    assert read_state(client, q).row(job.id)[b"progress"] == b"50"


def test_job_logs(speaker: Speaker, q: Queue) -> None:
    job = start(speaker, q)

    assert [speaker.run(notes.add_log(q, job.id, line, keep=2)) for line in "abc"] == [1, 2, 2]
    assert speaker.run(notes.logs(q, job.id)).lines == ["b", "c"]
    assert speaker.run(notes.add_log(q, "JOB00000000001", "a")) is None


def test_remove_job(speaker: Speaker, client: Any, q: Queue) -> None:
    job_id = put(speaker, q)
    client.set(q.row(job_id) + b":lock", "1")
    assert speaker.run(operate.remove(q, [job_id])) == [Removed.LOCKED]
    client.delete(q.row(job_id) + b":lock")

    assert speaker.run(operate.remove(q, [job_id])) == [Removed.REMOVED]
    assert speaker.run(operate.remove(q, [job_id])) == [Removed.GONE]
    assert read_state(client, q).keys == {}


def test_reprocess_job(speaker: Speaker, client: Any, q: Queue) -> None:
    dead, waiting = kill(speaker, q).id, put(speaker, q)
    asked = [waiting, "JOB00000000001", dead]

    assert speaker.run(operate.reprocess(q, asked)) == [
        Reprocessed.NOT_DEAD,
        Reprocessed.GONE,
        Reprocessed.PENDING,
    ]
    assert b"last_error" not in read_state(client, q).row(dead)
    assert take_one(speaker, q).attempts == 2


def test_lock_extend(speaker: Speaker, client: Any, q: Queue) -> None:
    job = start(speaker, q)
    expire(client, q, job.id)

    assert speaker.run(settle.extend(q, job, LEASE_MS)) is Verdict.EXTENDED
    assert speaker.run(upkeep.reap(q)).seen == 0
    wrong = ClaimedJob(job.id, b"", 9, q.name)
    assert speaker.run(settle.extend(q, wrong, LEASE_MS)) is Verdict.STALE
    speaker.run(settle.complete(q, job))
    assert speaker.run(settle.extend(q, job, LEASE_MS)) is Verdict.GONE


def test_stalled(speaker: Speaker, client: Any, q: Queue) -> None:
    put(speaker, q)
    job = take_one(speaker, q)
    expire(client, q, job.id)
    assert speaker.run(upkeep.reap(q, max_stalled=2)).moved == 1
    assert read_state(client, q).row(job.id)[b"stalled"] == b"1"
    take_one(speaker, q)
    expire(client, q, job.id)

    assert speaker.run(upkeep.reap(q, max_stalled=2)).dead == 1

    row = read_state(client, q).row(job.id)
    assert (row[b"state"], row[b"stalled"]) == (b"dead", b"2")
    assert row[b"last_error"].startswith(b"stalled")


def test_events(speaker: Speaker, client: Any, q: Queue) -> None:
    job = start(speaker, q)
    with client.pubsub() as subscription:
        subscription.subscribe(q.base + b"events")
        subscription.get_message(timeout=20)

        speaker.run(notes.progress(q, job.id, "50"))

        message = subscription.get_message(timeout=20)
    assert json.loads(message["data"]) == {"event": "progress", "job": job.id, "progress": "50"}


def test_unknown_state(speaker: Speaker, client: Any, bare_q: Queue) -> None:
    client.hset(bare_q.row("JOB00000000001"), "state", "pending")

    assert speaker.run(read.state(bare_q, "JOB00000000001")) == "unknown"
    assert speaker.run(read.state(bare_q, "JOB00000000002")) == "absent"


def test_rate_consult(speaker: Speaker, client: Any, q: Queue) -> None:
    """How long a used-up rate lasts."""
    speaker.run(operate.limit_queue(q, rate=1, window_ms=60_000))
    put_many(speaker, q, 2)
    take_one(speaker, q)

    taken = speaker.run(claim.take(q, "w", LEASE_MS))

    assert taken.jobs == []
    assert 0 < taken.wait_ms <= 60_000
    assert client.pttl(q.base + b"limiter") <= taken.wait_ms


def test_dedup_release(speaker: Speaker, client: Any, q: Queue) -> None:
    job_id = put(speaker, q)
    client.set(q.base + b"de:order-1", job_id)

    speaker.run(operate.remove(q, [job_id], dedup_id="order-1"))

    assert read_state(client, q).keys == {}


def test_extend_locks_batch(speaker: Speaker, client: Any, q: Queue) -> None:
    put_many(speaker, q, 3)
    kept, done, wrong = take_all(speaker, q)
    speaker.run(settle.complete(q, done))
    wrong = ClaimedJob(wrong.id, b"", 9, q.name)
    expire(client, q, kept.id)

    lost = speaker.run(settle.extend_many(q, [kept, done, wrong], LEASE_MS))

    assert lost == [done.id, wrong.id]
    assert speaker.run(upkeep.reap(q)).seen == 0


# --- Groups ---------------------------------------------------------------------------------------


def test_stalled_group(speaker: Speaker, client: Any, q: Queue) -> None:
    speaker.run(lanes.limit_lane(q, LANE, 1))
    job = start(speaker, q, LANE)
    put(speaker, q, lane=LANE)
    expire(client, q, job.id)

    assert speaker.run(upkeep.reap(q, max_stalled=1)).dead == 1

    assert len(take_all(speaker, q)) == 1


def test_obliterate_grouped(speaker: Speaker, client: Any, q: Queue) -> None:
    put_many(speaker, q, 3, LANE)
    start(speaker, q, OTHER_LANE)
    speaker.run(lanes.limit_lane(q, OTHER_LANE, 1))
    put(speaker, q, lane=OTHER_LANE)
    speaker.run(operate.pause(q))

    while speaker.run(operate.obliterate(q, force=True)) is Obliterated.MORE:
        pass

    assert read_state(client, q).keys == {}


def test_reassign(speaker: Speaker, client: Any, q: Queue) -> None:
    job_id = put(speaker, q, lane=LANE)

    assert speaker.run(lanes.reassign(q, job_id, OTHER_LANE)) is Reassigned.MOVED
    assert speaker.run(lanes.reassign(q, job_id, OTHER_LANE)) is Reassigned.SAME
    assert speaker.run(lanes.reassign(q, "JOB00000000001", LANE)) is Reassigned.NO_LANE
    assert take_one(speaker, q).lane == OTHER_LANE
    assert speaker.run(lanes.reassign(q, job_id, LANE)) is Reassigned.NOT_WAITING


def test_lane_drain(speaker: Speaker, client: Any, q: Queue) -> None:
    put_many(speaker, q, 3, LANE)
    other = put(speaker, q, lane=OTHER_LANE)

    assert speaker.run(operate.drain(q, LANE)) == (3, 0)

    assert set(read_state(client, q).rows) == {other.encode()}
    assert client.lrange(q.ring, 0, -1) == [OTHER_LANE.encode()]


def test_reap_group(speaker: Speaker, client: Any, q: Queue) -> None:
    """Ours has one reap for all lanes, and each job goes back to its own."""
    put(speaker, q, lane=LANE)
    put(speaker, q, lane=OTHER_LANE)
    jobs = take_all(speaker, q)
    expire(client, q, *(job.id for job in jobs))

    assert speaker.run(upkeep.reap(q)).moved == 2

    for job in jobs:
        assert read_state(client, q).place(job.id) == [f"g:{job.lane}:pending"]


def test_pool_enqueue(engine: Server, client: Any, q: Queue) -> None:
    """One client in eight threads: each job is admitted once."""
    speaker = SyncSpeaker(engine.port)
    verdicts: list[Verdict] = []

    def enqueue_some() -> None:
        verdicts.extend(
            speaker.run(enqueue.enqueue(q, ids.mint.one(), b"payload")) for _ in range(25)
        )

    threads = [threading.Thread(target=enqueue_some) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    speaker.close()

    assert verdicts == [Verdict.ENQUEUED] * 200
    assert client.zcard(q.pending) == 200


def test_pool_order(engine: Server, q: Queue) -> None:
    """Whatever connection an id came by, it is handed out in mint order."""
    speakers = [SyncSpeaker(engine.port) for _ in range(4)]
    minted = ids.mint.many(40)
    for place, job_id in enumerate(reversed(minted)):
        speakers[place % 4].run(enqueue.enqueue(q, job_id, b""))

    taken = take_all(speakers[0], q)
    for speaker in speakers:
        speaker.close()

    assert [job.id for job in taken] == minted


def test_native_lock_field(speaker: Speaker, client: Any, q: Queue) -> None:
    """Ours writes no lock field; one that another speaker wrote stays as it is."""
    job = start(speaker, q)
    assert b"lock" not in read_state(client, q).row(job.id)
    client.hset(q.row(job.id), "lock", "1")

    speaker.run(settle.release(q, job))

    assert read_state(client, q).row(job.id)[b"lock"] == b"1"


def test_native_lock_refuses(speaker: Speaker, client: Any, q: Queue) -> None:
    """Another speaker's lock holds a job as long as its key lives."""
    job_id = put(speaker, q)
    client.set(q.row(job_id) + b":lock", "1", px=60_000)

    assert speaker.run(operate.remove(q, [job_id])) == [Removed.LOCKED]
    client.delete(q.row(job_id) + b":lock")
    assert speaker.run(operate.remove(q, [job_id])) == [Removed.REMOVED]


# --- Weights and batches --------------------------------------------------------------------------


def test_weighted_proportion(speaker: Speaker, q: Queue) -> None:
    put_many(speaker, q, 60, LANE)
    put_many(speaker, q, 60, OTHER_LANE)
    speaker.run(lanes.weigh_lane(q, LANE, 3))

    served = Counter(take_one(speaker, q).lane for _ in range(80))

    assert served == {LANE: 60, OTHER_LANE: 20}


def test_starvation_drill(speaker: Speaker, q: Queue) -> None:
    put_many(speaker, q, 500, LANE)
    for _ in range(20):
        late = put(speaker, q, lane=OTHER_LANE)
        assert late in {take_one(speaker, q).id for _ in range(2)}


def test_batch_claim(speaker: Speaker, client: Any, q: Queue) -> None:
    minted = put_many(speaker, q, 5)

    jobs = take_all(speaker, q, 3)

    assert [job.id for job in jobs] == minted[:3]
    assert len(set(read_state(client, q).value(b"active", b"zset").values())) == 1


def test_batch_claim_short(speaker: Speaker, q: Queue) -> None:
    put_many(speaker, q, 2)

    assert len(take_all(speaker, q, 10)) == 2
    assert take_all(speaker, q, 10) == []


def test_batch_partial_failure(speaker: Speaker, client: Any, q: Queue) -> None:
    put_many(speaker, q, 3)
    good, bad, worse = take_all(speaker, q)

    assert speaker.run(settle.complete(q, good)) is Verdict.COMPLETED
    assert speaker.run(settle.retry(q, bad, "boom", 0, 3)) is Verdict.SCHEDULED
    assert speaker.run(settle.retry(q, worse, "boom", 0, 1)) is Verdict.DEAD

    state = read_state(client, q)
    assert [state.place(job.id) for job in (good, bad, worse)] == [[], ["schedule"], ["dead"]]


def test_grouped_batch_affinity(speaker: Speaker, q: Queue) -> None:
    """A take of several tells each job's lane; within a lane the oldest comes first."""
    minted = {lane: put_many(speaker, q, 3, lane) for lane in (LANE, OTHER_LANE)}

    jobs = take_all(speaker, q, 6)

    for lane, expected in minted.items():
        assert [job.id for job in jobs if job.lane == lane] == expected


def test_grouped_batch_ceiling(speaker: Speaker, q: Queue) -> None:
    speaker.run(lanes.limit_lane(q, LANE, 2))
    put_many(speaker, q, 5, LANE)

    assert len(take_all(speaker, q, 10)) == 2
    assert take_all(speaker, q, 10) == []


def test_grouped_batch_fairness(speaker: Speaker, q: Queue) -> None:
    put_many(speaker, q, 20, LANE)
    put_many(speaker, q, 2, OTHER_LANE)

    assert Counter(job.lane for job in take_all(speaker, q, 4)) == {LANE: 2, OTHER_LANE: 2}


def test_batch_partition(speaker: Speaker, q: Queue) -> None:
    """Two takers share no job."""
    put_many(speaker, q, 10)

    first, second = take_all(speaker, q, 5), take_all(speaker, q, 5)

    assert len({job.id for job in first + second}) == 10


def test_batch_delay(speaker: Speaker, client: Any, q: Queue) -> None:
    job = start(speaker, q)

    assert speaker.run(settle.delay(q, job, "in", 0)) is Verdict.SCHEDULED

    row = read_state(client, q).row(job.id)
    assert (row[b"attempts"], row[b"payload"]) == (b"1", b"payload")
    assert b"last_error" not in row
    fall_due(client, q, job.id)
    speaker.run(upkeep.promote(q))
    assert take_one(speaker, q).attempts == 2


def test_batch_delay_stale(speaker: Speaker, client: Any, q: Queue) -> None:
    job = start(speaker, q)
    wrong = ClaimedJob(job.id, b"", 9, q.name)

    assert speaker.run(settle.delay(q, wrong, "in", 0)) is Verdict.STALE

    assert read_state(client, q).place(job.id) == ["active"]
    speaker.run(settle.complete(q, job))
    assert speaker.run(settle.delay(q, job, "in", 0)) is Verdict.GONE
