"""Random stories over all verbs: the ones of `test_interleavings` and the rest of a job's life.

The first machine foresees every answer. In the second the original itself (`tests.foreign`) acts on
the same queue, with its own scripts and their faults.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as tell

from emq_django.protocol import enqueue, ids, lanes, notes, operate, read, repeats, settle, upkeep
from emq_django.protocol.enqueue import Readmission
from emq_django.protocol.lanes import Reassigned
from emq_django.protocol.operate import Cancelled, Obliterated, Removed, Reprocessed, Updated
from emq_django.protocol.records import ClaimedJob, JobSet, Verdict
from emq_django.protocol.repeats import Firing
from tests.conformance.test_interleavings import (
    LATER_MS,
    LEASE_MS,
    Job,
    Stories,
    StoriesWithAnotherSpeaker,
    any_job,
    chosen_lane,
    now_ms,
)
from tests.foreign import Foreign, ForeignJob
from tests.queue_state import read_state
from tests.samples import KEPT

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.stateful import RuleBasedStateMachine

    from tests.speakers import SyncSpeaker

NIGHTLY = bool(os.environ.get("EMQ_TEST_NIGHTLY"))
STORIES = settings(
    max_examples=2_000 if NIGHTLY else 50,
    stateful_step_count=50 if NIGHTLY else 30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
KEYS = ("key one", "key two")
SETS = {"flat": JobSet.PENDING, "schedule": JobSet.SCHEDULE, "dead": JobSet.DEAD}


class WholeLife(Stories):
    """Our verbs only, all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: dict[str, str] = {}  # id -> unique key

    def holder(self, key: str) -> str | None:
        live = [
            job.id
            for job in self.jobs.values()
            if self.keys.get(job.id) == key and job.held_by not in {"dead", "gone"}
        ]
        assert len(live) < 2
        return live[0] if live else None

    def known(self, which: int) -> Job:
        jobs = list(self.jobs.values())
        return jobs[which % len(jobs)]

    @rule(key=st.sampled_from(KEYS), lane=st.none() | chosen_lane, later=st.booleans())
    def enqueue_one_per_key(self, key: str, lane: str | None, *, later: bool) -> None:
        job_id, holder = ids.mint.one(), self.holder(key)
        mode: Any = "in" if later else "now"
        number = LATER_MS if later else 0
        call = enqueue.readmit(self.q, job_id, job_id.encode(), lane, mode, number, key)
        assert self.run(call) == (holder or Readmission.ADMITTED)
        if holder is None:
            self.keys[job_id] = key
            self.admit(job_id, lane, "schedule" if later else "lane" if lane else "flat")

    @rule()
    def fire_a_repeat(self) -> None:
        job_id = ids.mint.one()
        assert self.run(repeats.register_repeat(self.q, "tick", 1_000, job_id.encode(), 0))
        (due,) = self.run(repeats.due_repeats(self.q)).due
        assert self.run(repeats.fire(self.q, due, job_id)).firing is Firing.FIRED
        assert self.run(repeats.fire(self.q, due, job_id)).firing is Firing.NOT_DUE
        assert self.run(repeats.cancel_repeat(self.q, "tick"))
        self.admit(job_id, None, "flat")

    @precondition(lambda self: self.jobs)
    @rule(which=any_job)
    def reprocess(self, which: int) -> None:
        job = self.known(which)
        (answer,) = self.run(operate.reprocess(self.q, [job.id]))
        if job.held_by != "dead":
            assert answer is (Reprocessed.GONE if job.held_by == "gone" else Reprocessed.NOT_DEAD)
        elif job.id in self.keys and self.holder(self.keys[job.id]):
            assert answer is Reprocessed.NOT_UNIQUE
        else:
            assert answer is Reprocessed.PENDING
            job.failures = job.stalled = 0
            self.move(job, job.waiting)

    @precondition(lambda self: self.jobs)
    @rule(which=any_job, also_active=st.booleans())
    def remove(self, which: int, *, also_active: bool) -> None:
        job = self.known(which)
        (answer,) = self.run(operate.remove(self.q, [job.id], also_active=also_active))
        if job.held_by == "gone":
            assert answer is Removed.GONE
        elif job.held_by == "active" and not also_active:
            assert answer is Removed.ACTIVE
        else:
            assert answer is Removed.REMOVED
            self.move(job, "gone")

    @precondition(lambda self: self.jobs)
    @rule(which=any_job)
    def cancel(self, which: int) -> None:
        job = self.known(which)
        (answer,) = self.run(operate.cancel(self.q, [job.id]))
        if job.held_by == "active":
            assert answer is Cancelled.ASKED
            job.asked = True
        elif job.held_by in {"gone", "dead"}:
            assert answer is {"gone": Cancelled.GONE, "dead": Cancelled.DEAD}[job.held_by]
        else:
            assert answer is Cancelled.REMOVED
            self.move(job, "gone")

    @precondition(lambda self: self.jobs)
    @rule(which=any_job, lane=chosen_lane)
    def reassign(self, which: int, lane: str) -> None:
        job = self.known(which)
        answer = self.run(lanes.reassign(self.q, job.id, lane))
        if job.held_by == "gone" or job.lane is None:
            assert answer is Reassigned.NO_LANE
        elif job.lane == lane:
            assert answer is Reassigned.SAME
        elif job.held_by != "lane":
            assert answer is Reassigned.NOT_WAITING
        else:
            assert answer is Reassigned.MOVED
            left, job.lane = job.lane, lane
            self.apply_ring_rule(left)
            self.apply_ring_rule(lane)

    @precondition(lambda self: self.jobs)
    @rule(which=any_job)
    def edit(self, which: int) -> None:
        job = self.known(which)
        answer = self.run(operate.update_payload(self.q, job.id, job.id.encode()))
        gone = job.held_by == "gone"
        expected = Updated.ACTIVE if job.held_by == "active" else Updated.UPDATED
        assert answer is (Updated.GONE if gone else expected)
        assert self.run(notes.progress(self.q, job.id, "half")) is not gone
        assert (self.run(notes.add_log(self.q, job.id, "line")) is None) is gone

    @rule(place=st.sampled_from([*SETS]), lane=st.none() | chosen_lane, batch=st.integers(1, 3))
    def drain(self, place: str, lane: str | None, batch: int) -> None:
        held = self.held("lane", lane) if lane else self.held(place)
        if not lane and place == "schedule":
            batch = 1_000  # the order of equal times is not the model's matter
        drained = self.run(operate.drain(self.q, lane or SETS[place], batch))
        assert drained == (min(batch, len(held)), max(len(held) - batch, 0))
        for job in held[:batch]:
            self.move(job, "gone")

    @rule(
        kept=st.integers(1, 3), all_old=st.booleans(), offset=st.integers(0, 2),
        batch=st.integers(1, 4),
    )  # fmt: skip
    def trim_dead(self, kept: int, offset: int, batch: int, *, all_old: bool) -> None:
        dead = self.held("dead")
        before_ms = now_ms(self.client) + LATER_MS if all_old else 0
        trimmed = self.run(upkeep.trim_dead(self.q, kept, before_ms, offset, batch))
        seen = dead[offset : offset + batch]
        gone = seen if all_old else seen[: max(len(dead) - kept - offset, 0)]
        more = len(seen) == batch and (all_old or offset + batch < len(dead) - kept)
        ends = (gone[0].id, gone[-1].id) if gone else ("", "")
        assert trimmed == upkeep.Trimmed(len(gone), len(seen), more, *ends)
        for job in gone:
            self.move(job, "gone")

    @precondition(lambda self: any(job.holders for job in self.jobs.values()))
    @rule(which=st.lists(st.tuples(any_job, st.booleans()), min_size=1, max_size=4))
    def complete_many(self, which: list[tuple[int, bool]]) -> None:
        picked = [self.some_holder(one) for one, _ in which]
        ends = [
            settle.Finished(holder, 0, KEPT if keeps else None)
            for (_, holder), (_, keeps) in zip(picked, which, strict=True)
        ]
        answers = self.run(settle.complete_many(self.q, ends))
        for (job, holder), answer in zip(picked, answers, strict=True):
            expected = self.lost(job, holder, active_only=False)
            assert answer is (expected or Verdict.COMPLETED)
            if not expected:
                job.held_by = "gone"
                self.completed += 1
        self.after_sweep([job for job, _ in picked])

    @precondition(lambda self: any(job.holders for job in self.jobs.values()))
    @rule(which=st.lists(any_job, min_size=1, max_size=4))
    def extend_many(self, which: list[int]) -> None:
        picked = [self.some_holder(one) for one in which]
        lost = self.run(settle.extend_many(self.q, [holder for _, holder in picked], LEASE_MS))
        assert lost == [job.id for job, holder in picked if self.lost(job, holder)]
        for job, holder in picked:
            if not self.lost(job, holder):
                job.due = False

    @precondition(lambda self: self.jobs)
    @rule(which=any_job)
    def look_up(self, which: int) -> None:
        job = self.known(which)
        words = {"flat": "pending", "lane": "pending", "schedule": "scheduled", "gone": "absent"}
        assert self.run(read.state(self.q, job.id)) == words.get(job.held_by, job.held_by)
        found = self.run(read.row(self.q, job.id))
        # One that left a result is remembered by it.
        assert (found is None or found.finished) == (job.held_by == "gone")

    @precondition(lambda self: self.paused)
    @rule(batch=st.integers(1, 8))
    def obliterate(self, batch: int) -> None:
        if self.held("active"):
            assert self.run(operate.obliterate(self.q)) is Obliterated.ACTIVE
        while self.run(operate.obliterate(self.q, force=True, batch=batch)) is Obliterated.MORE:
            pass
        assert read_state(self.client, self.q).keys == {}
        for job in self.jobs.values():
            job.held_by = "gone"
        self.ring, self.limits, self.paused_lanes, self.paused = [], {}, set(), False
        self.completed = self.died = 0

    @invariant()
    def each_key_has_its_one_live_job(self) -> None:
        stored = self.client.hgetall(self.q.base + b"dj:unique")
        held = {key: self.holder(key) for key in KEYS}
        assert stored == {
            key.encode(): holder.encode() for key, holder in held.items() if holder is not None
        }


