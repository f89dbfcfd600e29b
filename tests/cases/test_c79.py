"""C79: ids and tokens reach the page and come back from it as they are stored.

Numbers in a payload keep every digit too: tests/django/test_admin_text.py.
"""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from emq_django.conf import keys
from tests.django.conftest import job_url, queue_url

IDS = ["JOB00000000000", "JOB1e300000000", "JOB00000000012", "JOB09007199254"]
TOKEN = 2**53 + 1


@pytest.fixture
def root(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.mark.parametrize("job_id", IDS)
@pytest.mark.parametrize("held_by", ["pending", "active", "dead"])
def test_an_id_is_shown_linked_and_posted_as_it_is_stored(
    queue: str, redis_client: Any, root: Client, job_id: str, held_by: str
) -> None:
    where = keys(queue)
    row = {"state": held_by, "attempts": TOKEN, "payload": "{}"}
    redis_client.hset(where.row(job_id), mapping=row)
    redis_client.zadd(where.base + held_by.encode(), {job_id: 0})

    listed = _text(root.get(queue_url(queue, f"?tab={held_by}")))
    url = job_url(queue, job_id)
    page = _text(root.get(url))

    assert job_id in _words(listed)
    links = re.findall(r'href="([^"?]+)', listed)
    assert url in links
    assert job_id in url
    assert job_id in _words(page)
    assert str(TOKEN) in _words(page)
    posted = re.findall(r'name="(?:_selected_action|key|id|token)" value="([^"]*)"', listed + page)
    assert posted
    assert set(posted) <= {job_id, str(TOKEN), f"{job_id}.{TOKEN}"}
    # A number of 17 digits in a script or in JSON would be rounded: there are only strings.
    assert not re.search(rf"[:=,\[]\s*{TOKEN}\b", re.sub(r"<[^>]*>", "", page))


def _text(response: Any) -> str:
    assert response.status_code == 200
    page: str = response.content.decode()
    return html.unescape(page)


def _words(page: str) -> set[str]:
    return set(re.findall(r"[\w.]+", re.sub(r"<[^>]*>", " ", page)))
