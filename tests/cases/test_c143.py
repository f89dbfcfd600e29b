"""C143: a call on commit has its id at once; the row that stores it is there when the job runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Group
from django.db import transaction

from emq_django import Verdict, claim, enqueue, enqueue_on_commit
from emq_django.protocol.ids import is_branded
from emq_django.task_backend.compat import TaskResultDoesNotExist, TaskResultStatus
from tests.cases.commits import alias, finds, groups
from tests.outbox.conftest import postgres

if TYPE_CHECKING:
    from tests.task_backend.conftest import Desk

__all__ = ["alias", "groups", "postgres"]


def test_the_id_of_a_task_is_known_before_the_commit(desk: Desk, alias: str) -> None:
    task = finds.using(queue_name=desk.queue)
    with transaction.atomic(using=alias):
        result = enqueue_on_commit(task, ("x", alias), using=alias)
        assert is_branded(result.id.rpartition(":")[2])
        assert (result.verdict, result.status) == (Verdict.DEFERRED, TaskResultStatus.READY)
        with pytest.raises(TaskResultDoesNotExist, match="no such job"):
            task.get_result(result.id)
        Group.objects.using(alias).create(name=result.id)

    job = claim(desk.queue)
    assert job is not None
    assert f"{desk.queue}:{job.id}" == result.id
    assert Group.objects.using(alias).get().name == result.id
    result.refresh()
    assert result.status == TaskResultStatus.RUNNING


def test_the_id_of_a_raw_job_is_too(desk: Desk, alias: str) -> None:
    with transaction.atomic(using=alias):
        receipt = enqueue(desk.queue, b"x", on_commit=True, using=alias)
        assert is_branded(receipt.id)
        assert receipt.verdict is Verdict.DEFERRED

    job = claim(desk.queue)
    assert job is not None
    assert job.id == receipt.id
