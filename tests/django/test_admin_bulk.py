"""Actions on all jobs that match: each id at most once, in bounded steps, one entry in the log."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.auth.models import User
from django.db import DatabaseError
from django.test import Client, override_settings

from emq_django.admin import bulk
from emq_django.admin.tokens import once_token
from emq_django.protocol import enqueue as admission
from emq_django.protocol.ids import mint
from emq_django.signals import queue_action
from tests import settings as base
from tests.django.conftest import Jobs, queue_url, text_of
from tests.django.test_admin_actions import entries, press, said
from tests.proxy import Proxy

LANES = [f"USR0123456789{letter}" for letter in "abc"]
STATE = re.compile(r'name="state" value="([^"]+)"')


def bury_many(jobs: Jobs, count: int, **fields: str) -> list[str]:
    ids = mint.many(count)
    pipe = jobs.redis.pipeline(transaction=False)
    for one in ids:
        row = {"state": "dead", "payload": "{}", "attempts": "3", **fields}
        pipe.hset(jobs.keys.row(one), mapping=row)
    pipe.zadd(jobs.keys.dead, dict.fromkeys(ids, 0))
    pipe.execute()
    return ids


def answered(action: str, **more: str) -> dict[str, str]:
    """What the form of a question sends."""
    return {"action": action, "confirmed": "1", "once": once_token(), **more}


def follow(client: Client, answer: Any) -> str:
    """Press Continue until the walk leads back to its list; return that page."""
    for _ in range(200):
        assert answer.status_code == 303
        url = answer["Location"]
        page = text_of(client.get(url))
        if "/walk/" not in url:
            return page
        (state,) = STATE.findall(page)
        answer = client.post(url, {"state": unescape(state), "continue": "1"})
    raise AssertionError("the walk does not end")


@pytest.mark.smoke
def test_all_dead_jobs_live_again_with_one_entry(jobs: Jobs, root: Client) -> None:
    ids = bury_many(jobs, 2_350)
    seen: list[dict[str, Any]] = []

    def receive(**facts: Any) -> None:
        seen.append(facts)

    queue_action.connect(receive)
    try:
        page = follow(root, press(root, jobs, "dead", "retry_all"))
    finally:
        queue_action.disconnect(receive)

    assert "Retry all matching: 2350 done." in page
    assert jobs.redis.zcard(jobs.keys.dead) == 0
    assert jobs.redis.zrange(jobs.keys.pending, 0, -1) == [one.encode() for one in ids]
    ((where, flag, text),) = entries()
    assert (where, flag) == (jobs.name, CHANGE)
    assert re.fullmatch(
        r"Retried all matching jobs: 2350 done, 0 skipped, 0 failed of 2350 \d+\.\d s", text
    )
    (facts,) = seen
    assert (facts["verb"], facts["done"], facts["targets"]) == ("retry_all", 2_350, [])


def test_the_question_has_the_count_and_never_the_list(jobs: Jobs, root: Client) -> None:
    ids = bury_many(jobs, 40)
    url = queue_url(jobs.name, f"?tab=dead&q={ids[0][:6]}&minted=1h")

    page = text_of(root.post(url, {"action": "retry_all"}))

    assert "<strong>40</strong>" in page
    assert f"Id begins with {ids[0][:6]}" in page
    assert "Minted within: 1 h" in page
    assert not any(one in page for one in ids)
    assert jobs.redis.zcard(jobs.keys.dead) == 40
    assert entries() == []


def test_the_steps_of_a_walk_go_on_where_the_last_one_ended(
    jobs: Jobs, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury_many(jobs, 3_500)
    monkeypatch.setattr(bulk, "STEP_S", 0.0)

    answer = press(root, jobs, "dead", "retry_all")

    page = text_of(root.get(answer["Location"]))
    assert "1000 of 3500" in page
    assert "data-emq-continue" in page
    assert jobs.redis.zcard(jobs.keys.dead) == 2_500
    assert entries()[0][2].endswith("[begun]")
    assert "3500 done." in follow(root, answer)
    assert len(entries()) == 1


def test_jobs_that_die_again_meanwhile_are_not_taken_twice(
    jobs: Jobs, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = bury_many(jobs, 1_500)
    monkeypatch.setattr(bulk, "STEP_S", 0.0)
    answer = press(root, jobs, "dead", "retry_all")
    for one in ids[:1_000]:  # every job of the first step fails at once
        jobs.bury(one)

    page = follow(root, answer)

    assert "1500 done." in page
    assert jobs.redis.zcard(jobs.keys.dead) == 1_000


def test_a_step_is_not_taken_twice(
    jobs: Jobs, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = bury_many(jobs, 2_500)
    monkeypatch.setattr(bulk, "STEP_S", 0.0)
    url = press(root, jobs, "dead", "retry_all")["Location"]
    (state,) = STATE.findall(text_of(root.get(url)))
    form = {"state": unescape(state), "continue": "1"}
    root.post(url, form)
    for one in ids[1_000:2_000]:
        jobs.bury(one)

    again = root.post(url, form)

    assert "taken already" in said(root, again)
    assert jobs.redis.zcard(jobs.keys.dead) == 1_500


@pytest.mark.parametrize("action", ["retry_all", "delete_all", "drain"])
def test_an_answer_that_is_sent_twice_begins_once(action: str, jobs: Jobs, root: Client) -> None:
    """What came to the list between the two sends was not part of the question."""
    tab = "pending" if action == "drain" else "dead"
    bury_many(jobs, 20)
    jobs.add_many(20)
    question = text_of(root.post(queue_url(jobs.name, f"?tab={tab}"), {"action": action}))
    (once,) = re.findall(r'name="once" value="([^"]+)"', question)

    first = follow(root, press(root, jobs, tab, action, name=jobs.name, once=once))
    bury_many(jobs, 5)
    late = jobs.add_many(5)
    second = follow(root, press(root, jobs, tab, action, name=jobs.name, once=once))

    assert "20 done." in first
    assert "sent before" in second
    assert jobs.redis.zcard(jobs.keys.dead) == (25 if action == "drain" else 5)
    assert jobs.redis.zscore(jobs.keys.pending, late[0]) is not None
    assert len(entries()) == 1


@pytest.mark.parametrize("once", ["", "ImEi:1aaaaa:bbbb"])
def test_an_answer_to_a_question_that_is_too_old_is_asked_again(
    once: str, jobs: Jobs, root: Client
) -> None:
    bury_many(jobs, 5)

    answer = press(root, jobs, "dead", "retry_all", once=once)

    assert answer.status_code == 200
    assert "Are you sure?" in text_of(answer)
    assert jobs.redis.zcard(jobs.keys.dead) == 5


def test_two_operators_at_once_retry_each_job_once(
    jobs: Jobs, staff: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    bury_many(jobs, 2_500)
    monkeypatch.setattr(bulk, "STEP_S", 0.0)
    one, other = staff(is_superuser=True), staff(is_superuser=True)
    first, second = (press(who, jobs, "dead", "retry_all") for who in (one, other))

    pages = [follow(one, first), follow(other, second)]

    done = [int(re.findall(r"(\d+) done", page)[0]) for page in pages]
    assert sum(done) == 2_500
    assert jobs.redis.zcard(jobs.keys.pending) == 2_500
    assert len(entries()) == 2


def test_a_walk_that_is_stopped_stays_stopped(
    jobs: Jobs, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury_many(jobs, 2_500)
    monkeypatch.setattr(bulk, "STEP_S", 0.0)
    url = press(root, jobs, "dead", "retry_all")["Location"]
    (state,) = STATE.findall(text_of(root.get(url)))
    form = {"state": unescape(state)}

    page = said(root, root.post(url, {**form, "stop": "1"}))

    assert "Stopped." in page
    assert "1000 done" in page
    assert "1000 done, 0 skipped, 0 failed of 2500" in entries()[0][2]
    assert entries()[0][2].endswith("[stopped]")
    assert "taken already" in said(root, root.post(url, {**form, "continue": "1"}))
    assert "over already" in said(root, root.post(url, {**form, "stop": "1"}))
    assert jobs.redis.zcard(jobs.keys.dead) == 1_500


def test_a_running_step_ends_when_somebody_presses_stop(
    jobs: Jobs, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury_many(jobs, 5_000)
    monkeypatch.setattr("emq_django.admin.walking._LOOK_EVERY_S", 0)
    settle, steps = bulk._settle_some, 0

    def stop_after_two(*args: Any) -> None:
        nonlocal steps
        settle(*args)
        steps += 1
        if steps == 2:  # the other request writes what a press of Stop writes
            LogEntry.objects.update(change_message="stopped elsewhere [stopped]")

    monkeypatch.setattr(bulk, "_settle_some", stop_after_two)

    page = said(root, press(root, jobs, "dead", "retry_all"))

    assert "2000 done" in page
    assert jobs.redis.zcard(jobs.keys.dead) == 3_000
    assert entries()[0][2].endswith("[stopped]")


def test_deleting_all_needs_the_name_of_the_queue(jobs: Jobs, root: Client) -> None:
    bury_many(jobs, 120)

    page = text_of(press(root, jobs, "dead", "delete_all", name="another"))
    assert "That is not the name of this queue." in page
    assert jobs.redis.zcard(jobs.keys.dead) == 120

    page = follow(root, press(root, jobs, "dead", "delete_all", name=jobs.name))

    assert "120 done." in page
    assert not jobs.redis.keys(jobs.keys.row("JOB") + b"*")
    assert entries()[0][1] == DELETION


def test_only_what_matches_is_deleted(jobs: Jobs, root: Client) -> None:
    kept = bury_many(jobs, 300, attempts="1")
    gone = bury_many(jobs, 300, attempts="9", last_error="ValueError: no such user")
    other = bury_many(jobs, 300, attempts="9", last_error="OSError: disk")
    url = queue_url(jobs.name, "?tab=dead&attempts=5&text=no+such+user")

    question = text_of(root.post(url, {"action": "delete_all"}))
    assert "at most 900" in question
    answer = root.post(url, answered("delete_all", name=jobs.name))
    page = follow(root, answer)

    assert "300 done." in page
    left = {raw.decode() for raw in jobs.redis.zrange(jobs.keys.dead, 0, -1)}
    assert left == {*kept, *other}
    assert not left & set(gone)
    assert "Text “no such user”" in entries()[0][2]


def test_only_what_died_in_a_window_is_retried(
    jobs: Jobs, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window is told once: in a later step it is still the one of the beginning."""
    now_ms = int(time.time() * 1_000)
    early = bury_many(jobs, 300, died=f"{now_ms - 7_200_000}:3")
    late = bury_many(jobs, 300, died=f"{now_ms - 3_598_000}:3")
    monkeypatch.setattr(bulk, "STEP_S", 0.0)

    answer = root.post(queue_url(jobs.name, "?tab=dead&died=1h"), answered("retry_all"))
    assert "died=" not in unescape(answer["Location"])

    assert "300 done." in follow(root, answer)
    assert jobs.redis.zrange(jobs.keys.dead, 0, -1) == [one.encode() for one in early]
    assert jobs.redis.zcard(jobs.keys.pending) == len(late)
    assert "Died from" in entries()[0][2]


