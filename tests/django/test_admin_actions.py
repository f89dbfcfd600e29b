"""What the buttons do: to the jobs that were shown, once, with a record, and never by a GET."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.db import DatabaseError, connection
from django.test import Client, override_settings

from emq_django.admin import acting
from emq_django.admin.tokens import once_token
from emq_django.conf import keys
from emq_django.errors import Unreachable
from emq_django.protocol import claim as claiming
from emq_django.protocol import enqueue as admission
from emq_django.protocol import settle
from emq_django.protocol.ids import EPOCH_MS, first_id_at, mint
from emq_django.protocol.records import Verdict
from emq_django.signals import queue_action
from tests import settings as base
from tests.django.conftest import Jobs, job_url, queue_url, text_of
from tests.proxy import Proxy

LANE, OTHER_LANE = "USR0123456789a", "USR0123456789b"


def press(client: Client, jobs: Jobs, tab: str, action: str, *ids: str, **more: str) -> Any:
    once = once_token()
    form = {"action": action, "id": list(ids), "confirmed": "1", "once": once, **more}
    return client.post(queue_url(jobs.name, f"?tab={tab}"), form)


def said(client: Client, answer: Any) -> str:
    """The message on the page that an action leads to."""
    assert answer.status_code == 303, text_of(answer)
    return text_of(client.get(answer["Location"]))


def dead(jobs: Jobs, count: int, lane: str = "") -> list[str]:
    ids = [jobs.add(lane=lane) for _ in range(count)]
    for job_id in ids:
        if lane:
            jobs.redis.zrem(jobs.keys.lane(lane), job_id)
        jobs.bury(job_id)
    return ids


def entries() -> list[tuple[str, int, str]]:
    rows = LogEntry.objects.order_by("pk")
    return [(row.object_id or "", row.action_flag, row.change_message) for row in rows]


@pytest.fixture
def signals() -> Any:
    seen: list[dict[str, Any]] = []

    def receive(**facts: Any) -> None:
        seen.append(facts)

    queue_action.connect(receive)
    yield seen
    queue_action.disconnect(receive)


@pytest.mark.smoke
def test_dead_jobs_live_again_and_each_has_its_entry(
    jobs: Jobs, root: Client, signals: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    first, second, third = dead(jobs, 3)
    caplog.set_level(logging.INFO, "emq_django.admin")

    answer = press(root, jobs, "dead", "retry", first, second)

    assert answer["Location"] == queue_url(jobs.name, "?tab=dead")
    assert "Retry selected: 2 done." in said(root, answer)
    assert jobs.redis.zrange(jobs.keys.pending, 0, -1) == [first.encode(), second.encode()]
    assert jobs.redis.zrange(jobs.keys.dead, 0, -1) == [third.encode()]
    assert entries() == [(f"{jobs.name}/{one}", CHANGE, "Retried.") for one in (first, second)]
    (facts,) = signals
    assert (facts["verb"], facts["queue"], facts["targets"]) == (
        "retry",
        jobs.name,
        [first, second],
    )
    assert (facts["done"], facts["skipped"], facts["failed"]) == (2, 0, 0)
    assert facts["request"].user.is_superuser
    assert f"retry on queue {jobs.name}" in caplog.text


def test_a_retried_job_goes_back_to_its_lane_and_keeps_its_token(jobs: Jobs, root: Client) -> None:
    (job_id,) = dead(jobs, 1, LANE)
    jobs.redis.hset(jobs.keys.row(job_id), mapping={"attempts": 5, "failures": 5})

    press(root, jobs, "dead", "retry", job_id)

    assert jobs.redis.zscore(jobs.keys.lane(LANE), job_id) == 0
    assert jobs.redis.hget(jobs.keys.row(job_id), "attempts") == b"5"
    assert not jobs.redis.hexists(jobs.keys.row(job_id), "failures")


def test_a_second_press_does_nothing_more_and_says_so(jobs: Jobs, root: Client) -> None:
    (job_id,) = dead(jobs, 1)
    press(root, jobs, "dead", "retry", job_id)
    claimed = jobs.claim()

    answer = press(root, jobs, "dead", "retry", job_id)

    assert "0 done, 1 no longer applicable" in said(root, answer)
    assert jobs.redis.zcard(jobs.keys.pending) == 0
    assert jobs.run(settle.complete(jobs.keys, claimed)) is Verdict.COMPLETED
    assert "0 done, 1 no longer applicable" in said(
        root, press(root, jobs, "dead", "retry", job_id)
    )
    assert len(entries()) == 1


@pytest.mark.django_db(transaction=True)
def test_of_twenty_presses_at_once_one_retries(jobs: Jobs, root: Client) -> None:
    (job_id,) = dead(jobs, 1)
    gate = threading.Barrier(20)

    def one() -> None:
        client = Client()
        client.cookies = root.cookies
        gate.wait()
        press(client, jobs, "dead", "retry", job_id)
        connection.close()

    threads = [threading.Thread(target=one) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert jobs.redis.zcard(jobs.keys.pending) == 1
    assert [text for _, _, text in entries()] == ["Retried."]


@pytest.mark.parametrize("action", ["cancel", "delete", "expire", "copy", "drop_ghosts"])
def test_what_can_not_be_undone_is_asked_first_with_a_count_and_no_list(
    action: str, jobs: Jobs, root: Client
) -> None:
    ids = dead(jobs, 3)
    tab = "active" if action in {"cancel", "expire"} else "dead"

    answer = root.post(queue_url(jobs.name, f"?tab={tab}&q=JOB01"), {"action": action, "id": ids})

    page = text_of(answer)
    assert answer.status_code == 200
    assert "<strong>3</strong>" in page
    assert "can&#x27;t be undone" in page or "stays as it is" in page or "left alone" in page
    visible = page.split('<form method="post"', 2)[-2] + page.split("</form>")[-1]
    assert not any(job_id in visible for job_id in ids)
    assert jobs.redis.zcard(jobs.keys.dead) == 3
    assert entries() == []


def test_a_job_is_deleted_with_all_that_is_its_own(jobs: Jobs, root: Client) -> None:
    job_id = jobs.add(lane=LANE)
    other = jobs.add(lane=LANE)
    jobs.redis.rpush(jobs.keys.row(job_id) + b":logs", "line")

    answer = root.post(
        queue_url(jobs.name, f"?lane={LANE}"), {"action": "delete", "id": job_id, "confirmed": "1"}
    )

    assert "1 done" in said(root, answer)
    assert not jobs.redis.keys(jobs.keys.row(job_id) + b"*")
    assert jobs.redis.zrange(jobs.keys.lane(LANE), 0, -1) == [other.encode()]
    assert entries() == [(f"{jobs.name}/{job_id}", DELETION, "Deleted.")]


def test_a_job_that_was_taken_meanwhile_is_left_alone(jobs: Jobs, root: Client) -> None:
    job_id = jobs.add()
    jobs.claim()

    answer = press(root, jobs, "pending", "delete", job_id)

    assert "0 done, 1 no longer applicable" in said(root, answer)
    assert jobs.redis.zcard(jobs.keys.active) == 1


def test_a_scheduled_job_runs_now_by_the_usual_way(jobs: Jobs, root: Client) -> None:
    job_id, later = mint.one(), mint.one()
    for one in (job_id, later):
        jobs.run(admission.enqueue_in(jobs.keys, one, b"{}", 3_600_000, LANE))

    assert "1 done" in said(root, press(root, jobs, "schedule", "run", job_id, "JOB00000000000"))

    assert jobs.redis.zrange(jobs.keys.schedule, 0, -1) == [later.encode()]
    assert jobs.redis.zrange(jobs.keys.lane(LANE), 0, -1) == [job_id.encode()]
    assert jobs.redis.lrange(jobs.keys.ring, 0, -1) == [LANE.encode()]


def test_an_ended_lease_brings_the_job_back_and_fences_its_worker(jobs: Jobs, root: Client) -> None:
    jobs.add(lane=LANE)
    (job,) = jobs.run(claiming.take(jobs.keys, "w", 600_000, 1)).jobs
    assert jobs.redis.hget(jobs.keys.base + b"gactive", LANE) == b"1"

    answer = press(root, jobs, "active", "expire", f"{job.id}.{job.attempts}")

    assert "1 done" in said(root, answer)
    assert jobs.redis.zrange(jobs.keys.lane(LANE), 0, -1) == [job.id.encode()]
    assert not jobs.redis.hexists(jobs.keys.base + b"gactive", LANE)
    (again,) = jobs.run(claiming.take(jobs.keys, "w", 600_000, 1)).jobs
    assert again.attempts == job.attempts + 1
    assert jobs.run(settle.complete(jobs.keys, job)) is Verdict.STALE


def test_a_lease_of_a_later_claim_than_the_page_showed_is_left_alone(
    jobs: Jobs, root: Client
) -> None:
    jobs.add()
    shown = jobs.claim(lease_ms=600_000)
    jobs.run(settle.release(jobs.keys, shown))
    jobs.claim(lease_ms=600_000)

    answer = press(root, jobs, "active", "expire", f"{shown.id}.{shown.attempts}")

    assert "0 done, 1 no longer applicable" in said(root, answer)
    assert jobs.redis.zcard(jobs.keys.active) == 1


@pytest.mark.parametrize(("tab", "action"), [("dead", "retry"), ("schedule", "run")])
def test_a_press_that_is_sent_twice_is_about_the_run_that_the_page_showed(
    tab: str, action: str, jobs: Jobs, root: Client
) -> None:
    """A job that fails at once stands in the list again before the second send."""
    tries, delay_ms = (1, 0) if tab == "dead" else (9, 600_000)

    def fail() -> None:
        jobs.run(settle.retry(jobs.keys, jobs.claim(), "boom", delay_ms, tries))

    job_id = jobs.add()
    fail()
    pages = [queue_url(jobs.name, f"?tab={tab}"), job_url(jobs.name, job_id)]
    for url in pages:
        (value,) = re.findall(r'name="id" value="([^"]+)"', text_of(root.get(url)))
        form = {"action": action, "id": value}

        assert "1 done." in said(root, root.post(url, form))
        fail()
        assert "0 done, 1 no longer applicable" in said(root, root.post(url, form))
        assert jobs.redis.zscore(jobs.keys.base + tab.encode(), job_id) is not None


def test_a_cancelled_job_is_told_and_one_that_waits_again_is_gone(jobs: Jobs, root: Client) -> None:
    jobs.add(), jobs.add()
    running, back = jobs.claim(lease_ms=600_000), jobs.claim(lease_ms=600_000)
    jobs.run(settle.release(jobs.keys, back))

    answer = press(root, jobs, "active", "cancel", running.id, back.id, "JOB00000000000")

    assert "2 done, 1 no longer applicable" in said(root, answer)
    assert jobs.redis.hexists(jobs.keys.row(running.id), "cancel")
    assert not jobs.redis.exists(jobs.keys.row(back.id))
    assert {entry.change_message for entry in LogEntry.objects.all()} == {"Cancelled."}
    assert "Asked to end" in text_of(root.get(job_url(jobs.name, running.id)))


def test_ids_without_a_row_go_and_jobs_with_one_stay(jobs: Jobs, root: Client) -> None:
    ghost, odd, alive = "JOB00000000000", b"\xff\xfe.\x00x", jobs.add()
    jobs.redis.zadd(jobs.keys.pending, {ghost: 0, odd: 0})
    page = text_of(root.get(queue_url(jobs.name)))
    values = [part.split('"')[0] for part in page.split('name="id" value="')[1:]]
    assert len(values) == 3

    assert "2 done, 1 no longer applicable" in said(
        root, press(root, jobs, "pending", "drop_ghosts", *values)
    )

    assert jobs.redis.zrange(jobs.keys.pending, 0, -1) == [alive.encode()]


def copy_after_the_question(client: Client, jobs: Jobs, *ids: str) -> Any:
    question = text_of(press(client, jobs, "dead", "copy", *ids, confirmed=""))
    (copies,) = re.findall(r'name="copies" value="([^"]+)"', question)
    return press(client, jobs, "dead", "copy", *ids, copies=copies)


def test_an_answer_that_is_sent_twice_makes_one_copy(jobs: Jobs, root: Client) -> None:
    (job_id,) = dead(jobs, 1)
    question = text_of(press(root, jobs, "dead", "copy", job_id, confirmed=""))
    (copies,) = re.findall(r'name="copies" value="([^"]+)"', question)

    def answer() -> str:
        return said(root, press(root, jobs, "dead", "copy", job_id, copies=copies))

    assert "1 done." in answer()
    assert "0 done, 1 no longer applicable" in answer()
    jobs.run(settle.complete(jobs.keys, jobs.claim()))
    assert "0 done, 1 no longer applicable" in answer()
    assert jobs.redis.zcard(jobs.keys.pending) == 0
    assert len(entries()) == 2


def test_copies_are_not_asked_for_one_by_one_of_a_server_that_is_away(
    jobs: Jobs, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would wait for its own time out: 500 of them for a quarter of an hour."""
    ids = dead(jobs, 5)
    flushes: list[int] = []

    def away(wire: Any, calls: list[Any]) -> list[Exception]:
        flushes.append(len(calls))
        return [Unreachable("no answer within 2 s") for _ in calls]

    question = text_of(press(root, jobs, "dead", "copy", *ids, confirmed=""))
    (copies,) = re.findall(r'name="copies" value="([^"]+)"', question)
    monkeypatch.setattr(acting, "ask_each", away)

    page = said(root, press(root, jobs, "dead", "copy", *ids, copies=copies))

    assert "0 done, 5 failed, outcome unknown" in page
    assert len(flushes) == 1


