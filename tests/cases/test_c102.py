"""C102: a task that was renamed or removed by a deploy is put aside and told, never thrown away."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from emq_django import control
from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import operate, read
from tests.cases import tasks
from tests.task_backend import zoo
from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.task_backend.conftest import Desk
    from tests.worker.processes import WorkerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

OLD, NEW = "tests.task_backend.zoo", "tests.cases.tasks"
EACH = 10


@pytest.mark.parametrize(
    ("first", "second"), [(OLD, NEW), pytest.param(NEW, OLD, marks=pytest.mark.nightly)]
)
def test_each_release_runs_its_own_jobs_and_drops_none_of_the_other(
    desk: Desk, first: str, second: str
) -> None:
    names = send(desk)
    desk.emq["TASK_MODULES"] = [first]
    one = desk.start()
    desk.noted("ran", EACH)
    until(lambda: len(put_aside(one)) >= EACH, "the others are put aside")
    aside = put_aside(one)
    assert all("ERROR" in line and "knows no task" in line for line in aside)
    assert desk.counts().dead == 0

    desk.emq["TASK_MODULES"] = [second]
    desk.start()
    one.kill()  # it would put the same jobs aside again: the deploy is over

    until(lambda: len(desk.notes("ran")) == 2 * EACH, "every job has run", 60)
    assert sorted(note["name"] for note in desk.notes("ran")) == sorted(names)
    until(lambda: not desk.counts().active, "nothing is in flight")
    assert desk.counts().dead == 0


def test_a_name_that_nobody_knew_for_its_grace_time_is_dead_as_it_came_and_can_be_revived(
    desk: Desk,
) -> None:
    desk.emq["UNKNOWN_TASK_GRACE_S"] = 0
    desk.emq["TASK_MODULES"] = [OLD]
    desk.set()
    sent = tasks.renamed.using(queue_name=desk.queue).enqueue("kept")
    job_id = sent.id.rpartition(":")[2]
    before = payload_of(desk, job_id)
    old = desk.start()
    until(lambda: desk.counts().dead == 1, "it is dead")
    old.kill()
    error = desk.field(sent.id, "last_error") or b""
    assert b"knows no task 'tests.cases.tasks.renamed'" in error
    assert payload_of(desk, job_id) == before
    assert json.loads(before)["args"] == ["kept"]

    desk.emq["TASK_MODULES"] = [OLD, NEW]
    desk.start()
    assert control.reprocess(desk.queue, [job_id]) == [operate.Reprocessed.PENDING]

    desk.noted("ran")
    assert desk.notes("ran")[0]["name"] == "kept"


def put_aside(worker: WorkerProcess) -> list[str]:
    return [line for line in worker.log().splitlines() if " put aside " in line]


def send(desk: Desk) -> list[str]:
    """Enqueue jobs of both releases in turn."""
    names = []
    for number in range(EACH):
        for release, task in (("old", zoo.noted), ("new", tasks.renamed)):
            names.append(f"{release}-{number}")
            task.using(queue_name=desk.queue).enqueue(names[-1])
    return names


def payload_of(desk: Desk, job_id: str) -> bytes:
    row = wire_for(keys(desk.queue)).run(read.row(keys(desk.queue), job_id))
    assert row is not None
    value = row.fields["payload"].value
    assert value is not None
    return value