def test_scheduled_jobs_of_a_window_are_deleted_in_the_order_of_their_time(
    jobs: Jobs, root: Client
) -> None:
    soon, late = mint.many(250), mint.many(250)
    for ids, delay_ms in ((soon, 60_000), (late, 7_200_000)):
        for one in ids:
            jobs.run(admission.enqueue_in(jobs.keys, one, b"{}", delay_ms))
    scores = jobs.redis.zrange(jobs.keys.schedule, 0, -1, withscores=True)
    same = {raw: 1_900_000_000_000 for raw, _ in scores[:250]}  # all due at one moment
    jobs.redis.zadd(jobs.keys.schedule, same)
    url = queue_url(jobs.name, "?tab=schedule&from=2030-01-01T00:00")

    answer = root.post(url, answered("delete_all", name=jobs.name))

    assert "250 done." in follow(root, answer)
    assert jobs.redis.zcard(jobs.keys.schedule) == 250


def test_an_error_that_holds_a_secret_is_no_way_to_pick_jobs(jobs: Jobs, root: Client) -> None:
    bury_many(jobs, 5, last_error='{"password": "hunter2"}')
    url = queue_url(jobs.name, "?tab=dead&text=hunter2")

    page = follow(root, root.post(url, answered("retry_all")))

    assert "0 done." in page
    assert jobs.redis.zcard(jobs.keys.dead) == 5