@pytest.mark.parametrize("copies", ["", "e30:1aaaaa:bbbb"])
def test_a_copy_that_was_not_asked_about_is_asked_about(
    copies: str, jobs: Jobs, root: Client
) -> None:
    (job_id,) = dead(jobs, 1)

    answer = press(root, jobs, "dead", "copy", job_id, copies=copies)

    assert answer.status_code == 200
    assert "Are you sure?" in text_of(answer)
    assert jobs.redis.zcard(jobs.keys.pending) == 0


def test_a_copy_is_a_new_job_and_both_tell_of_each_other(jobs: Jobs, root: Client) -> None:
    (job_id,) = dead(jobs, 1, LANE)
    jobs.redis.hset(jobs.keys.row(job_id), "payload", b'{"n": 1}\xff')

    assert "1 done" in said(root, copy_after_the_question(root, jobs, job_id))

    (copy,) = [raw.decode() for raw in jobs.redis.zrange(jobs.keys.lane(LANE), 0, -1)]
    assert copy != job_id
    assert jobs.redis.hget(jobs.keys.row(copy), "payload") == b'{"n": 1}\xff'
    assert jobs.redis.zcard(jobs.keys.dead) == 1
    assert entries() == [
        (f"{jobs.name}/{job_id}", CHANGE, f"Enqueued again as a copy. The copy is {copy}."),
        (f"{jobs.name}/{copy}", CHANGE, f"Enqueued as a copy of {job_id}."),
    ]


