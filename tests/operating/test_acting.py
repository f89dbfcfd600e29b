"""`emq_queue`, `emq_enqueue` and the actions of `emq_job`: bounded, resumable, never by guess."""

from __future__ import annotations

import io
import json
import signal
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management.base import BaseCommand, CommandError

from emq_django import enqueue_at
from emq_django.conf import keys
from emq_django.errors import InvalidInput
from emq_django.operating import acting, steps
from emq_django.operating.progress import Progress
from emq_django.operating.terminal import Terminal
from emq_django.protocol import claim, lanes, metrics, registry, settle
from emq_django.protocol.metrics import Figures
from emq_django.protocol.records import JobSet
from tests.operating.shell import DEADLINE_S, start
from tests.queue_state import check_invariants

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.operating.conftest import Shop

LANE, OTHER_LANE = "USR0KHTOWnGLuC", "USR0NgWEfAEJfs"


def test_c15_pause_and_resume_by_the_command_say_what_it_was(shop: Shop) -> None:
    said = [shop.run("emq_queue", shop.name, verb).out for verb in ("pause", "pause", "resume")]

    assert said == [
        f"{shop.name}: paused\n", f"{shop.name}: paused, as it was\n", f"{shop.name}: running\n",
    ]  # fmt: skip
    assert not shop.counts().paused


def test_drain_takes_what_waits_and_nothing_else(shop: Shop) -> None:
    shop.add_many(450)
    for lane in (LANE, OTHER_LANE):
        shop.add(lane=lane)
    shop.call(claim.claim(shop.keys, 30_000))
    shop.bury(shop.add_many(2))
    shop.run("emq_enqueue", shop.name, "later", "--in", "1h")

    outcome = shop.run("emq_queue", shop.name, "drain", "--yes")

    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == f"{shop.name}: 451 jobs were removed\n"
    counts = shop.counts()
    assert (counts.pending, counts.lane_pending) == (0, 0)
    assert (counts.active, counts.scheduled, counts.dead) == (1, 1, 2)
    check_invariants(shop.redis, shop.keys)

    again = shop.run("emq_queue", shop.name, "drain", "--yes", "--also", "scheduled", "--also",
                     "dead")  # fmt: skip

    assert again.out == f"{shop.name}: 3 jobs were removed\n"
    check_invariants(shop.redis, shop.keys)


def test_a_drain_does_not_chase_a_producer(shop: Shop) -> None:
    shop.add_many(400)
    removed = 0
    for walk in steps.drain(shop.keys):
        shop.add_many(300)
        removed = walk.done

    assert removed == 400
    assert "pause the queue" in walk.notes[0]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_10_000_dead_jobs_live_again_each_once(shop: Shop) -> None:
    ids = shop.add_many(10_000)
    shop.bury(ids)
    shop.redis.delete(shop.keys.row(ids[5_000]))  # a ghost among them

    outcome = shop.run("emq_queue", shop.name, "retry-dead")

    assert outcome.code == 0
    assert "9,999 jobs wait again; 1 was left" in outcome.out
    assert shop.redis.zcard(shop.keys.pending) == 9_999
    assert shop.redis.zcard(shop.keys.dead) == 0


def test_jobs_that_die_again_at_once_are_not_retried_for_ever(shop: Shop) -> None:
    ids = shop.add_many(500)
    shop.bury(ids)
    walk = steps.Walk()
    for walk in steps.retry_dead(shop.keys):
        shop.bury(ids[: walk.done])
        shop.bury(shop.add_many(50))  # and new ones die beside them

    assert walk.done == 500


def test_retrying_no_dead_job_is_no_error(shop: Shop) -> None:
    assert shop.run("emq_queue", shop.name, "retry-dead").out == f"{shop.name}: 0 jobs wait again\n"


def test_one_job_is_not_told_as_many(shop: Shop) -> None:
    def told(*arguments: str) -> str:
        return shop.run("emq_queue", shop.name, *arguments).out

    shop.bury([shop.add()])
    assert told("retry-dead") == f"{shop.name}: 1 job waits again\n"
    assert told("drain", "--yes") == f"{shop.name}: 1 job was removed\n"
    shop.add()
    shop.redis.set(shop.keys.base + b"left by somebody", "x")
    assert told("obliterate", "--yes") == (
        f"{shop.name}: the queue is gone, 1 job with it;"
        " 1 key that nothing pointed to is gone too\n"
    )


