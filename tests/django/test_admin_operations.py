"""The pages of workers, figures and periodic tasks, and the line on the servers' health."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

import pytest
from django.conf import settings
from django.test import Client, override_settings
from django.urls import reverse

from emq_django.admin import charts, health, workers
from emq_django.admin.tokens import once_token
from emq_django.conf import conf
from emq_django.protocol import metrics, settle
from emq_django.protocol import workers as registry
from emq_django.protocol.metrics import Depth, Figures, History, Stretch
from emq_django.timetable import operate
from tests import settings as base
from tests.django.conftest import Jobs, job_url, overview_url, queue_url, text_of
from tests.django.test_admin_actions import entries, said
from tests.django.test_admin_pages import with_server
from tests.servers import free_port
from tests.task_backend.conftest import TASKS

WORKERS = reverse("admin:emq_django_queue_workers")
PERIODIC = reverse("admin:emq_django_queue_periodic")
MINUTE = 60_000


@pytest.fixture
def beat(jobs: Jobs) -> Iterator[Callable[..., None]]:
    """Let a worker be seen; all are forgotten at the end."""
    seen: list[str] = []

    def send(name: str, busy: tuple[str, ...] = (), **facts: Any) -> None:
        said = {
            "incarnation": f"{jobs.name}-{name}",
            "prefix": conf().queue_prefix,
            "host": name,
            "pid": 4_242,
            "version": "9.9",
            "queues": (jobs.name,),
            "concurrency": 8,
        }
        record = registry.Facts(**{**said, **facts})
        seen.append(record.incarnation)
        work = [registry.Busy(jobs.name, one) for one in busy]
        jobs.run(registry.beat(record, work, 3_600_000))

    yield send
    for one in seen:
        jobs.run(registry.gone(one))


@pytest.mark.smoke
def test_workers_are_shown_with_what_they_do(
    jobs: Jobs, root: Client, beat: Callable[..., None]
) -> None:
    job_id = jobs.add()
    beat("web-1", (job_id,), processes=2)
    beat("web-2")
    jobs.redis.zadd(registry.WORKERS_KEY, {f"{jobs.name}-web-2": 1_000})

    page = text_of(root.get(WORKERS))

    assert f'href="{job_url(jobs.name, job_id)}"' in page
    assert f'href="{queue_url(jobs.name)}"' in page
    assert "1 / 8" in page
    assert "1 h 0 min" in page
    gone = page[page.index("web-2") :]
    assert ">gone<" in gone[:400]
    assert ">gone<" not in page[page.index("web-1") : page.index("web-2")]


def test_text_of_a_worker_is_safe_and_its_queues_are_those_one_may_see(
    jobs: Jobs, root: Client, beat: Callable[..., None]
) -> None:
    evil = "<script>alert(1)</script>\u202e"
    beat("evil", host=evil, version=evil, queues=(jobs.name, evil, "payments"))

    with override_settings(EMQ={**base.EMQ, "ADMIN": {"CAN": f"{__name__}.not_payments"}}):
        page = text_of(root.get(WORKERS))

    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert "payments" not in page
    assert jobs.name in page


def not_payments(user: object, codename: str, queue: str) -> bool:
    return queue != "payments"


def test_busy_jobs_are_for_those_who_may_see_jobs(
    jobs: Jobs, staff: Callable[..., Client], beat: Callable[..., None]
) -> None:
    job_id = jobs.add()
    beat("web-1", (job_id,))

    assert job_id not in text_of(staff("view_queue").get(WORKERS))
    assert job_id in text_of(staff("view_queue", "view_job").get(WORKERS))


def test_six_hundred_workers_fit_on_a_page(
    jobs: Jobs, root: Client, beat: Callable[..., None]
) -> None:
    for number in range(600):
        beat(f"host-{number}")

    page = text_of(root.get(WORKERS))

    assert page.count('<th scope="row"') >= 600


def test_the_line_on_the_overview_counts_workers_and_expired_leases(
    jobs: Jobs, root: Client, beat: Callable[..., None]
) -> None:
    beat("web-1")
    jobs.add()
    job = jobs.claim()
    jobs.redis.zadd(jobs.keys.active, {job.id: 1_000})

    with override_settings(EMQ={**base.EMQ, "QUEUES": {jobs.name: {}}}):
        line = text_of(root.get(overview_url())).split("emq-health")[1].split("</p>")[0]

    assert re.search(r"\d+ workers? seen", line)
    assert "1 expired lease" in line
    assert "noeviction" in line


def test_the_line_says_what_is_wrong_with_a_server() -> None:
    bad = health.Server(policy="allkeys-lru", append_only="0", full=True)

    notes = health.notes([bad, bad], 0, 0)

    assert [note.bad for note in notes] == [True, True, True, False, True]
    assert "allkeys-lru" in notes[0].text
    assert [note.text for note in health.notes([health.Server()], None, None)] == [
        "the server does not tell how it keeps jobs"
    ]


def test_a_server_that_is_away_is_told_on_every_page(root: Client) -> None:
    with with_server(f"redis://127.0.0.1:{free_port()}/0", "emails"):
        for url in (WORKERS, queue_url("emails").replace("/change/", "/metrics/")):
            answer = root.get(url)
            assert answer.status_code == 200
            assert "The server did not answer." in text_of(answer)
        assert workers.alive() is None


def figures(completed: int = 0, failed: int = 0, ms: float = 100) -> Figures:
    found = Figures(started=completed + failed, completed=completed, failed=failed)
    for _ in range(completed + failed):
        found.run.add(ms)
        found.wait.add(ms / 2)
    return found


@pytest.mark.smoke
def test_figures_over_time_are_drawn_and_told(jobs: Jobs, root: Client) -> None:
    jobs.run(metrics.flush(jobs.keys, figures(30, 2), ago_ms=5 * MINUTE))
    jobs.run(metrics.flush(jobs.keys, figures(10, 0, 2_500), ago_ms=3 * 60 * MINUTE))
    url = queue_url(jobs.name).replace("/change/", "/metrics/")

    hour = text_of(root.get(url))
    day = text_of(root.get(url + "?range=9h"))

    assert "<dd>30</dd>" in hour
    assert hour.count('<rect class="emq-k-completed"') == 1
    assert hour.count('<rect class="emq-k-failed"') == 1
    assert "30 completed and 2 failed; the table below has each bar" in hour
    assert "<dd>40</dd>" in day
    assert day.count('<rect class="emq-k-completed"') == 2
    assert text_of(root.get(url + "?range=14d")).count('<rect class="emq-k-completed"') in {1, 2}
    assert "<dd>30</dd>" in text_of(root.get(url + "?range=nonsense"))
    assert "style=" not in hour.split('id="content-main"')[1].split("<footer")[0]


def test_numbers_of_a_drawing_know_no_locale(jobs: Jobs, root: Client) -> None:
    jobs.run(metrics.flush(jobs.keys, figures(1_234, 2), ago_ms=5 * MINUTE))
    url = queue_url(jobs.name).replace("/change/", "/metrics/")

    with override_settings(LANGUAGE_CODE="de", USE_THOUSAND_SEPARATOR=True):
        page = text_of(root.get(url))

    svg = "".join(
        re.findall(r"<svg.*?</svg>", page.split("emq-charts")[1].split("emq-ends")[0], re.DOTALL)
    )
    places = re.findall(r' (?:x|y|width|height|x1|x2|y1|y2|points)="([^"]*)"', svg)
    assert places
    assert all(re.fullmatch(r"[\d. ,-]+", place) for place in places)
    assert "1.234" in page


def test_a_queue_without_figures_says_so(jobs: Jobs, root: Client) -> None:
    page = text_of(root.get(queue_url(jobs.name).replace("/change/", "/metrics/")))

    assert "Nothing was counted in this time." in page


def test_how_many_jobs_waited_is_drawn_and_told(jobs: Jobs, root: Client) -> None:
    jobs.add_many(3)
    jobs.add(lane="USR0123456789a")
    jobs.claim()
    jobs.run(metrics.note_depth(jobs.keys))
    url = queue_url(jobs.name).replace("/change/", "/metrics/")

    page = text_of(root.get(url))

    assert "at last 3 waiting and 1 active; the table below has each point" in page
    assert page.count('<polyline class="emq-k-waiting"') == 1
    assert page.count('<polyline class="emq-k-active"') == 1
    assert '<polyline class="emq-k-waiting"' in text_of(root.get(url + "?range=14d"))


def test_a_bin_shows_the_depth_with_most_jobs_waiting() -> None:
    start_ms = 9_000 * 9 * MINUTE
    depths = [
        Depth(start_ms + minute * MINUTE, pending, 1, 0, 0, 0)
        for minute, pending in ((0, 3), (1, 8), (2, 5), (9, 1))
    ]

    found = charts.bins(History(start_ms + 10 * MINUTE, []), charts.SPANS["9h"], depths)

    assert [one.depth.waiting for one in found if one.depth] == [9, 2]
    drawn = charts.depth(found)
    assert drawn.top == 10
    assert [line.kind for line in drawn.lines] == ["waiting", "active"]


def test_bins_gather_stretches_and_leave_out_what_is_older() -> None:
    now_ms = 10_000 * 9 * MINUTE + 30_000
    stretches = [
        Stretch(now_ms // MINUTE * MINUTE - back * MINUTE, figures(1))
        for back in (600, 10, 9, 8, 0)
    ]

    found = charts.bins(History(now_ms, stretches), charts.SPANS["9h"])

    assert len(found) == 60
    assert [one.figures.completed for one in found[-3:]] == [1, 2, 1]
    assert sum(one.figures.completed for one in found) == 4


def test_bars_stand_on_each_other_within_the_drawing() -> None:
    now_ms = 100 * MINUTE
    history = History(now_ms, [Stretch(now_ms, figures(30, 10))])

    drawn = charts.stacked(charts.bins(history, charts.SPANS["1h"]), ("completed", "failed"))

    done, failed = drawn.bars
    assert drawn.top == 50
    assert float(done.y) + float(done.height) == charts.HEIGHT
    assert float(failed.y) + float(failed.height) == pytest.approx(float(done.y))
    assert float(failed.y) >= 0
    assert float(done.x) + float(done.width) <= charts.WIDTH


def test_a_curve_breaks_where_nothing_was_counted() -> None:
    now_ms = 100 * MINUTE
    history = History(
        now_ms, [Stretch(now_ms - back * MINUTE, figures(1, ms=100 * back)) for back in (1, 2, 9)]
    )

    drawn = charts.curves(charts.bins(history, charts.SPANS["1h"]), "run")

    assert [line.kind for line in drawn.lines] == ["p50", "p95"]
    assert [len(line.points) for line in drawn.lines] == [2, 2]
    assert all(len(piece.split()) == 2 for line in drawn.lines for piece in line.points)


@pytest.fixture
def timetable(jobs: Jobs) -> Iterator[Jobs]:
    periodic = {
        "tick <b>": {"TASK": "tests.timetable.zoo.tick", "EVERY_S": 3_600, "QUEUE": jobs.name},
        "nightly": {
            "TASK": "tests.timetable.zoo.tick", "CRON": "30 3 * * *", "TZ": "Europe/Berlin",
            "QUEUE": jobs.name,
        },
        "lost": {"TASK": "no.such.task", "EVERY_S": 5},
        "never": {"TASK": "tests.timetable.zoo.broken", "EVERY_S": 5, "QUEUE": jobs.name},
    }  # fmt: skip
    emq = {**base.EMQ, "PERIODIC": periodic, "TASK_MODULES": ["tests.timetable.zoo"]}
    with override_settings(EMQ=emq, TASKS=TASKS):
        yield jobs


@pytest.mark.smoke
def test_periodic_tasks_are_listed_with_their_rules(timetable: Jobs, root: Client) -> None:
    page = unescape(text_of(root.get(PERIODIC)))

    assert "30 3 * * * Europe/Berlin" in page
    assert "every 3600 s" in page
    assert "there is no such task" in page
    assert f'href="{queue_url(timetable.name)}"' in page


def test_a_periodic_task_is_paused_resumed_and_fired(timetable: Jobs, root: Client) -> None:
    name = "tick <b>"

    page = said(root, root.post(PERIODIC, {"action": "pause_schedule", "id": name}))
    assert operate.standings()[-1].is_paused
    assert 'value="resume_schedule"' in page
    again = root.post(PERIODIC, {"action": "pause_schedule", "id": name})
    assert "nothing to change" in said(root, again)
    said(root, root.post(PERIODIC, {"action": "resume_schedule", "id": name}))
    assert not operate.standings()[-1].is_paused
    said(root, root.post(PERIODIC, {"action": "fire_schedule", "id": name, "once": once_token()}))

    (job_id,) = [raw.decode() for raw in timetable.redis.zrange(timetable.keys.pending, 0, -1)]
    assert [(where, text) for where, _, text in entries()] == [
        (timetable.name, f"Paused the periodic task {name}"),
        (timetable.name, f"Resumed the periodic task {name}"),
        (timetable.name, f"Fired the periodic task {name} {job_id}"),
    ]


def fire_form(client: Client) -> dict[str, str]:
    """What the button of the first entry sends that may be fired."""
    page = unescape(text_of(client.get(PERIODIC)))
    (form,) = [part for part in page.split("<form")[1:] if 'aria-label="Fire now: tick' in part]
    found: dict[str, str] = dict(re.findall(r'name="(id|once)" value="([^"]*)"', form))
    return {"action": "fire_schedule", **found}


def test_a_fire_that_is_sent_twice_fires_once(timetable: Jobs, root: Client) -> None:
    form = fire_form(root)

    assert "Fire now: tick" in said(root, root.post(PERIODIC, form))
    assert "sent before" in said(root, root.post(PERIODIC, form))
    timetable.run(settle.complete(timetable.keys, timetable.claim()))
    assert "sent before" in said(root, root.post(PERIODIC, form))
    assert timetable.redis.zcard(timetable.keys.pending) == 0
    assert len(entries()) == 1

    assert "Fire now: tick" in said(root, root.post(PERIODIC, fire_form(root)))
    assert timetable.redis.zcard(timetable.keys.pending) == 1


@pytest.mark.parametrize("once", ["", "ImEi:1aaaaa:bbbb"])
def test_a_fire_from_a_page_that_is_too_old_fires_nothing(
    once: str, timetable: Jobs, root: Client
) -> None:
    answer = root.post(PERIODIC, {**fire_form(root), "once": once})

    assert "open for too long" in said(root, answer)
    assert timetable.redis.zcard(timetable.keys.pending) == 0
    assert entries() == []


@pytest.mark.parametrize(
    ("action", "name", "text"),
    [
        ("fire_schedule", "another", "no periodic task"),
        ("fire_schedule", "lost", "there is no such task"),
        ("fire_schedule", "never", "planned: no lane"),
        ("retry", "nightly", "There is no such action"),
        ("", "nightly", "There is no such action"),
    ],
)
def test_what_can_not_be_fired_is_told(
    action: str, name: str, text: str, timetable: Jobs, root: Client
) -> None:
    form = {"action": action, "id": name, "once": once_token()}
    page = unescape(said(root, root.post(PERIODIC, form)))

    assert text in page
    assert timetable.redis.zcard(timetable.keys.pending) == 0


def test_a_schedule_of_a_queue_that_one_may_not_see_is_not_there(
    timetable: Jobs, root: Client
) -> None:
    with override_settings(EMQ={**settings.EMQ, "ADMIN": {"CAN": f"{__name__}.nothing"}}):
        page = text_of(root.get(PERIODIC))
        assert "nightly" not in page
        answer = root.post(PERIODIC, {"action": "pause_schedule", "id": "nightly"})
        assert answer.status_code == 403
    assert not any(one.is_paused for one in operate.standings())


def test_who_may_not_see_a_queue_fires_nothing_on_it_and_learns_no_name(
    timetable: Jobs, root: Client
) -> None:
    with override_settings(EMQ={**settings.EMQ, "ADMIN": {"CAN": f"{__name__}.all_but_sight"}}):
        form = {"action": "fire_schedule", "id": "nightly", "once": once_token()}
        assert root.post(PERIODIC, form).status_code == 403
        page = said(root, root.post(PERIODIC, {**form, "id": "nightl"}))
    assert "no periodic task" in page
    assert "nightly" not in page
    assert timetable.redis.zcard(timetable.keys.pending) == 0


def test_what_a_task_says_when_it_can_not_be_fired_is_masked(
    timetable: Jobs, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> str:
        raise RuntimeError("refused: api_key=hunter2")

    monkeypatch.setattr(operate, "fire_now", refuse)

    page = said(root, root.post(PERIODIC, fire_form(root)))

    assert "refused: api_key=" in page
    assert "hunter2" not in page


def all_but_sight(user: object, codename: str, queue: str) -> bool:
    return codename != "view_queue"


def nothing(user: object, codename: str, queue: str) -> bool:
    return False