def test_a_copy_of_what_is_gone_or_too_large_is_not_made(jobs: Jobs, root: Client) -> None:
    (job_id,) = dead(jobs, 1)
    jobs.redis.hset(jobs.keys.row(job_id), "payload", b"x" * 2_000)

    with override_settings(EMQ={**base.EMQ, "MAX_PAYLOAD_BYTES": 1_000}):
        answer = copy_after_the_question(root, jobs, job_id, "JOB00000000000")

    assert "0 done, 2 no longer applicable" in said(root, answer)
    assert jobs.redis.zcard(jobs.keys.pending) == 0


def test_a_second_pause_says_that_there_was_nothing_to_do(jobs: Jobs, root: Client) -> None:
    questions = [root.post(queue_url(jobs.name), {"action": "pause"}) for _ in range(2)]
    assert all("Are you sure?" in text_of(one) for one in questions)
    form = {"action": "pause", "confirmed": "1"}

    first = said(root, root.post(queue_url(jobs.name), form))
    second = said(root, root.post(queue_url(jobs.name), form))

    assert "Pause queue: 1 done." in first
    assert "Pause queue: 0 done, 1 no longer applicable." in second
    assert [text for _, _, text in entries()] == ["Paused the queue."]


@pytest.mark.parametrize("action", ["retry", "delete", "run", "cancel", "expire", "drop_ghosts"])
def test_a_form_whose_job_is_done_by_now_says_so(action: str, jobs: Jobs, root: Client) -> None:
    job_id = jobs.add()
    claimed = jobs.claim()
    token = f"{job_id}.{claimed.attempts}" if action == "expire" else job_id
    jobs.run(settle.complete(jobs.keys, claimed))
    tabs = {"retry": "dead", "run": "schedule", "cancel": "active", "expire": "active"}

    answer = press(root, jobs, tabs.get(action, "pending"), action, token)

    assert "0 done, 1 no longer applicable." in said(root, answer)
    assert entries() == []