def test_obliterate_leaves_no_key_and_no_name(shop: Shop) -> None:
    shop.add_many(450)
    shop.add(lane=LANE)
    shop.call(lanes.limit_lane(shop.keys, OTHER_LANE, 3))
    shop.bury(shop.add_many(3))
    shop.call(metrics.flush(shop.keys, Figures(completed=1)))
    shop.call(registry.register(shop.keys.wire_name))
    orphan = shop.keys.row("JOB00000000009")
    shop.redis.hset(orphan, mapping={"payload": "x", "attempts": 0, "state": "pending"})
    shop.redis.set(shop.keys.base + b"left by somebody", "x")
    shop.redis.rpush(shop.keys.row("JOB00000000008") + b":logs", "line")
    neighbours = [keys(f"{shop.name}x"), keys(f"x{shop.name}")]
    for neighbour in neighbours:
        shop.redis.zadd(neighbour.pending, {"JOB00000000001": 0})

    outcome = shop.run("emq_queue", shop.name, "obliterate", "--yes")

    assert outcome.code == 0, outcome.text
    assert "the queue is gone, 454 jobs with it" in outcome.out
    assert "3 keys that nothing pointed to" in outcome.out
    assert shop.left() == []
    assert shop.keys.wire_name not in shop.call(registry.registered()).names
    for neighbour in neighbours:
        assert shop.redis.delete(neighbour.pending) == 1


def test_obliterate_finds_strays_of_a_name_full_of_wildcards(shop: Shop) -> None:
    odd = keys(f"{shop.name}[a-z]*?\\")
    shop.redis.set(odd.base + b"stray", "x")
    other = keys(f"{shop.name}b")
    shop.redis.set(other.base + b"stray", "x")

    outcome = shop.run("emq_queue", odd.name, "obliterate", "--yes")

    assert outcome.code == 0, outcome.text
    assert not shop.redis.exists(odd.base + b"stray")
    assert shop.redis.delete(other.base + b"stray") == 1


def test_what_is_enqueued_while_strays_are_looked_for_stays(shop: Shop) -> None:
    shop.add_many(3)
    walks = steps.obliterate(shop.keys)
    for walk in walks:
        if walk.done == walk.total:
            break
    job_id = shop.add()

    for _ in walks:
        pass

    assert shop.redis.zrange(shop.keys.pending, 0, -1) == [job_id.encode()]
    check_invariants(shop.redis, shop.keys)


def test_obliterate_refuses_while_workers_hold_jobs(shop: Shop) -> None:
    shop.add()
    shop.call(claim.claim(shop.keys, 30_000))

    refused = shop.run("emq_queue", shop.name, "obliterate", "--yes")

    assert refused.code == 1
    assert "workers hold 1 job of it" in refused.err
    assert not shop.counts().paused  # nothing was done
    assert shop.run("emq_queue", shop.name, "obliterate", "--yes", "--force").code == 0
    assert shop.left() == []


@pytest.mark.parametrize("verb", ["drain", "obliterate"])
def test_what_can_not_be_undone_is_not_done_without_a_word(shop: Shop, verb: str) -> None:
    shop.add()

    outcome = shop.run("emq_queue", shop.name, verb)

    assert outcome.code == 2
    assert "--yes" in outcome.err
    assert shop.counts().pending == 1


class Interrupting(Progress):
    """Ctrl-C at the third step."""

    shown = 0

    def show(self, done: int, total: int | None) -> None:
        self.shown += 1
        if self.shown == 3:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("verb", "left"), [("drain", "600 of 2,000"), ("obliterate", "600"), ("retry-dead", "600")]
)
def test_ctrl_c_ends_between_two_steps_and_says_how_to_go_on(
    shop: Shop, verb: str, left: str
) -> None:
    ids = shop.add_many(2_000)
    if verb == "retry-dead":
        shop.bury(ids)
    options: dict[str, Any] = {
        "queue": shop.name, "verb": verb, "yes": True, "force": False, "also": [],
    }  # fmt: skip
    bar = Interrupting(io.StringIO(), Terminal(), verb)

    with pytest.raises(CommandError, match=f"stopped after {left}") as stopped:
        acting.act(BaseCommand(), options, bar)

    assert stopped.value.returncode == 130
    assert "the same command does the rest" in str(stopped.value)
    assert shop.counts().paused == (verb == "obliterate")
    check_invariants(shop.redis, shop.keys)
    assert shop.run("emq_queue", shop.name, verb, "--yes").code == 0
    assert shop.counts().dead == 0


