"""A queue with priorities is several on the wire: its page, lists and actions are about all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client, override_settings

from emq_django import reading
from emq_django.admin import acting, bulk, searching
from emq_django.admin.tokens import once_token
from emq_django.errors import Unreachable
from emq_django.protocol import enqueue as admission
from emq_django.protocol import lanes, metrics
from emq_django.protocol.ids import mint
from tests import settings as base
from tests.django.conftest import Jobs, job_url, queue_url, text_of
from tests.django.test_admin_actions import entries, press, said
from tests.django.test_admin_bulk import STATE, bury_many, follow
from tests.django.test_admin_pages import IDS, NEXT, PREVIOUS

LANE = "USR0123456789a"
Bands = tuple[Jobs, Jobs, Jobs]


def settings_of(queue: str, **admin: Any) -> dict[str, Any]:
    return {
        **base.EMQ,
        "QUEUES": {queue: {"PRIORITIES": True}},
        "ADMIN": {"PAGE_SIZE": 5, **admin},
    }


@pytest.fixture
def bands(queue: str, jobs: Jobs) -> Iterator[Bands]:
    """The queue ``jobs`` with the bands above and below it, the most urgent first."""
    with override_settings(EMQ=settings_of(queue)):
        yield Jobs(f"{queue}.high", jobs.redis), jobs, Jobs(f"{queue}.low", jobs.redis)


def spread(bands: Bands, count: int) -> list[str]:
    """Put jobs into the bands in turn; return their ids in mint order."""
    ids = mint.many(count)
    for number, one in enumerate(ids):
        bands[number % 3].add(job_id=one)
    return ids


def walked(client: Client, url: str, step: re.Pattern[str] = NEXT) -> tuple[list[list[str]], str]:
    """Return the ids of each page from here on, and the address of the last page."""
    pages = []
    while True:
        page = text_of(client.get(url))
        pages.append(IDS.findall(page))
        follow_to = step.search(page)
        if not follow_to:
            return pages, url
        url = unescape(follow_to[1])


def test_a_list_has_the_jobs_of_all_bands_in_one_order(bands: Bands, root: Client) -> None:
    ids = spread(bands, 17)
    url = queue_url(bands[1].name)

    pages, last = walked(root, url)
    back, _first = walked(root, last, PREVIOUS)

    assert pages == [ids[start : start + 5] for start in range(0, 17, 5)]
    assert sorted(one for page in back for one in page) == ids
    newest, _last = walked(root, queue_url(bands[1].name, "?order=last"))
    assert [one for page in newest for one in page] == ids[::-1]


def test_jobs_of_one_moment_are_not_lost_between_the_bands(bands: Bands, root: Client) -> None:
    ids = mint.many(13)
    for number, one in enumerate(ids):
        band = bands[number * 7 % 3]
        band.run(admission.enqueue_in(band.keys, one, b"{}", 60_000))
        band.redis.zadd(band.keys.schedule, {one: 1_900_000_000_000})

    pages, last = walked(root, queue_url(bands[1].name, "?tab=schedule"))
    back, _first = walked(root, last, PREVIOUS)

    assert [one for page in pages for one in page] == ids
    assert sorted(one for page in back for one in page) == ids


def test_each_row_says_its_band_and_leads_to_its_job(bands: Bands, root: Client) -> None:
    ids = spread(bands, 3)

    page = text_of(root.get(queue_url(bands[1].name)))

    assert re.findall(r'emq-quiet emq-fold">Priority (\w+)<', page) == ["high", "normal", "low"]
    for band, job_id in zip(bands, ids, strict=True):
        assert f'href="{job_url(band.name, job_id)}"' in page
    job = text_of(root.get(job_url(bands[0].name, ids[0])))
    assert re.search(r"<dt>Priority</dt><dd><bdi>high</bdi>", job)
    assert f'<a href="{queue_url(bands[1].name)}"><bdi>{bands[1].name}</bdi>' in job


def test_figures_are_those_of_all_bands_and_one_can_be_chosen(bands: Bands, root: Client) -> None:
    ids = spread(bands, 8)
    bands[0].bury(ids[0])

    page = text_of(root.get(queue_url(bands[1].name)))
    one = text_of(root.get(queue_url(bands[1].name, "?band=high")))
    by_name = text_of(root.get(f"/admin/emq_django/queue/{bands[0].name}/change/"))

    assert "<dt>Waiting</dt><dd>7</dd>" in page
    assert "<dt>Dead</dt><dd" in page
    assert [int(size) for size in re.findall(r'</a> <span class="emq-count">(\d)</span>', page)][
        :3
    ] == [2, 3, 2]
    for found in (one, by_name):
        assert "<dt>Waiting</dt><dd>2</dd>" in found
        assert IDS.findall(found) == [ids[3], ids[6]]
        assert 'href="/admin/emq_django/queue/' + bands[1].name in found
        assert 'name="band" value="high"' in found


def test_a_band_of_a_queue_without_priorities_makes_no_sense(jobs: Jobs, root: Client) -> None:
    job_id = jobs.add()

    page = text_of(root.get(queue_url(jobs.name, "?band=high")))

    assert "it makes no sense here: band." in page
    assert IDS.findall(page) == [job_id]
    assert "Priority" not in page


def test_a_whole_id_leads_to_the_band_that_has_the_job(bands: Bands, root: Client) -> None:
    ids = spread(bands, 3)

    for band, job_id in zip(bands, ids, strict=True):
        answer = root.get(queue_url(bands[1].name, f"?q={job_id}"))
        assert answer["Location"] == job_url(band.name, job_id)
    unknown = root.get(queue_url(bands[1].name, "?q=JOB00000000000"))
    assert unknown["Location"] == job_url(bands[1].name, "JOB00000000000")


def test_a_search_looks_through_all_bands_in_one_order(
    bands: Bands, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "SCAN_STEP", 4)
    monkeypatch.setattr(searching, "SCAN_ROWS", 16)
    ids = mint.many(90)
    hits = []
    for number, one in enumerate(ids):  # the first band is long, the last one short
        band = bands[0] if number % 9 < 6 else bands[1] if number % 9 < 8 else bands[2]
        wanted = number % 5 == 0
        band.add(b'{"name": "wanted"}' if wanted else b"{}", job_id=one)
        hits += [one] if wanted else []

    for order, expected in (("first", hits), ("last", hits[::-1])):
        url = queue_url(bands[1].name, f"?text=wanted&order={order}")
        pages, last = walked(root, url)
        back, _first = walked(root, last, PREVIOUS)
        assert [one for page in pages for one in page] == expected
        assert sorted(one for page in back for one in page) == hits


def test_selected_jobs_of_several_bands_are_retried_where_they_are(
    bands: Bands, root: Client
) -> None:
    ids = spread(bands, 3)
    for band, job_id in zip(bands, ids, strict=True):
        band.bury(job_id)
    page = text_of(root.get(queue_url(bands[1].name, "?tab=dead")))
    tokens = re.findall(r'name="id" value="([^"]+)"', page)
    assert tokens == [f"low:{ids[2]}.0", f"normal:{ids[1]}.0", f"high:{ids[0]}.0"]

    answer = press(root, bands[1], "dead", "retry", *tokens)

    assert "Retry selected: 3 done." in said(root, answer)
    for band, job_id in zip(bands, ids, strict=True):
        assert band.redis.zrange(band.keys.pending, 0, -1) == [job_id.encode()]
    assert sorted(entry[0] for entry in entries()) == sorted(
        f"{band.name}/{job_id}" for band, job_id in zip(bands, ids, strict=True)
    )
    again = press(root, bands[1], "dead", "retry", *tokens, f"else:{ids[0]}")
    assert "0 done, 3 no longer applicable" in said(root, again)


def test_bands_of_a_server_that_is_away_wait_for_it_once(
    bands: Bands, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushes: list[int] = []

    def away(wire: Any, calls: list[Any]) -> list[Exception]:
        flushes.append(len(calls))
        return [Unreachable("no answer within 2 s") for _ in calls]

    for band in bands:
        band.bury(band.add())
    page = text_of(root.get(queue_url(bands[1].name, "?tab=dead")))
    tokens = re.findall(r'name="id" value="([^"]+)"', page)
    with monkeypatch.context() as patched:
        patched.setattr(acting, "ask_each", away)
        patched.setattr(reading, "ask_each", away)
        answer = press(root, bands[1], "dead", "retry", *tokens)
        assert flushes == [1]
        press(root, bands[1], "dead", "pause")
        assert flushes == [1, 3]

    assert "0 done, 3 failed, outcome unknown" in said(root, answer)
    assert not any(band.redis.hexists(band.keys.meta, "paused") for band in bands)


def test_a_job_of_a_band_is_acted_on_from_its_own_page(bands: Bands, root: Client) -> None:
    high = bands[0]
    job_id = high.add()
    high.bury(job_id)

    answer = root.post(job_url(high.name, job_id), {"action": "retry", "id": job_id})

    assert "1 done." in said(root, answer)
    assert high.redis.zcard(high.keys.pending) == 1


def test_an_action_on_all_that_match_goes_through_the_bands(
    bands: Bands, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "STEP_S", 0.0)
    for band, count in zip(bands, (1_200, 30, 400), strict=True):
        bury_many(band, count)
    question = text_of(root.post(queue_url(bands[1].name, "?tab=dead"), {"action": "retry_all"}))
    assert "<strong>1630</strong>" in question

    answer = press(root, bands[1], "dead", "retry_all")
    halfway = text_of(root.get(answer["Location"]))
    page = follow(root, answer)

    assert "1000 of 1630" in halfway
    assert STATE.search(halfway)
    assert "Retry all matching: 1630 done." in page
    assert [band.redis.zcard(band.keys.pending) for band in bands] == [1_200, 30, 400]
    ((where, _flag, text),) = entries()
    assert where == bands[1].name
    assert "1630 done, 0 skipped, 0 failed of 1630" in text


def test_an_action_on_one_band_leaves_the_others(bands: Bands, root: Client) -> None:
    for band in bands:
        bury_many(band, 20)
    url = queue_url(bands[1].name, "?tab=dead&band=low")

    question = text_of(root.post(url, {"action": "delete_all"}))
    form = {"action": "delete_all", "confirmed": "1", "once": once_token(), "name": bands[1].name}
    page = follow(root, root.post(url, form))

    assert "<strong>20</strong>" in question
    assert "Priority low" in question
    assert "20 done." in page
    assert [band.redis.zcard(band.keys.dead) for band in bands] == [20, 20, 0]
    assert "Priority low" in entries()[0][2]


def test_a_drain_takes_what_waits_in_all_bands_and_their_lanes(bands: Bands, root: Client) -> None:
    for band in bands:
        band.add_many(60)
        band.add(lane=LANE)
    question = text_of(root.post(queue_url(bands[1].name), {"action": "drain"}))
    assert "<strong>183</strong>" in question

    page = follow(root, press(root, bands[1], "pending", "drain", name=bands[1].name))

    assert "183 done." in page
    assert [band.redis.zcard(band.keys.pending) for band in bands] == [0, 0, 0]
    assert not any(band.redis.exists(band.keys.lane(LANE)) for band in bands)


def test_lanes_are_shown_and_paused_band_by_band(bands: Bands, root: Client) -> None:
    for band in bands[:2]:
        band.add(lane=LANE)
    url = queue_url(bands[1].name, "?tab=lanes")
    page = text_of(root.get(url))
    assert re.findall(r'name="id" value="([^"]+)"', page) == [f"high:{LANE}", f"normal:{LANE}"]
    assert f"?tab=pending&amp;band=high&amp;lane={LANE}" in page

    answer = root.post(url, {"action": "pause_lane", "confirmed": "1", "id": f"high:{LANE}"})

    assert "1 done." in said(root, answer)
    paused = [band.run(lanes.lane_depths(band.keys, [LANE]))[0].paused for band in bands]
    assert paused == [True, False, False]
    ((where, _flag, text),) = entries()
    assert (where, text) == (bands[1].name, f"Paused lanes {bands[0].name}: {LANE}")


def test_the_hooks_of_the_project_know_the_queue_and_not_its_bands(
    bands: Bands, staff: Callable[..., Client]
) -> None:
    high, job_id = bands[0], bands[0].add(b'{"name": "Ada"}')
    hooks = {"CAN": f"{__name__}.not_this_one", "REDACT": f"{__name__}.masked"}
    client = staff(is_superuser=True)

    with override_settings(EMQ=settings_of(bands[1].name, REDACT=hooks["REDACT"])):
        for url in (job_url(high.name, job_id), queue_url(bands[1].name)):
            page = text_of(client.get(url))
            assert "Ada" not in page
            assert f"payload of {bands[1].name}" in page
    with override_settings(EMQ=settings_of(bands[1].name, CAN=hooks["CAN"])):
        for name in (high.name, bands[1].name):
            assert client.get(job_url(name, job_id)).status_code == 403
            assert client.get(f"/admin/emq_django/queue/{name}/change/").status_code == 403


def not_this_one(user: object, codename: str, queue: str) -> bool:
    return queue.endswith((".high", ".low"))  # what is asked about a band would be let through


def masked(request: object, queue: str, job_id: str, field: str, value: bytes) -> str:
    return f"{field} of {queue}"


def test_figures_over_time_are_those_of_all_bands(bands: Bands, root: Client) -> None:
    for number, band in enumerate(bands, start=1):
        band.run(metrics.flush(band.keys, metrics.Figures(started=number, completed=number)))

    page = text_of(root.get(f"/admin/emq_django/queue/{bands[0].name}/metrics/"))

    assert f"Figures of queue {bands[1].name}" in page
    assert "<dt>Completed</dt><dd>6</dd>" in page


def test_what_bands_counted_and_held_is_added_up_by_its_time() -> None:
    def history(now_ms: int, *starts: int) -> metrics.History:
        stretches = [metrics.Stretch(one, metrics.Figures(started=one)) for one in starts]
        return metrics.History(now_ms, stretches)

    total = metrics.History.sum_of([history(9, 1, 2), history(8), history(7, 2, 3)])
    depths = metrics.sum_of_depths(
        [[metrics.Depth(1, 1, 2, 3, 4, 5)], [], [metrics.Depth(1, 1, 1, 1, 1, 1)]]
    )

    assert total.now_ms == 9
    assert [(one.start_ms, one.figures.started) for one in total.stretches] == [
        (1, 1),
        (2, 4),
        (3, 3),
    ]
    assert depths == [metrics.Depth(1, 2, 3, 4, 5, 6)]


def test_a_band_that_cannot_be_read_is_told_and_not_left_out(bands: Bands, root: Client) -> None:
    spread(bands, 6)
    bands[2].redis.delete(bands[2].keys.pending)
    bands[2].redis.set(bands[2].keys.pending, "text")

    page = text_of(root.get(queue_url(bands[1].name)))
    one = text_of(root.get(queue_url(bands[1].name, "?band=high")))

    assert "holds another type of value" in page
    assert IDS.findall(page) == []
    assert "holds another type" not in one
    assert len(IDS.findall(one)) == 2
    assert LogEntry.objects.count() == 0
