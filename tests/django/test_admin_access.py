"""Who sees what: every page asks for its own codename, on every method and on every site."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client, override_settings
from django.urls import reverse

from emq_django.admin.asking import Tab
from emq_django.admin.base import PagesAdmin
from emq_django.admin.registry import VERBS, Route, Scope, Verb
from emq_django.admin.tokens import once_token
from emq_django.admin.views import JobAdmin, QueueAdmin
from emq_django.models import Job, Queue
from emq_django.timetable import operate
from tests.django.conftest import Jobs, job_url, overview_url, queue_url, text_of
from tests.django.test_admin_models import CODENAMES
from tests.servers import Server
from tests.task_backend.conftest import TASKS

PAGES = [(kind, route) for kind in (QueueAdmin, JobAdmin) for route in kind.routes]
EACH_PAGE = pytest.mark.parametrize(
    ("kind", "route"), PAGES, ids=lambda part: getattr(part, "name", None)
)
OPENED = {200, 302, 303}
# What an action is done to: the selected jobs and lanes are seen only by who may see jobs.
SIGHT = {
    Scope.JOBS: {"view_queue", "view_job"},
    Scope.MATCHING: {"view_queue", "view_job"},
    Scope.QUEUE: {"view_queue"},
    Scope.LANES: {"view_queue"},
    Scope.SCHEDULE: {"view_queue"},
    Scope.PAYLOAD: {"view_job", "view_payload_job"},
}
TICK = {"TASK": "tests.timetable.zoo.tick", "EVERY_S": 3_600}


@pytest.fixture(autouse=True)
def _a_timetable(jobs: Jobs) -> Iterator[None]:
    periodic = {"tick": {**TICK, "QUEUE": jobs.name}}
    emq = {**settings.EMQ, "PERIODIC": periodic, "TASK_MODULES": ["tests.timetable.zoo"]}
    with override_settings(EMQ=emq, TASKS=TASKS):
        yield


def place_of(verb: Verb, jobs: Jobs, tab: Tab) -> str:
    """The page on which an action has its button."""
    if verb.scope is Scope.SCHEDULE:
        return reverse("admin:emq_django_queue_periodic")
    if verb.scope is Scope.PAYLOAD:
        (job_id,) = jobs.redis.zrange(jobs.keys.pending, -1, -1)
        return job_url(jobs.name, job_id.decode()).replace("/change/", "/edit/")
    return queue_url(jobs.name, f"?tab={tab}")


def url_of(kind: type[PagesAdmin], name: str, site: str, jobs: Jobs) -> str:
    model = "queue" if kind is QueueAdmin else "job"
    key = jobs.name if model == "queue" else f"{jobs.name}/JOB00000000000"
    args = [] if name in {"changelist", "workers", "periodic"} else [key]
    return reverse(f"admin:emq_django_{model}_{name}", args=args, current_app=site)


@pytest.mark.smoke
@EACH_PAGE
def test_a_page_opens_for_its_own_codename_and_for_no_other(
    kind: type[PagesAdmin], route: Route, jobs: Jobs, staff: Callable[..., Client]
) -> None:
    url, own, method = url_of(kind, route.name, "admin", jobs), route.codename, route.methods[0]
    opened = {*OPENED, 404} if route.name == "walk" else OPENED

    assert getattr(staff(own), method.lower())(url).status_code in opened
    assert getattr(staff(is_superuser=True), method.lower())(url).status_code in opened
    for other in (CODENAMES - {own}, set(), *({one} for one in CODENAMES - {own})):
        assert getattr(staff(*other), method.lower())(url).status_code == 403


@EACH_PAGE
@pytest.mark.parametrize("method", ["get", "head", "post", "put", "patch", "delete", "options"])
def test_a_page_takes_only_the_methods_it_names(
    kind: type[PagesAdmin], route: Route, method: str, jobs: Jobs, staff: Callable[..., Client]
) -> None:
    url = url_of(kind, route.name, "admin", jobs)

    answer = getattr(staff(*CODENAMES), method)(url)

    if method.upper() in route.methods:
        assert answer.status_code in OPENED
    else:
        assert answer.status_code == 405
    assert getattr(staff(), method)(url).status_code == 403


@EACH_PAGE
def test_a_visitor_is_sent_to_the_login_of_that_site(
    kind: type[PagesAdmin], route: Route, jobs: Jobs, db: None
) -> None:
    url = url_of(kind, route.name, "admin", jobs)

    for method in ("get", "post"):
        answer = getattr(Client(), method)(url)
        assert answer.status_code == 302
        assert answer["Location"].startswith("/admin/login/")


@pytest.mark.smoke
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_an_action_is_open_to_its_own_codename_and_to_no_other(
    verb: Verb, jobs: Jobs, staff: Callable[..., Client]
) -> None:
    """For every single codename beside what it takes to see the list."""
    job_id = jobs.add()
    before = {key: jobs.redis.dump(key) for key in jobs.redis.scan_iter(jobs.keys.base + b"*")}
    tab = min(verb.tabs, default=Tab.PENDING)
    url = place_of(verb, jobs, tab)
    target = "tick" if verb.scope is Scope.SCHEDULE else job_id
    form = {"action": verb.name, "id": target, "confirmed": "1", "name": "not its name"}
    form["once"] = once_token()
    sight = SIGHT[verb.scope]

    for codenames in (
        {"view_queue"},
        sight,
        *(sight | {one} for one in CODENAMES - {verb.codename}),
    ):
        assert staff(*codenames).post(url, form).status_code == 403, codenames
    for missing in sight:
        assert staff(*CODENAMES - {missing}).post(url, form).status_code == 403, missing
    assert staff(*CODENAMES - {verb.codename}).post(url, form).status_code == 403
    after = {key: jobs.redis.dump(key) for key in jobs.redis.scan_iter(jobs.keys.base + b"*")}
    assert after == before
    assert not LogEntry.objects.exists()

    assert staff(*sight, verb.codename).post(url, form).status_code in {200, 303}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_button_is_there_for_those_who_may_press_it(
    verb: Verb, jobs: Jobs, staff: Callable[..., Client]
) -> None:
    job_id = jobs.add(lane="USR0123456789a")
    jobs.add()
    jobs.redis.zadd(jobs.keys.dead, {job_id: 0})
    jobs.redis.zadd(jobs.keys.active, {job_id: 1e15})
    jobs.redis.zadd(jobs.keys.schedule, {job_id: 1e15})
    jobs.redis.zadd(jobs.keys.base + b"dj:finished", {job_id: 1e12})
    for part in ("pending", "active", "schedule", "dead"):
        jobs.redis.zadd(jobs.keys.base + part.encode(), {"JOB00000000000": 0})
    if verb.name == "resume":
        jobs.redis.hset(jobs.keys.meta, "paused", "1")
    if verb.name == "resume_schedule":
        operate.pause("tick")
    button = f'name="action" value="{verb.name}"'

    for tab in verb.tabs or set(Tab) - {Tab.LANES}:
        url = place_of(verb, jobs, tab)
        assert button in text_of(staff(*SIGHT[verb.scope], "view_job", verb.codename).get(url))
        assert button not in text_of(staff(*CODENAMES - {verb.codename}).get(url))


def test_a_user_who_is_no_longer_active_is_a_visitor(
    jobs: Jobs, staff: Callable[..., Client]
) -> None:
    client = staff(is_superuser=True)
    User.objects.update(is_active=False)

    assert client.get(queue_url(jobs.name)).status_code == 302
    assert client.post(queue_url(jobs.name), {"action": "resume"}).status_code == 302


def test_a_form_without_the_token_of_its_page_is_refused(jobs: Jobs, root: Client) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = root.cookies

    answer = strict.post(queue_url(jobs.name), {"action": "pause", "confirmed": "1"})

    assert answer.status_code == 403
    assert not jobs.redis.hexists(jobs.keys.meta, "paused")


def test_every_codename_that_a_page_asks_for_exists() -> None:
    assert {route.codename for _, route in PAGES} <= CODENAMES
    assert {verb.codename for verb in VERBS.values()} <= CODENAMES


def test_staff_without_permission_finds_nothing_on_the_index(
    staff: Callable[..., Client],
) -> None:
    page = text_of(staff().get(reverse("admin:index")))

    assert "emq_django" not in page


@pytest.mark.smoke
def test_the_index_lists_queues_and_hides_jobs(root: Client) -> None:
    page = text_of(root.get(reverse("admin:index")))

    assert overview_url() in page
    assert reverse("admin:emq_django_job_changelist") not in page
    assert "/add/" not in page.split("model-queue")[1].split("</tr>")[0]


@pytest.mark.parametrize("rest", ["add/", "emails/delete/", "emails/"])
def test_stock_pages_that_would_ask_a_table_are_closed(root: Client, rest: str) -> None:
    for method in (root.get, root.post):
        assert method(overview_url() + rest).status_code == 404


def test_a_payload_is_read_and_shown_only_with_its_permission(
    jobs: Jobs, staff: Callable[..., Client]
) -> None:
    job_id = jobs.add(b"the contents")
    jobs.redis.hset(jobs.keys.row(job_id), "last_error", "the error")
    jobs.redis.hset(jobs.keys.row(job_id), "progress", "the progress")
    urls = [queue_url(jobs.name), job_url(jobs.name, job_id)]

    without = staff("view_queue", "view_job")
    allowed = staff("view_queue", "view_job", "view_payload_job")

    for url in urls:
        page = text_of(without.get(url))
        assert job_id in page
        assert not any(text in page for text in ("the contents", "the error", "the progress"))
        assert "the contents" in text_of(allowed.get(url))


def test_figures_alone_can_be_granted(jobs: Jobs, staff: Callable[..., Client]) -> None:
    job_id = jobs.add()

    page = text_of(staff("view_queue").get(queue_url(jobs.name)))

    assert job_id not in page
    assert "but not its jobs" in page


def test_the_search_leads_to_a_job_only_for_those_who_may_see_it(
    jobs: Jobs, staff: Callable[..., Client]
) -> None:
    job_id = jobs.add()
    url = queue_url(jobs.name, f"?q={job_id}")

    assert staff("view_queue", "view_job").get(url)["Location"] == job_url(jobs.name, job_id)
    assert staff("view_queue").get(url).status_code == 200


@pytest.mark.urls("tests.django.admin_site")
@pytest.mark.smoke
def test_a_second_site_keeps_all_links_to_itself(jobs: Jobs, root: Client) -> None:
    job_id = jobs.add()
    pages = [
        url_of(kind, route.name, "ops", jobs).replace("JOB00000000000", job_id)
        for kind, route in PAGES
        if "GET" in route.methods
    ]

    for url in pages:
        answer = root.get(url, follow=True)
        assert answer.status_code == 200
        assert "/admin/" not in text_of(answer).replace("/static/admin/", "")
        assert "/backoffice/" in text_of(answer)


@pytest.mark.urls("tests.django.admin_site")
def test_a_site_without_job_pages_has_no_dead_links(jobs: Jobs, root: Client) -> None:
    job_id = jobs.add()
    url = reverse("admin:emq_django_queue_change", args=[jobs.name], current_app="queues_only")

    page = text_of(root.get(url))

    assert job_id in page
    assert "/emq_django/job/" not in page


def test_the_pages_are_on_the_projects_default_site() -> None:
    assert isinstance(admin.site.get_model_admin(Queue), QueueAdmin)
    assert isinstance(admin.site.get_model_admin(Job), JobAdmin)


@pytest.mark.smoke
def test_the_app_may_have_another_label_and_the_admin_another_default_site(server: Server) -> None:
    """A process of its own: labels are settled when Django starts."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.django.renamed"],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.django.settings_renamed"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "all pages answered\n", done.stderr