def test_a_job_is_retried_removed_released_each_only_where_it_can(shop: Shop) -> None:
    dead, waiting = shop.add(), shop.add()
    shop.bury([dead])
    refused = shop.run("emq_job", waiting, "--retry")
    assert (refused.code, refused.out) == (1, "")
    assert "not dead but pending: nothing was done" in refused.err

    assert shop.run("emq_job", dead, "--retry").out == f"{dead}: it waits for its next run\n"
    job = shop.call(claim.claim(shop.keys, 30_000))
    busy = shop.run("emq_job", job.id, "--remove")
    assert (busy.code, "--release" in busy.err) == (1, True)
    released = shop.run("emq_job", job.id, "--release")
    assert (released.code, "it waits again" in released.out) == (0, True)
    assert shop.call(settle.retry(shop.keys, job, "late", 0, 5)).value == "stale"
    assert shop.run("emq_job", job.id, "--release").code == 1
    assert shop.run("emq_job", dead, "--remove").code == 0
    assert shop.run("emq_job", waiting, "--cancel").code == 0
    assert shop.counts().pending == 0
    check_invariants(shop.redis, shop.keys)


def test_a_cancel_says_which_of_the_two_happened(shop: Shop) -> None:
    waiting, running, dead = (shop.run("emq_enqueue", shop.name, "x").out.strip() for _ in "123")
    shop.redis.zrem(shop.keys.pending, waiting, dead)
    (job,) = shop.call(claim.take(shop.keys, "w", 30_000, 1)).jobs
    shop.redis.zadd(shop.keys.pending, {dead: 0})
    (last,) = shop.call(claim.take(shop.keys, "w", 30_000, 1)).jobs
    shop.call(settle.retry(shop.keys, last, "boom", 0, 0))
    shop.redis.zadd(shop.keys.pending, {waiting: 0})
    assert (job.id, last.id) == (running, dead)

    gone = shop.run("emq_job", waiting, "--cancel")
    assert (gone.code, "it waited and is gone" in gone.out) == (0, True)
    asked = shop.run("emq_job", running, "--cancel")
    assert (asked.code, "a worker runs it and tells it to end" in asked.out) == (0, True)
    said = shop.run("emq_job", running, "--cancel", "--json").out
    assert json.loads(said) == {"id": running, "did": "cancel", "verdict": "asked"}
    assert json.loads(shop.run("emq_job", running, "--json").out)["fields"]["cancel"].isdigit()
    assert "\ncancel " in shop.run("emq_job", running).out
    refused = shop.run("emq_job", dead, "--cancel")
    assert (refused.code, "--remove" in refused.err) == (1, True)


def test_all_are_enqueued_although_nobody_reads_their_ids(shop: Shop) -> None:
    process = start("emq_enqueue", shop.name, "x", "--count", "3000", env=shop.env)
    assert process.stdout
    process.stdout.close()

    _, err = process.communicate(timeout=DEADLINE_S)

    assert (process.returncode, err) == (0, b"")
    assert shop.redis.zcard(shop.keys.pending) == 3_000


def test_payloads_come_as_an_argument_a_file_or_a_pipe(shop: Shop, tmp_path: Path) -> None:
    source = tmp_path / "payload"
    source.write_bytes(b"\x00\xff file")
    outcomes = [
        shop.run("emq_enqueue", shop.name, "text é"),
        shop.run("emq_enqueue", shop.name, "--file", str(source)),
        shop.run("emq_enqueue", shop.name, stdin=b"\x00\xff pipe"),
        shop.run("emq_enqueue", shop.name, "-", stdin=b"dash"),
    ]

    ids = [one.out.strip() for one in outcomes]
    payloads = [shop.redis.hget(shop.keys.row(job_id), "payload") for job_id in ids]
    assert payloads == ["text é".encode(), b"\x00\xff file", b"\x00\xff pipe", b"dash"]


