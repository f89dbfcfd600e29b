"""C129: what works on one kind of server works on each, and the docs' table says no more than that.

The table in docs/reference/kinds.md is compared with this module: a row for each feature here, a
column for each kind, and for every "yes" the test that its row names.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.test import override_settings

from emq_django import api, control, enqueue, enqueue_in, events
from emq_django.conf import keys
from emq_django.connections import hearing_clients
from emq_django.errors import ModuleMissing, ServerReadOnly
from emq_django.protocol.events import channel
from emq_django.protocol.records import Verdict
from emq_django.workers import worker_for
from tests.kinds import KINDS, Kind, open_kind
from tests.operating.shell import run_here
from tests.samples import LANE
from tests.task_backend import zoo
from tests.task_backend.conftest import TASKS
from tests.worker.processes import DEADLINE_S, Bench, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers import Server

PAGE = Path(__file__).parents[2] / "docs/reference/kinds.md"
Q = "c129"


# Sentinels take seconds to agree, so their column is for the nightly profile.
_PARAMS = [pytest.param(one, marks=[pytest.mark.nightly] * (one == "Sentinel")) for one in KINDS]


@pytest.fixture(scope="module", params=_PARAMS)
def kind(request: pytest.FixtureRequest, server: Server) -> Iterator[Kind]:
    with open_kind(request.param, server) as opened:
        yield opened


@pytest.fixture
def at(kind: Kind) -> Iterator[Kind]:
    """A project on this kind of server, with a queue of which nothing is left."""
    with kind.settings(QUEUES={Q: {"HANDLER": "builtins.repr"}}, TASK_MODULES=[]):
        yield kind
        with kind.client(keys(Q).base) as client:
            if left := client.keys(keys(Q).base + b"*"):
                client.delete(*left)


def done(times: int) -> None:
    """Run a worker until nothing is left and see that so many jobs were done."""
    worker_for([Q], burst=True).run()
    counts = control.counts(Q)
    assert (counts.waiting, counts.active, counts.scheduled, counts.dead) == (0, 0, 0, 0)
    assert counts.completed == times


def first_event() -> events.Event:
    with contextlib.closing(events.listen(Q, idle_s=DEADLINE_S)) as heard:  # type: ignore[type-var]
        return next(heard)


def test_jobs(at: Kind) -> None:
    enqueue(Q, b"x")
    job = api.claim(Q, 30_000)
    assert job is not None
    api.retry(job, error="again", delay_ms=0, max_attempts=5)

    done(1)


async def test_async_verbs(at: Kind) -> None:
    await api.aenqueue(Q, b"x")
    job = await api.aclaim(Q, 30_000)
    assert job is not None
    await api.acomplete(job)

    assert (await control.acounts(Q)).active == 0


def test_scheduled_jobs(at: Kind) -> None:
    api.enqueue_at(Q, b"x", 1)  # Unix ms: due since 1970

    done(1)


def test_recovery(at: Kind) -> None:
    """Whoever held the job is gone; its lease ends, and it is done by another."""
    enqueue(Q, b"x")
    assert api.claim(Q, 1) is not None

    done(1)


def test_wake_up(at: Kind) -> None:
    """A worker that waits hears of a job that somebody else enqueues."""
    ((ear, _),) = hearing_clients([keys(Q)])
    try:
        ear.execute(("PING",), b"")
        assert ear.hears, ear.refusal
        ear.heard()
        enqueue(Q, b"x")
        until(lambda: keys(Q).pending in ear.heard(), "the queue's key is announced")
    finally:
        ear.close()


def test_lanes(at: Kind) -> None:
    enqueue(Q, b"x", lane=LANE)
    control.limit_lane(Q, LANE, 1)

    done(1)


def test_unique_jobs(at: Kind) -> None:
    enqueue(Q, b"x", unique="k")
    assert enqueue(Q, b"x", unique="k").verdict is Verdict.DUPLICATE

    done(1)
    assert enqueue(Q, b"x", unique="k").verdict is Verdict.ENQUEUED


def test_tasks(at: Kind) -> None:
    with override_settings(TASKS=TASKS):
        result = zoo.add.using(queue_name=f"{Q}-tasks").enqueue(1, b=2)
        worker_for([f"{Q}-tasks"], burst=True).run()
        result.refresh()

    assert result.return_value == 3


def test_events(at: Kind) -> None:
    queues = {Q: {"HANDLER": "builtins.repr", "EVENTS": True}}
    with at.settings(QUEUES=queues), ThreadPoolExecutor() as pool:
        heard = pool.submit(first_event)
        with at.client(keys(Q).base) as client:
            until(lambda: client.pubsub_numsub(channel(keys(Q)))[0][1], "somebody listens")
        enqueue(Q, b"x")
        worker_for([Q], burst=True).run()

        assert heard.result().job_id


def test_operating(at: Kind) -> None:
    enqueue(Q, b"x")
    control.pause(Q)
    shown = run_here("emq_queues", Q)
    healthy = run_here("emq_health", Q)
    purged = run_here("emq_queue", Q, "obliterate", "--yes")

    assert [one.text for one in (shown, healthy, purged) if one.code] == []
    assert "paused" in shown.out
    assert control.counts(Q).waiting == 0


@pytest.mark.nightly
def test_killed_workers(at: Kind, tmp_path: Path) -> None:
    """kill -9 of a whole tree: another one brings its job back, wakes up, and promotes."""
    bench = Bench(Q, tmp_path, settings={"LEASE_MS": 1_000}, environment=at.environment)
    try:
        gate = tmp_path / "gate"
        lost = bench.add(wait_for=str(gate))
        first = bench.start("--concurrency", "1")
        bench.started()
        for child in first.children():
            os.kill(child, signal.SIGKILL)
        first.kill()
        gate.touch()
        second = bench.start("--concurrency", "1")
        until(bench.empty, "the lost job is done")
        second.wait_for_log("tells this worker of new jobs")
        fresh = bench.add()
        until(bench.empty, "the new job is done")
        enqueue_in(Q, b"{}", 100)
        until(
            lambda: len(bench.ledger.notes("end")) == 3 and bench.empty(), "the later job is done"
        )
    finally:
        bench.close()

    assert bench.ledger.count("start")[lost] == 2
    assert [note.id for note in bench.ledger.notes("end")][:2] == [lost, fresh]


def test_what_a_kind_lacks_is_said_at_the_start(at: Kind) -> None:
    """Wire 6 needs the server's module, which none of these has."""
    with at.settings(WIRE=6), pytest.raises(ModuleMissing, match="set EMQ"):
        enqueue(Q, b"x")


def test_a_replica_is_no_server_for_jobs(fresh_server: Callable[..., Server]) -> None:
    replica = fresh_server("--replicaof", "127.0.0.1", "1")
    emq = {"CONNECTION": replica.url, "ENQUEUE_DEADLINE_S": 0}
    with override_settings(EMQ=emq), pytest.raises(ServerReadOnly):
        enqueue(Q, b"x")


def test_the_page_says_what_these_tests_show() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text("utf-8").splitlines()
        if line.startswith("|") and not line.startswith("| ---")
    ]
    header, *features = rows
    shown = {
        name
        for name, test in globals().items()
        if name.startswith("test_") and "at" in inspect.signature(test).parameters
    }
    shown.remove("test_what_a_kind_lacks_is_said_at_the_start")

    assert header[1:-1] == list(KINDS)
    assert all(cells == ["yes"] * len(KINDS) for _, *cells, _ in features)
    assert {re.sub("`", "", test) for *_, test in features} == shown