def test_a_text_filter_is_only_for_those_who_see_contents(
    jobs: Jobs, staff: Callable[..., Client]
) -> None:
    bury_many(jobs, 5, last_error="boom")
    client = staff("view_queue", "view_job", "retry_job")

    for form in (
        {"action": "retry_all"},
        answered("retry_all"),
    ):
        answer = client.post(queue_url(jobs.name, "?tab=dead&text=boom"), form)
        assert answer.status_code == 403
    assert jobs.redis.zcard(jobs.keys.dead) == 5


@pytest.mark.smoke
def test_a_drain_takes_what_waits_in_queue_and_lanes_and_nothing_else(
    jobs: Jobs, root: Client
) -> None:
    jobs.add_many(1_250)
    for lane in LANES:
        for _ in range(130):
            jobs.add(lane=lane)
    jobs.claim()
    scheduled = mint.one()
    jobs.run(admission.enqueue_in(jobs.keys, scheduled, b"{}", 60_000))
    bury_many(jobs, 3)
    url = queue_url(jobs.name, "?tab=dead&attempts=2")

    question = text_of(root.post(url, {"action": "drain"}))
    assert "<strong>1639</strong>" in question
    page = follow(
        root,
        root.post(url, answered("drain", name=jobs.name)),
    )

    assert "1639 done." in page
    assert jobs.redis.zcard(jobs.keys.pending) == 0
    assert not any(jobs.redis.exists(jobs.keys.lane(lane)) for lane in LANES)
    sizes = [
        jobs.redis.zcard(key) for key in (jobs.keys.active, jobs.keys.schedule, jobs.keys.dead)
    ]
    assert sizes == [1, 1, 3]
    assert jobs.redis.llen(jobs.keys.ring) == 0