def test_times_lanes_ids_and_counts(shop: Shop) -> None:
    now_ms = shop.counts().now_ms
    later = shop.run("emq_enqueue", shop.name, "x", "--in", "1.5h")
    at = shop.run("emq_enqueue", shop.name, "x", "--at", "2100-01-01T00:00:00+01:00")
    lane = shop.run("emq_enqueue", shop.name, "x", "--lane", LANE, "--json").out
    many = shop.run("emq_enqueue", shop.name, "x", "--count", "2500").out.split()
    some = shop.run("emq_enqueue", shop.name, "x", "--count", "3", "--in", "1h")
    named = [shop.run("emq_enqueue", shop.name, "x", "--id", "JOB00000000009") for _ in range(2)]

    for one in (later, at):  # J=$(emq_enqueue ...) holds the id alone
        assert one.err == f"{one.out.strip()} scheduled\n"
    assert (len(some.out.split()), some.err) == (3, "3 jobs scheduled\n")
    due_ms = shop.redis.zscore(shop.keys.schedule, later.out.strip())
    assert 5_400_000 <= due_ms - now_ms < 5_500_000
    assert shop.redis.zscore(shop.keys.schedule, at.out.strip()) == 4_102_441_200_000
    assert json.loads(lane)["verdict"] == "enqueued"
    assert shop.redis.zcard(shop.keys.lane(LANE)) == 1
    assert len(set(many)) == 2_500
    assert [one.out for one in named] == ["JOB00000000009\n"] * 2
    assert [one.err for one in named] == ["", "JOB00000000009 duplicate\n"]
    assert [one.code for one in named] == [0, 0]


BAD = [
    (["x", "--at", "2030-01-01T08:00"], "naive"),
    (["x", "--at", "tomorrow"], "ISO 8601"),
    (["x", "--in", "soon"], "give seconds"),
    (["x", "--in", "-5"], "give seconds"),
    (["x", "--in", "5", "--at", "2030-01-01T08:00Z"], "give one of them"),
    (["x", "--count", "0"], "1 or more"),
    (["x", "--count", "2", "--id", "JOB00000000009"], "give one of them"),
    (["x", "--id", "nonsense"], "nonsense"),
    (["x", "--lane", "nonsense"], "nonsense"),
    (["x", "--file", "y"], "given twice"),
    (["--file", "nowhere/at/all"], "can't be read"),
    (["x" * 1_100_000], "MAX_PAYLOAD_BYTES"),
]


@pytest.mark.parametrize(("arguments", "why"), BAD, ids=range(len(BAD)))
def test_what_can_not_be_enqueued_is_one_line_and_nothing_is_sent(
    shop: Shop, arguments: list[str], why: str
) -> None:
    outcome = shop.run("emq_enqueue", shop.name, *arguments)

    assert outcome.code == 2
    assert why in outcome.err
    assert "Traceback" not in outcome.err
    assert shop.left() == []


def test_c70_a_naive_time_is_refused_here_as_everywhere(shop: Shop) -> None:
    naive = datetime(2030, 1, 1, 8)  # noqa: DTZ001 - that is the point
    with pytest.raises(InvalidInput, match="naive"):
        enqueue_at(shop.name, b"x", naive)
    assert "naive" in shop.run("emq_enqueue", shop.name, "x", "--at", naive.isoformat()).err


def test_drain_of_active_jobs_is_no_choice(shop: Shop) -> None:
    assert shop.run("emq_queue", shop.name, "drain", "--also", "active").code == 2
    assert JobSet.ACTIVE not in acting._SETS.values()


def test_a_lane_with_a_foreign_name_is_left_and_said(shop: Shop) -> None:
    shop.redis.zadd(shop.keys.base + b"g:odd name:pending", {"JOB00000000001": 0})
    shop.redis.rpush(shop.keys.ring, "odd name")

    outcome = shop.run("emq_queue", shop.name, "drain", "--yes")

    assert outcome.code == 0
    assert "no branded id was left" in outcome.out


def test_no_verb_that_answers_yes_waits_for_a_terminal(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Callable[..., Any]] = []
    monkeypatch.setattr("builtins.input", asked.append)

    for verb in ("pause", "resume", "retry-dead", "drain", "obliterate"):
        assert shop.run("emq_queue", shop.name, verb, "--yes").code == 0
    assert asked == []


@pytest.mark.parametrize(
    ("verb", "option"),
    [("pause", ("--also", "dead")), ("obliterate", ("--also", "dead")), ("drain", ("--force",))],
)
def test_an_option_of_another_verb_is_refused_before_anything_is_done(
    shop: Shop, verb: str, option: tuple[str, ...]
) -> None:
    job_id = shop.add()

    outcome = shop.run("emq_queue", shop.name, verb, "--yes", *option)

    assert (outcome.code, outcome.out) == (2, "")
    assert f"{option[0]} is for " in outcome.err
    assert shop.redis.exists(shop.keys.row(job_id))
    assert not shop.redis.hexists(shop.keys.meta, "paused")