class BesideTheOriginal(StoriesWithAnotherSpeaker):
    """Ours and the original's own scripts.

    Left out is where the original loses count of a lane for good, whatever is done afterwards: its
    delay and its removal of a lane's job, its claim of a lane's job from the flat set, its claim
    from a lane that holds a ghost, and its reprocessing of a job that runs (and that its second
    retry has left among the dead): the state then denies a lease that the lane has counted.
    """

    original: Foreign

    @initialize()
    def meet(self) -> None:
        self.original = Foreign(self.client, self.q)

    def note_theirs(self, claimed: list[ForeignJob]) -> None:
        self.note(
            [
                ClaimedJob(job.id, job.payload, job.attempts, self.q.name, job.lane)
                for job in claimed
                if job.payload is not None
            ]
        )

    def token_of(self, which: int) -> ClaimedJob | None:
        if not self.holders:
            return None
        holder = self.holders[which % len(self.holders)]
        return holder if self.with_valid_token(which) else None

    @rule(which=any_job)
    def their_reprocess(self, which: int) -> None:
        dead = self.client.zrange(self.q.dead, 0, -1)
        if dead and self.client.zscore(self.q.active, dead[which % len(dead)]) is None:
            self.original.reprocess(dead[which % len(dead)].decode())

    # --- The original ---

    @rule(lane=st.none() | chosen_lane, later=st.booleans())
    def original_enqueue(self, lane: str | None, *, later: bool) -> None:
        job_id = ids.mint.one()
        if lane:
            assert self.original.lane_enqueue(job_id, job_id.encode(), lane) == 1
        elif later:
            assert self.original.schedule(job_id, job_id.encode(), "in", 0) == 1
        else:
            assert self.original.enqueue(job_id, job_id.encode()) == 1
        self.lane_of[job_id] = lane

    @rule(count=st.integers(1, 3))
    def original_claim(self, count: int) -> None:
        heads = self.client.zrange(self.q.pending, 0, count - 1)
        rows = [self.client.hgetall(self.q.row_base + raw) for raw in heads]
        if all(b"payload" in row and b"group" not in row for row in rows):
            self.note_theirs(self.original.claim_batch(count, LEASE_MS))

    @rule(weighted=st.booleans())
    def original_lane_claim(self, *, weighted: bool) -> None:
        waiting = [
            raw for members in read_state(self.client, self.q).lanes.values() for raw in members
        ]
        if not all(self.client.hexists(self.q.row_base + raw, "payload") for raw in waiting):
            return
        if weighted:
            claimed = self.original.weighted_claim(LEASE_MS)
        else:
            claimed = [job] if (job := self.original.lane_claim(LEASE_MS)) else []
        self.note_theirs(claimed)
        # A retry of theirs by a worker that had lost the job left an entry there. When their
        # promote moves it during this run, the row says "pending", and the run's count stays.
        if any(self.client.zscore(self.q.schedule, job.id) is not None for job in claimed):
            self.counts_may_stay = True

    @rule(which=any_job, verb=st.sampled_from(["complete", "retry", "kill", "extend", "delay"]))
    def original_settles(self, which: int, verb: str) -> None:
        job = self.token_of(which)
        if job is None or (verb == "delay" and self.lane_of[job.id]):
            return
        if verb == "complete":
            assert self.original.complete(job.id, job.attempts) == 1
            self.ended.add(job.id)
        elif verb == "extend":
            self.original.extend_many([(job.id, job.attempts)])
        elif verb == "delay":
            self.original.delay(job.id, job.attempts, 0)
        else:
            self.original.retry(job.id, job.attempts, 0, 1 if verb == "kill" else 99)

    @rule(verb=st.sampled_from(["promote", "reap", "stalled"]), most=st.integers(1, 3))
    def original_sweeps(self, verb: str, most: int) -> None:
        if verb == "promote":
            self.original.promote()
        elif verb == "reap":
            self.original.reap()
        else:
            self.original.stalled(most)

    @rule(which=any_job)
    def original_removes(self, which: int) -> None:
        flat = [job_id for job_id, lane in self.lane_of.items() if lane is None]
        if flat and self.original.remove(flat[which % len(flat)]) == 1:
            self.ended.add(flat[which % len(flat)])

    # --- Ours ---

    @precondition(lambda self: self.lane_of)
    @rule(which=any_job, verb=st.sampled_from(["reprocess", "remove", "remove active"]))
    def operate(self, which: int, verb: str) -> None:
        job_id = [*self.lane_of][which % len(self.lane_of)]
        if verb == "reprocess":
            (answer,) = self.run(operate.reprocess(self.q, [job_id]))
            if answer is Reprocessed.PENDING:
                expected = (
                    f"g:{self.lane_of[job_id]}:pending" if self.lane_of[job_id] else "pending"
                )
                assert read_state(self.client, self.q).place(job_id) == [expected]
            return
        (removed,) = self.run(operate.remove(self.q, [job_id], also_active=verb == "remove active"))
        if removed is Removed.REMOVED:
            assert read_state(self.client, self.q).place(job_id) == []
            self.ended.add(job_id)

    @precondition(lambda self: self.holders)
    @rule(which=any_job, verb=st.sampled_from(["complete_many", "extend_many", "delay"]))
    def settle_otherwise(self, which: int, verb: str) -> None:
        holder = self.holders[which % len(self.holders)]
        if verb == "complete_many":
            (answer,) = self.run(settle.complete_many(self.q, [settle.Finished(holder)]))
            if answer is Verdict.COMPLETED:
                self.ended.add(holder.id)
                assert read_state(self.client, self.q).place(holder.id) == []
        elif verb == "extend_many":
            before = read_state(self.client, self.q).place(holder.id)
            self.run(settle.extend_many(self.q, [holder], LEASE_MS))
            assert read_state(self.client, self.q).place(holder.id) == before
        elif self.run(settle.delay(self.q, holder, "in", 0)) is Verdict.SCHEDULED:
            assert read_state(self.client, self.q).place(holder.id) == ["schedule"]

    @invariant()
    def tokens_never_fall(self) -> None:
        for holder in self.holders[-5:]:
            if holder.id not in self.ended:
                token = self.client.hget(self.q.row(holder.id), "attempts")
                assert int(token) >= holder.attempts


@pytest.mark.slow
@pytest.mark.timeout(14_400 if NIGHTLY else 300)
@pytest.mark.parametrize("machine", [WholeLife, BesideTheOriginal])
def test_stories_of_whole_lives(
    sync_speaker: SyncSpeaker, client: Any, machine: Callable[[], RuleBasedStateMachine]
) -> None:
    bound = type("Bound", (machine,), {"speaker": sync_speaker, "client": client})  # type: ignore[arg-type]

    tell(bound, settings=STORIES)