@pytest.mark.smoke
def test_a_queue_is_paused_after_a_question_and_resumed_without(jobs: Jobs, root: Client) -> None:
    url = queue_url(jobs.name)
    assert "Are you sure?" in text_of(root.post(url, {"action": "pause"}))
    assert not jobs.redis.hexists(jobs.keys.meta, "paused")

    page = said(root, root.post(url, {"action": "pause", "confirmed": "1"}))

    assert jobs.redis.hexists(jobs.keys.meta, "paused")
    assert 'value="resume"' in page
    assert 'value="pause"' not in page
    assert ">by u0, " in page
    assert "1 done" in said(root, root.post(url, {"action": "resume"}))
    assert not jobs.redis.hexists(jobs.keys.meta, "paused")
    assert [row[2] for row in entries()] == ["Paused the queue.", "Resumed the queue."]


def test_lanes_are_listed_paused_limited_and_weighed(jobs: Jobs, root: Client) -> None:
    jobs.add(lane=LANE)
    jobs.add(lane=OTHER_LANE)
    jobs.add(lane=OTHER_LANE)
    page = text_of(root.get(queue_url(jobs.name, "?tab=lanes")))
    assert page.index(OTHER_LANE) < page.index(LANE)

    assert "2 done" in said(root, press(root, jobs, "lanes", "pause_lane", LANE, OTHER_LANE))
    assert jobs.redis.smembers(jobs.keys.base + b"paused") == {LANE.encode(), OTHER_LANE.encode()}
    assert "1 done" in said(root, press(root, jobs, "lanes", "resume_lane", LANE))
    assert jobs.redis.lrange(jobs.keys.ring, 0, -1) == [LANE.encode()]
    press(root, jobs, "lanes", "limit_lane", LANE, limit="7")
    press(root, jobs, "lanes", "weigh_lane", LANE, weight="3")

    page = text_of(root.get(queue_url(jobs.name, f"?tab=lanes&lane={LANE}")))
    assert OTHER_LANE not in page
    assert re.findall(r'<td class="emq-number[^>]*>([37])</td>', page) == ["7", "3"]
    assert {row[0] for row in entries()} == {jobs.name}
    assert f"7: {LANE}" in entries()[-2][2]


