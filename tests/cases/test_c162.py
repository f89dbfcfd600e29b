"""C162: who may do what, for every kind of user, page, action and method.

The whole table is made from the registry: every page and every action for every single codename, in
tests/django/test_admin_access. Here are the people of the case, by every method, on a queue with
jobs in all lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from emq_django.admin.registry import VERBS, Scope
from emq_django.admin.views import JobAdmin, QueueAdmin
from tests.django.conftest import overview_url, queue_url, text_of
from tests.django.test_admin_access import url_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.django.conftest import Jobs

ROUTES = [(kind, route) for kind in (QueueAdmin, JobAdmin) for route in kind.routes]
METHODS = ("get", "head", "post", "put", "patch", "delete")
REFUSED = {
    "anonymous": 302,
    "no staff": 302,
    "inactive superuser": 302,
    "staff without rights": 403,
    "staff of another app": 403,
}


@pytest.fixture
def people(staff: Callable[..., Client]) -> dict[str, Client]:
    found = {"anonymous": Client(), "staff without rights": staff()}
    found["staff of another app"] = staff("view_user", "delete_user")
    customer, found["no staff"] = User.objects.create_user("customer"), Client()
    found["no staff"].force_login(customer)
    found["inactive superuser"] = staff(is_superuser=True)
    User.objects.filter(is_superuser=True).update(is_active=False)
    return found


@pytest.fixture
def full(jobs: Jobs) -> Jobs:
    ids = jobs.add_many(6)
    jobs.add(lane="USR0123456789a")
    jobs.claim()
    jobs.bury(ids[5])
    jobs.redis.zadd(jobs.keys.schedule, {ids[4]: 1e15})
    return jobs


def state(jobs: Jobs) -> dict[bytes, bytes]:
    return {key: jobs.redis.dump(key) for key in jobs.redis.scan_iter(jobs.keys.base + b"*")}


@pytest.mark.parametrize("who", REFUSED)
def test_who_may_nothing_is_refused_everywhere(
    who: str, full: Jobs, people: dict[str, Client]
) -> None:
    before, client = state(full), people[who]
    forms = [{"action": name, "confirmed": "1", "name": full.name} for name in VERBS]

    for kind, route in ROUTES:
        for method in METHODS:
            for form in forms if method == "post" else [{}]:
                url = url_of(kind, route.name, "admin", full)
                answer = getattr(client, method)(url, form)
                assert answer.status_code == REFUSED[who], (route.name, method, form)
    assert state(full) == before
    if REFUSED[who] == 403:
        assert overview_url() not in text_of(client.get(reverse("admin:index")))


def test_who_may_look_may_only_look(full: Jobs, staff: Callable[..., Client]) -> None:
    before, client = state(full), staff("view_queue", "view_job", "view_payload_job")
    ids = [one.decode() for one in full.redis.zrange(full.keys.pending, 0, -1)]

    assert client.get(queue_url(full.name)).status_code == 200
    for verb in VERBS.values():
        for tab in verb.tabs or {"pending"}:
            form = {"action": verb.name, "id": ids, "confirmed": "1", "name": full.name}
            url = queue_url(full.name, f"?tab={tab}")
            if verb.scope is Scope.SCHEDULE:
                url = reverse("admin:emq_django_queue_periodic")
            elif verb.scope is Scope.PAYLOAD:
                url = url_of(JobAdmin, "edit", "admin", full)
            assert client.post(url, form).status_code == 403, verb.name
    assert client.post(url_of(JobAdmin, "download", "admin", full)).status_code == 403
    assert state(full) == before