@pytest.mark.parametrize("action", ["retry_all", "delete_all", "drain"])
def test_two_open_questions_do_it_once(action: str, jobs: Jobs, root: Client) -> None:
    bury_many(jobs, 30)
    jobs.add_many(20)
    url = queue_url(jobs.name, "?tab=dead")
    questions = [text_of(root.post(url, {"action": action})) for _ in range(2)]
    count = 20 if action == "drain" else 30
    assert all(f"<strong>{count}</strong>" in one for one in questions)

    first, second = (
        follow(root, press(root, jobs, "dead", action, name=jobs.name)) for _ in questions
    )

    assert f"{count} done." in first
    assert ": 0 done." in second
    left = (jobs.redis.zcard(jobs.keys.dead), jobs.redis.zcard(jobs.keys.pending))
    assert left == {"retry_all": (0, 50), "delete_all": (0, 20), "drain": (30, 0)}[action]


def test_a_drain_of_a_lane_leaves_the_others(jobs: Jobs, root: Client) -> None:
    for lane in LANES:
        jobs.add(lane=lane)
    jobs.add()
    url = queue_url(jobs.name, f"?lane={LANES[1]}")

    follow(
        root,
        root.post(url, answered("drain", name=jobs.name)),
    )

    assert [jobs.redis.zcard(jobs.keys.lane(lane)) for lane in LANES] == [1, 0, 1]
    assert jobs.redis.zcard(jobs.keys.pending) == 1


def test_a_drain_leaves_what_is_enqueued_meanwhile(
    jobs: Jobs, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.add_many(1_500)
    monkeypatch.setattr(bulk, "STEP_S", 0.0)
    answer = press(root, jobs, "pending", "drain", name=jobs.name)
    later = jobs.add_many(500)

    assert "1500 done." in follow(root, answer)
    assert jobs.redis.zrange(jobs.keys.pending, 0, -1) == [one.encode() for one in later]


def test_a_server_that_goes_away_stops_the_step_and_the_walk_can_go_on(
    proxy: Proxy, jobs: Jobs, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury_many(jobs, 2_500)
    monkeypatch.setattr(bulk, "STEP_S", 0.0)
    queue_cache = {**base.CACHES["queue"], "LOCATION": f"redis://127.0.0.1:{proxy.port}/0"}
    with override_settings(CACHES={**base.CACHES, "queue": queue_cache}):
        answer = press(root, jobs, "dead", "retry_all")
        proxy.mode = "close"
        (state,) = STATE.findall(text_of(root.get(answer["Location"])))
        broken = root.post(answer["Location"], {"state": unescape(state), "continue": "1"})
        proxy.mode = "forward"
        page = text_of(root.get(broken["Location"]))
        assert "The server did not answer." in page
        assert "1000 of 2500" in page

        assert "2500 done." in follow(root, broken)


@pytest.mark.parametrize("state", ["", "x", "e30:1aaaaa:bbbb"])
def test_a_forged_state_is_refused_in_words(state: str, jobs: Jobs, root: Client) -> None:
    url = queue_url(jobs.name).replace("/change/", "/walk/")

    for method in (root.get, root.post):
        answer = method(url, {"state": state})
        assert "tells nothing of an action of yours" in said(root, answer)


def test_a_state_is_good_for_its_user_queue_and_permission_alone(
    jobs: Jobs, staff: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    bury_many(jobs, 1_500)
    monkeypatch.setattr(bulk, "STEP_S", 0.0)
    client = staff("view_queue", "view_job", "retry_job")
    url = press(client, jobs, "dead", "retry_all")["Location"]
    (state,) = STATE.findall(text_of(client.get(url)))
    form = {"state": unescape(state), "continue": "1"}

    other = staff(is_superuser=True)
    assert "nothing of an action of yours" in said(other, other.post(url, form))
    elsewhere = queue_url("another").replace("/change/", "/walk/")
    assert "nothing of an action of yours" in said(client, client.post(elsewhere, form))
    User.objects.order_by("pk")[0].user_permissions.clear()
    assert client.post(url, form).status_code == 403
    assert jobs.redis.zcard(jobs.keys.dead) == 500


def test_without_its_entry_in_the_log_no_walk_begins(
    jobs: Jobs, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury_many(jobs, 5)

    def fail(*_: Any, **__: Any) -> None:
        raise DatabaseError("disk full")

    monkeypatch.setattr(type(LogEntry.objects), "log_actions", fail)

    assert "log could not be written" in said(root, press(root, jobs, "dead", "retry_all"))
    assert jobs.redis.zcard(jobs.keys.dead) == 5
