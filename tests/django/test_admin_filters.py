"""Filters bound the read by place, or look at a bounded part row by row; none tells a secret."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from html import unescape
from urllib.parse import urlencode

import pytest
from django.test import Client, override_settings
from django.utils import timezone

from emq_django.protocol import enqueue as admission
from emq_django.protocol import settle
from emq_django.protocol.ids import first_id_at, mint
from emq_django.protocol.results import Kept
from tests import settings as base
from tests.django.conftest import Jobs, job_url, queue_url, text_of
from tests.django.test_admin_bulk import bury_many
from tests.django.test_admin_pages import IDS, NEXT, PREVIOUS

LANE = "USR0123456789a"
EIGHT_PM_MS = 1_767_297_600_000  # 2026-01-01 20:00 UTC


def listed(client: Client, jobs: Jobs, query: str) -> list[str]:
    return IDS.findall(text_of(client.get(queue_url(jobs.name, query))))


def walked(client: Client, jobs: Jobs, query: str) -> list[list[str]]:
    pages, url = [], queue_url(jobs.name, query)
    while url:
        page = text_of(client.get(url))
        pages.append(IDS.findall(page))
        follow = NEXT.search(page)
        url = unescape(follow[1]) if follow else ""
    return pages


def test_a_range_of_mint_times_is_read_in_the_zone_of_the_reader(jobs: Jobs, root: Client) -> None:
    ids = [first_id_at(EIGHT_PM_MS + minutes * 60_000) for minutes in (-1, 0, 30, 60, 61)]
    for one in ids:
        jobs.add(job_id=one)

    with override_settings(TIME_ZONE="Asia/Tokyo"):
        page = text_of(
            root.get(queue_url(jobs.name, "?from=2026-01-02T05:00&to=2026-01-02T06:00:00"))
        )
        assert IDS.findall(page) == ids[1:4]
        assert 'value="2026-01-02T05:00:00"' in page
        assert "Asia/Tokyo" in page
        assert "Minted from 2026-01-02 05:00:00 Asia/Tokyo" in page


def test_leases_that_are_over_or_soon_will_be(jobs: Jobs, root: Client) -> None:
    jobs.add_many(4)
    over, soon, later, last = (jobs.claim().id for _ in range(4))
    now_ms = int(jobs.redis.time()[0]) * 1000
    ends = {over: now_ms - 5_000, soon: now_ms + 30_000, later: now_ms + 600_000, last: 2**41}
    jobs.redis.zadd(jobs.keys.active, ends)

    assert listed(root, jobs, "?tab=active&lease=past") == [over]
    assert listed(root, jobs, "?tab=active&lease=1m") == [over, soon]
    assert listed(root, jobs, "?tab=active&lease=15m&order=last") == [later, soon, over]


def test_scheduled_jobs_by_when_they_fall_due(jobs: Jobs, root: Client) -> None:
    ids = mint.many(4)
    for one, delay_ms in zip(ids, (0, 60_000, 1_800_000, 10_800_000), strict=True):
        jobs.run(admission.enqueue_in(jobs.keys, one, b"{}", delay_ms))

    assert listed(root, jobs, "?tab=schedule&due=past") == ids[:1]
    assert listed(root, jobs, "?tab=schedule&due=15m") == ids[:2]
    assert listed(root, jobs, "?tab=schedule&due=1h&order=last") == ids[2::-1]
    assert listed(root, jobs, "?tab=schedule&to=2001-01-01T00:00") == []
    assert listed(root, jobs, "?tab=schedule&from=2001-01-01T00:00") == ids


def test_jobs_of_one_moment_are_paged_without_a_gap_or_a_repeat(jobs: Jobs, root: Client) -> None:
    ids = mint.many(260)
    for one in ids:
        jobs.run(admission.enqueue_at(jobs.keys, one, b"{}", 2**41))

    pages = walked(root, jobs, "?tab=schedule")
    assert [one for page in pages for one in page] == ids
    page = text_of(root.get(queue_url(jobs.name, f"?tab=schedule&after={ids[199]}&at={2.0**41}")))
    jobs.redis.zrem(jobs.keys.schedule, ids[200])  # the cursor of the way back leaves
    back = PREVIOUS.search(page)
    assert back
    assert IDS.findall(text_of(root.get(unescape(back[1])))) == ids[150:200]


def test_a_list_is_filtered_by_attempts_lane_task_and_text(jobs: Jobs, root: Client) -> None:
    plain = bury_many(jobs, 3, attempts="2")
    laned = bury_many(jobs, 3, attempts="5", group=LANE)
    tasks = bury_many(jobs, 3, payload='{"v":1,"task":"shop.tasks.ship","args":["Ünï"]}')
    wrong = bury_many(jobs, 3, last_error="TypeError: bad", payload='{"task":"shop.tasks.shipped"}')

    def dead(query: str) -> set[str]:
        return set(listed(root, jobs, f"?tab=dead&{query}"))

    assert dead("attempts=3") == {*laned, *tasks, *wrong}
    assert dead(f"lane={LANE}") == set(laned)
    assert dead("task=shop.tasks.ship") == set(tasks)
    assert dead("text=TypeError") == set(wrong)
    assert dead("text=%C3%9Cn%C3%AF") == set(tasks)
    assert dead("attempts=2&lane=" + LANE) == set(laned)
    assert dead("attempts=99") == set()
    assert dead("") == {*plain, *laned, *tasks, *wrong}


def test_dead_jobs_by_when_they_died(jobs: Jobs, root: Client) -> None:
    """What is not noted, or is about a claim before the last one, is no time of death."""
    now_ms = int(time.time() * 1_000)
    ages_ms = [60_000, 1_800_000, 40_000_000, 400_000_000, 4_000_000_000]
    ids = [bury_many(jobs, 1, died=f"{now_ms - age_ms}:3")[0] for age_ms in ages_ms]
    for died in ("", f"{now_ms}:2", "x:3", f"{now_ms}", "9" * 20 + ":3"):
        bury_many(jobs, 1, died=died)
    bury_many(jobs, 1)
    at = timezone.localtime(datetime.fromtimestamp(now_ms / 1_000 - 86_400, UTC))

    def dead(**query: str) -> list[str]:
        return listed(root, jobs, "?" + urlencode({"tab": "dead", "order": "first", **query}))

    assert [len(dead(died=name)) for name in ("15m", "1h", "24h", "7d")] == [1, 2, 3, 4]
    assert dead(died="1h") == ids[:2]
    assert dead(died_from=f"{at:%Y-%m-%dT%H:%M:%S}") == ids[:3]
    assert dead(died_to=f"{at:%Y-%m-%dT%H:%M:%S}") == ids[3:]
    assert dead(died_from=f"{at:%Y-%m-%dT%H:%M:%S}", died="15m") == ids[:1]
    assert dead(died_to="1960-01-01T00:00") == []
    assert dead(died_from="1960-01-01T00:00") == ids
    assert len(dead(died="2h")) == len(dead()) == 11  # no such window: ignored
    page = text_of(root.get(queue_url(jobs.name, "?tab=dead&died=1h&died_to=2099-01-01T00:00")))
    assert "Jobs whose time of death was not noted are left out." in page
    assert '<input type="hidden" name="died" value="1h">' in page
    assert "Died until 2099-01-01 00:00:00" in page
    assert "Ignored" not in page
    for tab in ("pending", "schedule", "active"):
        page = text_of(root.get(queue_url(jobs.name, f"?tab={tab}&died=1h")))
        assert "Ignored, since it makes no sense here: died." in page


def test_a_text_is_found_in_json_that_spells_it_with_escapes(jobs: Jobs, root: Client) -> None:
    (job_id,) = bury_many(jobs, 1, payload=json.dumps({"name": "Zoë"}))

    assert listed(root, jobs, "?tab=dead&text=Zo%C3%AB") == [job_id]


@pytest.mark.parametrize("order", ["first", "last"])
def test_a_search_looks_at_a_bounded_part_and_goes_on(order: str, jobs: Jobs, root: Client) -> None:
    ids = bury_many(jobs, 4_500)
    hits = [ids[number] for number in (5, 1_900, 2_100, 4_400)]
    for one in hits:
        jobs.redis.hset(jobs.keys.row(one), "last_error", "needle")
    wanted = hits if order == "first" else hits[::-1]
    query = f"?tab=dead&order={order}&text=needle"

    page = text_of(root.get(queue_url(jobs.name, query)))
    pages = walked(root, jobs, query)

    assert "Looked at 2000 jobs of this list. The list goes on" in page
    assert len(pages) == 3
    assert [one for found in pages for one in found] == wanted


def test_a_full_page_of_hits_goes_on_behind_the_last_one_shown(jobs: Jobs, root: Client) -> None:
    ids = bury_many(jobs, 730, last_error="needle")

    pages = walked(root, jobs, "?tab=dead&order=first&text=needle")

    assert [len(page) for page in pages] == [50] * 14 + [30]
    assert [one for page in pages for one in page] == ids
    back = text_of(
        root.get(queue_url(jobs.name, f"?tab=dead&order=first&text=needle&before={ids[200]}"))
    )
    assert IDS.findall(back) == ids[150:200]


@pytest.mark.parametrize("text", ["k-123", "k-1", '"api_key": "k', "hunter2", "hunter"])
def test_a_search_does_not_find_what_is_masked(text: str, jobs: Jobs, root: Client) -> None:
    bury_many(
        jobs, 1, payload='{"api_key": "k-123", "user": "ann"}', last_error="password=hunter2 ann"
    )

    page = text_of(root.get(queue_url(jobs.name, "?tab=dead"), {"tab": "dead", "text": text}))

    assert IDS.findall(page) == []
    assert "k-123" not in page.replace("value=", "").split("emq-bar")[1].split("</div>", 1)[1]
    assert len(listed(root, jobs, "?tab=dead&text=ann")) == 1


def hide_all(request: object, queue: str, job_id: str, field: str, value: bytes) -> None:
    return None


def test_a_search_finds_nothing_in_what_the_hook_hides(jobs: Jobs, root: Client) -> None:
    bury_many(jobs, 1, payload='{"v":1,"task":"a.b"}', last_error="boom")
    emq = {**base.EMQ, "ADMIN": {"REDACT": f"{__name__}.hide_all"}}

    with override_settings(EMQ=emq):
        for query in ("text=boom", "task=a.b", "text=a.b"):
            assert listed(root, jobs, f"?tab=dead&{query}") == []
        assert "a.b" not in text_of(root.get(queue_url(jobs.name, "?tab=dead")))


def test_without_sight_of_contents_text_and_task_are_no_filters(
    jobs: Jobs, staff: Callable[..., Client]
) -> None:
    ids = bury_many(jobs, 2, last_error="boom")
    client = staff("view_queue", "view_job")

    page = text_of(
        client.get(queue_url(jobs.name, "?tab=dead&order=first&text=boo&task=x&attempts=1"))
    )

    assert IDS.findall(page) == ids
    assert "makes no sense here: task, text" in page
    assert 'name="text"' not in page
    assert 'name="attempts"' in page


def test_what_is_too_large_to_search_is_counted(jobs: Jobs, root: Client) -> None:
    bury_many(jobs, 3, payload="needle" + "x" * 5_000)
    (small,) = bury_many(jobs, 1, payload="needle")

    page = text_of(root.get(queue_url(jobs.name, "?tab=dead&text=needle")))

    assert IDS.findall(page) == [small]
    assert "3 were too large to search" in page


def finish(jobs: Jobs, payload: bytes = b'{"v":1,"task":"shop.tasks.ship","args":[]}') -> str:
    job_id = jobs.add(payload)
    job = jobs.claim()
    kept = Kept(
        60_000, 65_536, 100, b"", (("value", b'{"token":"t-1","sent":7}'), ("task", b"x.y"))
    )
    jobs.run(settle.complete(jobs.keys, job, kept=kept))
    assert job.id == job_id
    return job_id


@pytest.mark.smoke
def test_finished_tasks_have_a_list_and_a_page(jobs: Jobs, root: Client) -> None:
    first, second = finish(jobs), finish(jobs)

    page = text_of(root.get(queue_url(jobs.name, "?tab=finished")))
    assert IDS.findall(page) == [second, first]
    assert "shop.tasks.ship" in page
    assert listed(root, jobs, "?tab=finished&ended=15m&order=first") == [first, second]
    assert listed(root, jobs, "?tab=finished&task=shop.tasks.ship") == [second, first]

    detail = unescape(text_of(root.get(job_url(jobs.name, first))))
    assert "finished: this is the result it left" in detail
    assert '"sent": 7' in detail
    assert "t-1" not in detail
    assert "Row is removed in" in detail
    assert 'value="copy"' in detail


def test_the_log_of_a_job_is_shown_masked(jobs: Jobs, staff: Callable[..., Client]) -> None:
    job_id = jobs.add()
    jobs.redis.rpush(jobs.keys.row(job_id) + b":logs", "step one", "token=t-9 \u202e<b>")

    seen = text_of(staff("view_job", "view_payload_job").get(job_url(jobs.name, job_id)))
    unseen = text_of(staff("view_job").get(job_url(jobs.name, job_id)))

    assert "step one" in seen
    assert "the last 2 of 2 lines" in seen
    assert "t-9" not in seen
    assert "\u202e" not in seen
    assert "<b>" not in seen.split("step one")[1].split("</pre>")[0]
    assert "step one" not in unseen


@pytest.mark.parametrize("tab", ["pending", "active", "schedule", "dead", "finished", "lanes"])
def test_an_empty_list_says_why(tab: str, jobs: Jobs, root: Client) -> None:
    page = unescape(text_of(root.get(queue_url(jobs.name, f"?tab={tab}"))))

    said = {"finished": "has left a result", "lanes": "No lane has jobs"}
    assert said.get(tab, "Nothing was ever put into this queue") in page
