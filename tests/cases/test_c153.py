"""C153: an AdminSite of the project's own is the only one, and every link stays on it.

Two sites at once, a replaced default site and a site without the pages of jobs:
tests/django/test_admin_access.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.contrib import admin
from django.http import HttpRequest
from django.test import Client
from django.urls import path, reverse

from emq_django.admin import register
from tests.django.conftest import text_of

if TYPE_CHECKING:
    from tests.django.conftest import Jobs


class StaffSite(admin.AdminSite):
    site_url = None  # a link to "/" that no page of ours makes

    def has_permission(self, request: HttpRequest) -> bool:
        return super().has_permission(request) and request.user.get_username() != "locked-out"


site = StaffSite(name="staff")
register(site)
urlpatterns = [path("backoffice/", site.urls)]

LINKS = re.compile(r'(?:href|action)="(/[^"]*)"')


@pytest.mark.urls(__name__)
@pytest.mark.smoke
def test_every_page_of_the_only_site_leads_to_its_own_pages(jobs: Jobs, root: Client) -> None:
    job_id = jobs.add()
    jobs.bury(jobs.add())
    seen: set[str] = set()
    to_do = [
        reverse("admin:index", current_app="staff"),
        reverse("admin:emq_django_queue_change", args=[jobs.name], current_app="staff"),
    ]
    while to_do and len(seen) < 60:
        url = to_do.pop(0)
        page = text_of(root.get(url, follow=True))
        seen.add(url)
        links = {one for one in LINKS.findall(page) if not one.startswith("/static/")}
        assert all(link.startswith("/backoffice/") for link in links), (url, links)
        pages = {
            link.replace("&amp;", "&")
            for link in links
            if not re.search(
                "logout|password|/jsi18n|/auth/|/download/|[?&;](order|minted|due|lease|ended|range)=",
                link,
            )
        }
        to_do += sorted(pages - seen - set(to_do))

    kinds = ("/queue/", "/workers/", "/periodic/", "/metrics/", "/history/", f"{job_id}/change/")
    for kind in kinds:
        assert any(kind in url for url in seen), (kind, seen)
    question = root.post(f"/backoffice/emq_django/queue/{jobs.name}/change/", {"action": "pause"})
    assert question.status_code == 200
    assert 'action="/backoffice/' in text_of(question)


@pytest.mark.urls(__name__)
def test_the_site_decides_who_enters(jobs: Jobs, root: Client, django_user_model: type) -> None:
    user = django_user_model.objects.create_superuser("locked-out")  # type: ignore[attr-defined]
    client = Client()
    client.force_login(user)

    answer = client.get(f"/backoffice/emq_django/queue/{jobs.name}/change/")

    assert answer.status_code == 302
    assert answer["Location"].startswith("/backoffice/login/")
    assert client.post(answer.request["PATH_INFO"], {"action": "pause"}).status_code == 302
