"""C163: nothing of the package answers without a login, and no token stands in a URL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.test import Client

import emq_django
from emq_django.admin.views import JobAdmin, QueueAdmin
from tests.django.test_admin_access import url_of

if TYPE_CHECKING:
    from tests.django.conftest import Jobs

PACKAGE = Path(emq_django.__file__).parent
ROUTES = [(kind, route) for kind in (QueueAdmin, JobAdmin) for route in kind.routes]
GUESSES = ["metrics", "metrics/", "health", "healthz/", "stats.json", "emq/", "emq_django/metrics/"]


@pytest.mark.parametrize(("kind", "route"), ROUTES, ids=lambda part: getattr(part, "name", None))
@pytest.mark.parametrize("token", ["", "?token=secret", "?api_token=secret&key=secret"])
def test_a_stranger_learns_nothing(
    kind: type, route: object, token: str, jobs: Jobs, db: None
) -> None:
    job_id = jobs.add(b"the contents")
    url = url_of(kind, route.name, "admin", jobs)  # type: ignore[attr-defined]
    url = url.replace("JOB00000000000", job_id) + token

    for method in ("get", "post", "head", "put", "delete", "options"):
        answer = getattr(Client(headers={"authorization": "Bearer secret"}), method)(url)
        assert answer.status_code == 302
        assert answer["Location"].startswith("/admin/login/?next=")
        assert answer.content == b""
    assert jobs.redis.zcard(jobs.keys.pending) == 1


@pytest.mark.parametrize("path", GUESSES)
def test_there_is_no_page_outside_the_admin(path: str, db: None) -> None:
    for root in ("/", "/admin/", "/admin/emq_django/"):
        assert Client().get(f"{root}{path}").status_code in {302, 404}


def test_the_package_brings_no_urls_to_include() -> None:
    """What is not there can't be left open: emq_health and emq_queues are commands."""
    modules = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")]

    assert not [path for path in modules if path.name in {"urls.py", "api_urls.py"}]
    code = "\n".join((PACKAGE / path).read_text() for path in modules)
    assert not re.search(r"csrf_exempt|login_not_required", code)