@pytest.mark.parametrize("number", ["", "x", "-1", "1e3", "0", "1001", "٣"])
def test_a_weight_that_is_none_is_refused(number: str, jobs: Jobs, root: Client) -> None:
    jobs.add(lane=LANE)

    page = said(root, press(root, jobs, "lanes", "weigh_lane", LANE, weight=number))

    assert "Give a whole number from 1 to 1000." in page
    assert not jobs.redis.exists(jobs.keys.base + b"gweight")


@pytest.mark.parametrize(
    ("tab", "action", "ids", "text"),
    [
        ("dead", "explode", ["JOB0123456789a"], "There is no such action"),
        ("dead", "", ["JOB0123456789a"], "There is no such action"),
        ("pending", "retry", ["JOB0123456789a"], "does not fit this list"),
        ("dead", "retry", [], "Select at least one first"),
        ("dead", "retry", ["nonsense", "../x", "~%%"], "Select at least one first"),
        ("lanes", "pause_lane", ["no lane"], "Select at least one first"),
        ("dead", "retry", [first_id_at(EPOCH_MS + ms) for ms in range(501)], "At most 500"),
    ],
    ids=lambda part: str(part)[:20],
)
def test_a_post_that_makes_no_sense_is_answered_in_words(
    tab: str, action: str, ids: list[str], text: str, jobs: Jobs, root: Client
) -> None:
    jobs.add()

    assert text in said(root, press(root, jobs, tab, action, *ids))
    assert jobs.redis.zcard(jobs.keys.pending) == 1


def test_the_filter_survives_an_action(jobs: Jobs, root: Client) -> None:
    (job_id,) = dead(jobs, 1)
    query = "?tab=dead&order=first&minted=24h&attempts=1&text=gone"

    answer = root.post(queue_url(jobs.name, query), {"action": "retry", "id": job_id})

    assert answer["Location"] == queue_url(jobs.name, query)


