"""The operator's verbs by queue name: sync and async twins of the builders, ids checked first."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from emq_django import api, control, errors
from emq_django.protocol.lanes import Reassigned
from emq_django.protocol.operate import Drained, Obliterated, Removed, Reprocessed, Updated
from emq_django.protocol.records import JobSet, Verdict

pytestmark = pytest.mark.server

LANE, OTHER_LANE = "USR0KHTOWnGLuC", "USR0NgWEfAEJfs"
BAD_ID = "JOB-0000000000"
SYNC = [name for name in control.__all__ if not inspect.iscoroutinefunction(vars(control)[name])]


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Any:
    """Run a verb by its sync name, or by its async twin on a loop of its own."""
    if request.param == "sync":
        return lambda name, *args, **kwargs: vars(control)[name](*args, **kwargs)
    return lambda name, *args, **kwargs: asyncio.run(vars(control)[f"a{name}"](*args, **kwargs))


def test_every_verb_has_a_twin_a_text_and_the_parameters_of_its_builder() -> None:
    for name in SYNC:
        verb, twin = vars(control)[name], vars(control)[f"a{name}"]
        assert inspect.iscoroutinefunction(twin)
        assert (verb.__name__, twin.__name__) == (name, f"a{name}")
        assert verb.__doc__ == twin.__doc__
        assert verb.__doc__.strip()
        assert next(iter(inspect.signature(verb).parameters)) == "queue"
        assert "Call" not in str(inspect.signature(verb))


def test_pause_and_resume_stop_and_start_a_queue(queue: str, run: Any) -> None:
    api.enqueue(queue, b"job")

    assert run("pause", queue) is True
    assert run("pause", queue) is False
    assert run("counts", queue).paused
    assert api.claim(queue) is None
    assert run("resume", queue) is True
    assert api.claim(queue) is not None


def test_a_dead_job_is_looked_at_changed_and_brought_back(queue: str, run: Any) -> None:
    job_id = api.enqueue(queue, b"job").id
    job = api.claim(queue)
    assert job is not None
    assert run("update_payload", queue, job_id, b"other") is Updated.ACTIVE
    assert api.retry(job, error="boom", delay_ms=0, max_attempts=1) is Verdict.DEAD

    assert run("state", queue, job_id) == "dead"
    assert run("page", queue, JobSet.DEAD).entries[0].last_error.value == b"boom"
    assert run("update_payload", queue, job_id, b"other") is Updated.UPDATED
    assert run("reprocess", queue, [job_id]) == [Reprocessed.PENDING]
    assert run("row", queue, job_id).fields["payload"].value == b"other"
    assert run("remove", queue, [job_id]) == [Removed.REMOVED]
    assert run("state", queue, job_id) == "absent"


def test_a_running_job_is_put_off_and_brought_back(queue: str, run: Any) -> None:
    api.enqueue(queue, b"job")
    job = api.claim(queue)
    assert job is not None

    assert run("progress", queue, job.id, "half") is True
    assert run("add_log", queue, job.id, "first line") == 1
    assert run("logs", queue, job.id).lines == ["first line"]
    assert run("extend_many", queue, [job], 60_000) == []
    assert run("delay", queue, job, "in", 0) is Verdict.SCHEDULED
    assert run("promote", queue).moved == 1
    assert api.claim(queue, 1) is not None


def test_a_lane_is_paused_limited_weighed_and_left(queue: str, run: Any) -> None:
    job_id = api.enqueue(queue, b"job", lane=LANE).id

    assert run("pause_lane", queue, LANE) is True
    assert run("resume_lane", queue, LANE) is True
    assert run("limit_lane", queue, LANE, 2) == 0
    run("weigh_lane", queue, LANE, 3)
    (lane,) = run("lane_depths", queue)
    assert (lane.name, lane.waiting, lane.limit, lane.weight, lane.on_ring) == (LANE, 1, 2, 3, True)
    assert run("reassign", queue, job_id, OTHER_LANE) is Reassigned.MOVED
    assert run("drain", queue, OTHER_LANE) == Drained(1, 0)


def test_a_repeat_is_registered_seen_and_cancelled(queue: str, run: Any) -> None:
    assert run("register_repeat", queue, "tick", 1_000, b"job", 0) is True
    assert run("register_repeat", queue, "tick", 1_000, b"job", 0) is False
    assert [due.name for due in run("due_repeats", queue).due] == ["tick"]
    assert run("cancel_repeat", queue, "tick") is True


def test_a_queue_is_obliterated_in_steps(queue: str, run: Any) -> None:
    api.enqueue_many(queue, [b"job"] * 3)
    run("limit_queue", queue, 5)

    assert run("obliterate", queue) is Obliterated.NOT_PAUSED
    run("pause", queue)
    assert run("obliterate", queue, batch=2) is Obliterated.MORE
    while run("obliterate", queue, batch=2) is Obliterated.MORE:
        pass
    counts = run("counts", queue)
    assert (counts.pending, counts.paused) == (0, False)


def test_expired_leases_are_reaped(queue: str, run: Any) -> None:
    api.enqueue(queue, b"job")
    assert api.claim(queue, 1) is not None

    while run("counts", queue).expired == 0:
        pass

    assert run("reap", queue).moved == 1


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("state", (BAD_ID,)),
        ("row", (BAD_ID,)),
        ("update_payload", (BAD_ID, b"")),
        ("progress", (BAD_ID, "half")),
        ("add_log", (BAD_ID, "line")),
        ("logs", (BAD_ID,)),
        ("reassign", (BAD_ID, LANE)),
        ("reprocess", ([BAD_ID],)),
        ("remove", ([BAD_ID],)),
    ],
)
def test_a_malformed_id_is_refused_before_anything_is_sent(
    queue: str, run: Any, name: str, args: tuple[Any, ...], monitor: Any
) -> None:
    with monitor() as recording, pytest.raises(errors.InvalidJobId, match="14 characters"):
        run(name, queue, *args)

    assert recording.commands == []


@pytest.mark.parametrize("name", ["reprocess", "remove"])
def test_one_id_in_the_place_of_a_list_is_refused(queue: str, run: Any, name: str) -> None:
    with pytest.raises(errors.InvalidInput, match="list of ids"):
        run(name, queue, "JOB00000000001")


def test_a_payload_is_checked_wherever_one_is_given(queue: str, run: Any) -> None:
    with pytest.raises(errors.InvalidPayload, match=r"text\.encode"):
        run("update_payload", queue, "JOB00000000001", "text")
    with (
        override_settings(EMQ={"CONNECTION": "queue", "MAX_PAYLOAD_BYTES": 2}),
        pytest.raises(errors.PayloadTooLarge, match="MAX_PAYLOAD_BYTES"),
    ):
        run("register_repeat", queue, "tick", 1_000, b"123")


@pytest.mark.parametrize("bad", ["", "a{b", "a}b"])
def test_a_bad_queue_name_is_refused(run: Any, bad: str) -> None:
    with pytest.raises(errors.InvalidQueueName):
        run("pause", bad)


def test_the_reference_names_every_verb() -> None:
    page = Path(__file__).parents[2] / "docs/reference/control.md"
    table = "\n".join(line for line in page.read_text("utf-8").splitlines() if line[:1] == "|")

    assert [name for name in SYNC if f"`{name}(" not in table and f"`{name}`" not in table] == []
