"""People of the admin, and a queue whose jobs are put there by the wire itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from emq_django import connections
from emq_django.admin.links import Links
from emq_django.conf import keys
from emq_django.protocol import claim as claiming
from emq_django.protocol import enqueue as admission
from emq_django.protocol.ids import mint
from emq_django.protocol.keyspace import QUEUES_KEY, Queue
from emq_django.protocol.records import ClaimedJob


class Jobs:
    """A queue of the test, filled through the same Calls that the product runs."""

    def __init__(self, name: str, client: redis.Redis) -> None:
        self.name = name
        self.keys: Queue = keys(name)
        self.redis: Any = client
        client.delete(QUEUES_KEY)  # other tests note queues too; the overview would list them

    def run(self, call: Any) -> Any:
        return connections.wire_for(self.keys).run(call)

    def add(self, payload: bytes = b"{}", *, job_id: str | None = None, lane: str = "") -> str:
        job_id = job_id or mint.one()
        if lane:
            self.run(admission.enqueue_lane(self.keys, job_id, payload, lane))
        else:
            self.run(admission.enqueue(self.keys, job_id, payload))
        return job_id

    def add_many(self, count: int) -> list[str]:
        ids = mint.many(count)
        for start in range(0, count, 100):
            part = ids[start : start + 100]
            self.run(admission.enqueue_many(self.keys, [(one, b"{}") for one in part]))
        return ids

    def claim(self, lease_ms: int = 30_000) -> ClaimedJob:
        job = self.run(claiming.claim(self.keys, lease_ms))
        assert isinstance(job, ClaimedJob)
        return job

    def bury(self, job_id: str, error: bytes = b"gone wrong") -> None:
        """Put a job into the dead set as a row and a member, whatever state it had."""
        self.redis.zrem(self.keys.pending, job_id)
        self.redis.hset(self.keys.row(job_id), mapping={"state": "dead", "last_error": error})
        self.redis.zadd(self.keys.dead, {job_id: 0})


@pytest.fixture
def jobs(queue: str, redis_client: redis.Redis) -> Iterator[Jobs]:
    jobs = Jobs(queue, redis_client)
    yield jobs
    redis_client.srem(QUEUES_KEY, jobs.keys.wire_name)  # an enqueue by name has noted it


@pytest.fixture
def _installed_apps_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what tests with further apps left registered: the index fails on an app that is gone."""
    for model in list(admin.site._registry):
        if model._meta.app_label not in apps.app_configs:
            monkeypatch.delitem(admin.site._registry, model)


@pytest.fixture
def staff(db: None, _installed_apps_only: None) -> Callable[..., Client]:
    """Log in a member of the staff with exactly these codenames."""

    def login(*codenames: str, is_superuser: bool = False) -> Client:
        user = User.objects.create_user(
            f"u{User.objects.count()}", is_staff=True, is_superuser=is_superuser
        )
        user.user_permissions.set(
            Permission.objects.filter(content_type__app_label="emq_django", codename__in=codenames)
        )
        client = Client()
        client.force_login(user)
        return client

    return login


@pytest.fixture
def root(staff: Callable[..., Client]) -> Client:
    return staff(is_superuser=True)


def overview_url() -> str:
    return reverse("admin:emq_django_queue_changelist")


def queue_url(name: str, query: str = "") -> str:
    url = Links("admin").queue(name)
    assert url is not None
    return url + query


def job_url(name: str, job_id: str) -> str:
    url = Links("admin").job(name, job_id)
    assert url is not None
    return url


def text_of(response: Any) -> str:
    text: str = response.content.decode()
    return text