def test_a_job_page_has_the_actions_of_its_state_and_no_others(jobs: Jobs, root: Client) -> None:
    def actions(job_id: str) -> set[str]:
        page = text_of(root.get(job_url(jobs.name, job_id)))
        return {part.split('"')[0] for part in page.split('name="action" value="')[1:]}

    scheduled = mint.one()
    jobs.run(admission.enqueue_in(jobs.keys, scheduled, b"{}", 60_000))
    taken = jobs.add()
    jobs.claim()
    jobs.redis.zadd(jobs.keys.pending, {"JOB00000000000": 0})

    assert actions(jobs.add()) == {"delete"}
    assert actions(jobs.add(lane=LANE)) == {"delete"}
    assert actions(scheduled) == {"run", "delete"}
    assert actions(taken) == {"cancel", "expire"}
    assert actions(dead(jobs, 1)[0]) == {"retry", "copy", "delete"}
    assert actions("JOB00000000000") == {"drop_ghosts"}
    assert actions("JOB00000000001") == set()


def test_an_action_of_a_job_page_is_about_that_job_alone(jobs: Jobs, root: Client) -> None:
    first, second = dead(jobs, 2)
    url = job_url(jobs.name, first)

    assert "Select at least one" in said(root, root.post(url, {"action": "retry", "id": second}))
    answer = root.post(url, {"action": "retry", "id": [first, second]})

    assert answer["Location"] == url
    assert jobs.redis.zrange(jobs.keys.dead, 0, -1) == [second.encode()]
    for action in ("pause", "retry_all", "drain", "pause_lane"):
        assert "no such action" in said(root, root.post(url, {"action": action, "confirmed": "1"}))


def test_a_deleted_job_leads_back_to_the_list_it_was_opened_from(jobs: Jobs, root: Client) -> None:
    first, second = dead(jobs, 2)
    listed = text_of(root.get(queue_url(jobs.name, "?tab=dead&minted=24h")))
    (link,) = [
        part.split('"')[0] for part in listed.split('href="')[1:] if f"2F{first}" in part[:300]
    ]

    page = text_of(root.get(link))
    assert f'href="{queue_url(jobs.name)}?tab=dead&amp;minted=24h"' in page
    answer = root.post(link, {"action": "delete", "id": first, "confirmed": "1"})

    assert answer["Location"] == queue_url(jobs.name, "?tab=dead&minted=24h")
    assert jobs.redis.zrange(jobs.keys.dead, 0, -1) == [second.encode()]


def test_the_history_is_the_stock_page_with_what_was_done(jobs: Jobs, root: Client) -> None:
    (job_id,) = dead(jobs, 1)
    press(root, jobs, "dead", "retry", job_id)
    root.post(queue_url(jobs.name), {"action": "pause", "confirmed": "1"})

    of_job = text_of(root.get(job_url(jobs.name, job_id).replace("/change/", "/history/")))
    of_queue = text_of(root.get(queue_url(jobs.name).replace("/change/", "/history/")))
    index = text_of(root.get("/admin/"))

    assert "Retried." in of_job
    assert "Paused the queue." in of_queue
    assert job_url(jobs.name, job_id) in index
    assert root.get(job_url(jobs.name, job_id)).status_code == 200


def test_the_log_reads_alike_whoever_acted(jobs: Jobs, root: Client) -> None:
    (job_id,) = dead(jobs, 1)
    with override_settings(LANGUAGE_CODE="en"):
        root.post(
            queue_url(jobs.name, "?tab=dead"),
            {"action": "retry", "id": job_id},
            headers={"accept-language": "de"},
        )

    assert [row[2] for row in entries()] == ["Retried."]


