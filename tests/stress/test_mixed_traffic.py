"""The original and ours at work on one queue: each job is done once, whoever did what.

Half of the jobs come in by the original's scripts and half of the workers are its own; its reaper
and its promoter run beside ours. Some workers of both kinds drop a job and let its lease end.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from emq_django.conf import keys
from emq_django.protocol import claim, enqueue, ids, settle, upkeep
from emq_django.protocol.records import ClaimedJob, Verdict
from tests.acts import LANE, OTHER_LANE
from tests.foreign import Foreign, ForeignJob
from tests.queue_state import check_invariants
from tests.speakers import SyncSpeaker

if TYPE_CHECKING:
    from collections.abc import Callable

    from emq_django.protocol.keyspace import Queue
    from tests.servers import Server

LEASE_MS = 400
LANES = (None, None, LANE, OTHER_LANE)
DROPPED = 0.01  # share of runs whose worker goes away


class Run(NamedTuple):
    """One run of a job and how its worker ended it: completed, retried, dropped or stale."""

    id: str
    token: int
    end: str


class Traffic:
    """All parties of the test; each runs in a thread with a connection of its own."""

    def __init__(self, server: Server, queue: Queue, jobs: int) -> None:
        self.server, self.queue, self.jobs = server, queue, jobs
        self.runs: list[Run] = []
        self.admitted: list[str] = []
        self.failed: list[BaseException] = []
        self.over = threading.Event()

    def party(self, act: Callable[[SyncSpeaker, Foreign, random.Random], None], seed: int) -> None:
        """Run a party until it returns; what goes wrong ends the test."""
        with ExitStack() as stack:
            client: Any = stack.enter_context(self.server.client())
            speaker = SyncSpeaker(self.server.port)
            stack.callback(speaker.close)
            try:
                act(speaker, Foreign(client, self.queue), random.Random(seed))
            except BaseException as exc:  # noqa: BLE001 - raised again in the test's thread
                self.failed.append(exc)
                self.over.set()

    # --- Producers ---

    def produce_ours(self, speaker: SyncSpeaker, _: Foreign, dice: random.Random) -> None:
        for job_id in ids.mint.many(self.jobs // 4):
            lane = dice.choice(LANES)
            if dice.random() < 0.2:
                call = enqueue.enqueue_in(self.queue, job_id, b"ours", dice.randint(0, 300), lane)
            elif lane:
                call = enqueue.enqueue_lane(self.queue, job_id, b"ours", lane)
            else:
                call = enqueue.enqueue(self.queue, job_id, b"ours")
            assert speaker.run(call) in {Verdict.ENQUEUED, Verdict.SCHEDULED}
            self.admitted.append(job_id)

    def produce_theirs(self, _: SyncSpeaker, foreign: Foreign, dice: random.Random) -> None:
        for job_id in ids.mint.many(self.jobs // 4):
            lane = dice.choice(LANES)
            if lane:
                answer = foreign.lane_enqueue(job_id, b"theirs", lane)
            elif dice.random() < 0.2:
                answer = foreign.schedule(job_id, b"theirs", "in", dice.randint(0, 300))
            else:
                answer = foreign.enqueue(job_id, b"theirs")
            assert answer == 1
            self.admitted.append(job_id)

    # --- Workers ---

    def work_ours(self, speaker: SyncSpeaker, _: Foreign, dice: random.Random) -> None:
        q, ring_first = self.queue, False
        while not self.over.is_set():
            ring_first = not ring_first
            call = claim.take(
                q, "w", LEASE_MS, dice.randint(1, 8), ring_first=ring_first, max_stalled=0
            )
            jobs = speaker.run(call).jobs
            for job in jobs:
                self.note(job, self.end_ours(speaker, job, dice))
            self.rest(jobs)

    def end_ours(self, speaker: SyncSpeaker, job: ClaimedJob, dice: random.Random) -> str:
        if dice.random() < DROPPED:
            return "dropped"
        if dice.random() < 0.05:
            verdict = speaker.run(settle.retry(self.queue, job, "boom", 10, 1_000))
            return "retried" if verdict is Verdict.SCHEDULED else "stale"
        verdict = speaker.run(settle.complete(self.queue, job))
        return "completed" if verdict is Verdict.COMPLETED else "stale"

    def work_theirs(self, _: SyncSpeaker, foreign: Foreign, dice: random.Random) -> None:
        while not self.over.is_set():
            lane_job = foreign.lane_claim(LEASE_MS)
            jobs = [*([lane_job] if lane_job else []), *foreign.claim_batch(4, LEASE_MS)]
            for job in jobs:
                assert job.payload is not None, f"{job} is a ghost"
                self.note(job, self.end_theirs(foreign, job, dice))
            self.rest(jobs)

    def end_theirs(self, foreign: Foreign, job: ForeignJob, dice: random.Random) -> str:
        if dice.random() < DROPPED:
            return "dropped"
        if dice.random() < 0.05:
            answer = foreign.retry(job.id, job.attempts, 10, 1_000)
            return "retried" if answer == "scheduled" else "stale"
        return "completed" if foreign.complete(job.id, job.attempts) == 1 else "stale"

    def note(self, job: ClaimedJob | ForeignJob, end: str) -> None:
        self.runs.append(Run(job.id, job.attempts, end))

    def rest(self, jobs: list[Any]) -> None:
        if not jobs:
            self.over.wait(0.005)

    # --- Sweeps ---

    def sweep_ours(self, speaker: SyncSpeaker, _: Foreign, __: random.Random) -> None:
        while not self.over.wait(0.02):
            speaker.run(upkeep.promote(self.queue))
            speaker.run(upkeep.reap(self.queue, max_stalled=0))

    def sweep_theirs(self, _: SyncSpeaker, foreign: Foreign, __: random.Random) -> None:
        while not self.over.wait(0.02):
            foreign.promote()
            foreign.reap()

    def wait(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not self.over.is_set():
            done = sum(run.end == "completed" for run in list(self.runs))
            if done >= self.jobs:
                self.over.set()
            assert time.monotonic() < deadline_s, f"{done} of {self.jobs} jobs are done"
            self.over.wait(0.05)


@pytest.mark.server
@pytest.mark.parametrize(
    "jobs",
    [
        pytest.param(3_000, marks=pytest.mark.slow),
        pytest.param(100_000, marks=[pytest.mark.stress, pytest.mark.timeout(1_800)]),
    ],
)
def test_each_job_is_done_once_and_a_second_run_has_its_reason(
    queue: str, server: Server, redis_client: Any, jobs: int
) -> None:
    named = keys(queue)
    traffic = Traffic(server, named, jobs)
    acts = [
        *[traffic.produce_ours, traffic.produce_theirs] * 2,
        *[traffic.work_ours, traffic.work_theirs] * 2,
        traffic.sweep_ours,
        traffic.sweep_theirs,
    ]
    threads = [
        threading.Thread(target=traffic.party, args=(act, seed)) for seed, act in enumerate(acts)
    ]
    for thread in threads:
        thread.start()
    try:
        traffic.wait(50 if jobs < 10_000 else 1_700)
    finally:
        traffic.over.set()
        for thread in threads:
            thread.join()

    assert traffic.failed == []
    completions = Counter(run.id for run in traffic.runs if run.end == "completed")
    assert sorted(completions) == sorted(traffic.admitted)
    assert set(completions.values()) == {1}
    runs_of: dict[str, list[Run]] = defaultdict(list)
    for run in traffic.runs:
        runs_of[run.id].append(run)
    for runs in runs_of.values():
        runs.sort(key=lambda run: run.token)
        assert [run.token for run in runs] == list(range(1, len(runs) + 1))
        assert {run.end for run in runs[:-1]} <= {"retried", "dropped", "stale"}
    state = check_invariants(redis_client, named)
    assert state.rows == {}
    assert state.value(b"metrics:completed", b"hash") == {b"count": str(jobs).encode()}
