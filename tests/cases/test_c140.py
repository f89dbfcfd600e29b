"""C140: with ATOMIC_REQUESTS no job runs before its row is committed, or after a rollback."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Group
from django.db import connections, transaction
from django.http import HttpResponse
from django.test import Client
from django.urls import path

from emq_django import enqueue_on_commit
from tests.cases.commits import Rollback, alias, finds, groups, quick_worker, wait_for
from tests.outbox.conftest import postgres

if TYPE_CHECKING:
    from django.http import HttpRequest

    from tests.task_backend.conftest import Desk

__all__ = ["alias", "groups", "postgres"]

pytestmark = pytest.mark.urls(__name__)

ROUNDS = 30


def view(request: HttpRequest, alias: str, queue: str, name: str) -> HttpResponse:
    """Store a group and ask for a task that looks for it; some requests fail afterwards."""
    task = finds.using(queue_name=queue)
    Group.objects.using(alias).create(name=name)
    result = enqueue_on_commit(task, (name, alias), using=alias)
    with contextlib.suppress(Rollback), transaction.atomic(using=alias):
        enqueue_on_commit(task, (f"{name} of a savepoint", alias), using=alias)
        raise Rollback
    time.sleep(0.02)  # a worker that could run it has the time to
    if name.startswith("lost"):
        raise Rollback
    return HttpResponse(result.id)


urlpatterns = [path("<alias>/<queue>/<name>/", view)]


def test_only_committed_rows_are_looked_for_and_all_are_found(
    desk: Desk, alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.settings[alias], "ATOMIC_REQUESTS", True)
    client = Client(raise_request_exception=False)
    ids = []
    with quick_worker(desk.queue) as ran:
        for n in range(ROUNDS):
            ids.append(client.get(f"/{alias}/{desk.queue}/kept{n}/").content.decode())
            assert client.get(f"/{alias}/{desk.queue}/lost{n}/").status_code == 500
        wait_for(ran, ROUNDS)

    found = [finds.get_result(one).return_value for one in ids]
    assert found == [True] * ROUNDS
    assert len(ran) == ROUNDS, "nothing of a rollback or of a savepoint ran"
    assert desk.counts().pending == 0
    assert Group.objects.using(alias).count() == ROUNDS