def test_a_log_that_cannot_be_written_is_told_and_nothing_is_rolled_back(
    jobs: Jobs, root: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (job_id,) = dead(jobs, 1)

    def fail(*_: Any, **__: Any) -> None:
        raise DatabaseError("disk full")

    monkeypatch.setattr(type(LogEntry.objects), "log_actions", fail)

    page = said(root, press(root, jobs, "dead", "retry", job_id))

    assert "log could not be written" in page
    assert "1 done" in page
    assert jobs.redis.zcard(jobs.keys.pending) == 1
    assert "disk full" in caplog.text


def test_a_receiver_that_fails_stops_nothing(
    jobs: Jobs, root: Client, caplog: pytest.LogCaptureFixture
) -> None:
    def receive(**_: Any) -> None:
        raise RuntimeError("store is away")

    queue_action.connect(receive)
    try:
        (job_id,) = dead(jobs, 1)
        assert "1 done" in said(root, press(root, jobs, "dead", "retry", job_id))
    finally:
        queue_action.disconnect(receive)
    assert "a receiver of queue_action failed" in caplog.text


def test_a_server_that_goes_away_before_the_action_is_told_in_three_numbers(
    proxy: Proxy, jobs: Jobs, root: Client
) -> None:
    ids = dead(jobs, 3)
    queue_cache = {**base.CACHES["queue"], "LOCATION": f"redis://127.0.0.1:{proxy.port}/0"}
    with override_settings(CACHES={**base.CACHES, "queue": queue_cache}):
        root.get(queue_url(jobs.name, "?tab=dead"))
        proxy.mode = "close"
        answer = press(root, jobs, "dead", "retry", *ids)
        proxy.mode = "forward"
        page = said(root, answer)

    assert "0 done, 3 failed, outcome unknown" in page
    assert "The server did not answer." in page
    assert entries() == []


def test_a_download_is_the_very_bytes_and_leaves_an_entry(
    jobs: Jobs, staff: Callable[..., Client]
) -> None:
    job_id = jobs.add(b"\x00\xff<script>password=1")
    url = job_url(jobs.name, job_id).replace("/change/", "/download/")
    client = staff("download_payload_job")

    answer = client.post(url)

    assert answer.content == b"\x00\xff<script>password=1"
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"] == f'attachment; filename="{jobs.name}-{job_id}.bin"'
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert entries() == [(f"{jobs.name}/{job_id}", CHANGE, "Downloaded the raw payload.")]
    assert client.get(url).status_code == 405


def test_a_payload_that_is_gone_or_too_large_is_not_sent(
    jobs: Jobs, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emq_django.admin.downloads.LARGEST_BYTES", 10)
    job_id = jobs.add(b"x" * 11)
    url = job_url(jobs.name, job_id).replace("/change/", "/download/")

    assert "too large to download here: 11 bytes" in said(root, root.post(url))
    gone = url.replace(job_id, "JOB00000000000")
    assert "no payload any more" in said(root, root.post(gone))
    assert entries() == []


def only_mail(user: Any, codename: str, queue: str) -> bool:
    return queue.startswith("mail") and codename != "delete_job"


def test_the_project_decides_per_queue(jobs: Jobs, root: Client) -> None:
    (job_id,) = dead(jobs, 1)
    emq = {
        **base.EMQ,
        "QUEUES": {jobs.name: {}, "mail": {}},
        "ADMIN": {"CAN": f"{__name__}.only_mail"},
    }

    with override_settings(EMQ=emq):
        page = text_of(root.get("/admin/emq_django/queue/"))
        assert "<bdi>mail</bdi>" in page
        assert jobs.name not in page
        for url in (queue_url(jobs.name), job_url(jobs.name, job_id)):
            assert root.get(url).status_code == 403
            assert root.post(url, {"action": "retry", "id": job_id}).status_code == 403
        assert root.get(queue_url("mail")).status_code == 200
        form = {"action": "delete", "id": job_id, "confirmed": "1"}
        assert root.post(queue_url("mail"), form).status_code == 403


@pytest.mark.parametrize("path", ["tests.no_such.module", f"{__name__}.queue_action", "os.getcwd"])
def test_a_hook_that_fails_closes(
    path: str, jobs: Jobs, root: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with override_settings(EMQ={**base.EMQ, "ADMIN": {"CAN": path}}):
        assert root.get(queue_url(jobs.name)).status_code == 403

    assert "CAN" in caplog.text


def test_an_action_on_a_job_that_is_not_there_is_no_failure(jobs: Jobs) -> None:
    queue = keys(jobs.name)
    nobody = [acting.Target(id="JOB00000000000")]

    for verb in acting.JOB_VERBS.values():
        outcome = verb(queue, nobody, "")
        assert (outcome.done, outcome.skipped, outcome.failed) == ([], 1, 0)
