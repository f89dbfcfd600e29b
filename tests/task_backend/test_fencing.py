"""A stale run's write loses: the race of the recipe, forced with real leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import connection, models

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.fencing import Fenced, Holding
from emq_django.protocol import claim, settle, upkeep
from emq_django.protocol.records import ClaimedJob, Verdict
from tests.task_backend import zoo
from tests.worker.processes import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.task_backend.conftest import Desk

pytestmark = pytest.mark.django_db(transaction=True)


class Import(Fenced):
    rows = models.IntegerField(default=0)

    class Meta:
        app_label = "fencing_test"


@pytest.fixture
def row() -> Iterator[Import]:
    with connection.schema_editor() as editor:
        editor.create_model(Import)
    yield Import.objects.create()
    with connection.schema_editor() as editor:
        editor.delete_model(Import)


def take(desk: Desk, lease_ms: int) -> ClaimedJob:
    named = keys(desk.queue)
    return wire_for(named).run(claim.take(named, "w", lease_ms)).jobs[0]


def write(job: ClaimedJob, rows: int) -> int:
    holder = Holding(type("Job", (), {"id": job.id, "attempts": job.attempts}))
    return Import.objects.all().fenced(holder).update(rows=rows)


def test_a_run_that_lost_its_lease_can_t_overwrite_the_later_one(desk: Desk, row: Import) -> None:
    zoo.add.using(queue_name=desk.queue).enqueue(1)
    named = keys(desk.queue)
    paused = take(desk, lease_ms=1)  # its worker stops here, before its write
    until(lambda: desk.counts().expired == 1, "the lease is over")
    wire_for(named).run(upkeep.reap(named))
    later = take(desk, lease_ms=30_000)

    assert write(later, rows=2) == 1
    assert write(paused, rows=1) == 0  # it wakes up
    row.refresh_from_db()
    assert row.rows == 2
    assert wire_for(named).run(settle.complete(named, paused)) is Verdict.STALE
    assert wire_for(named).run(settle.complete(named, later)) is Verdict.COMPLETED


def test_a_run_may_write_as_often_as_it_likes(desk: Desk, row: Import) -> None:
    zoo.add.using(queue_name=desk.queue).enqueue(1)
    job = take(desk, lease_ms=30_000)

    assert [write(job, rows=n) for n in range(3)] == [1, 1, 1]


def test_another_job_may_write_the_row_after_it(desk: Desk, row: Import) -> None:
    zoo.add.using(queue_name=desk.queue).enqueue_many([(1,), (2,)])
    first, second = take(desk, 30_000), take(desk, 30_000)

    assert [write(first, 1), write(second, 2)] == [1, 1]
    row.refresh_from_db()
    assert (row.rows, row.fence_job, row.fence_token) == (2, second.id, second.attempts)


def test_a_task_guards_its_write_by_its_context(desk: Desk, row: Import) -> None:
    result = zoo.writes_fenced.using(queue_name=desk.queue).enqueue("fencing_test.Import", 7)

    desk.run()

    row.refresh_from_db()
    assert (row.rows, row.fence_job) == (7, result.id.rpartition(":")[2])
