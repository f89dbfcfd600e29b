"""Other bytes for the payload of a job: who may, what is shown first, and what is left alone."""

from __future__ import annotations

import difflib
import html
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client, override_settings

from emq_django.admin.links import Links
from emq_django.task_backend import codec
from tests import settings as base
from tests.django.conftest import Jobs, job_url, text_of
from tests.django.test_admin_actions import said

TASK = b'{"v":1,"task":"shop.tasks.send","args":[7],"kwargs":{"to":"ann"}}'
LANE = "USR0123456789a"


def edit_url(name: str, job_id: str) -> str:
    url = Links("admin").edit(name, job_id)
    assert url is not None
    return url


def payload_of(jobs: Jobs, job_id: str) -> bytes:
    found: bytes = jobs.redis.hget(jobs.keys.row(job_id), "payload")
    return found


def fields_of(page: str) -> dict[str, str]:
    """What the page's form would send back, as a browser does."""
    text = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", page, re.DOTALL)
    digest = re.search(r'name="digest" value="([^"]*)"', page)
    assert text is not None
    assert digest is not None
    return {"payload": html.unescape(text[1]).replace("\n", "\r\n"), "digest": digest[1]}


def change(client: Client, url: str, new: str, **more: str) -> Any:
    form = {**fields_of(text_of(client.get(url))), "payload": new, "action": "edit", **more}
    return client.post(url, form)


@pytest.mark.parametrize("where", ["pending", "lane", "schedule", "dead"])
def test_a_payload_is_changed_after_the_difference_was_shown(
    where: str, jobs: Jobs, root: Client
) -> None:
    job_id = jobs.add(TASK, lane=LANE if where == "lane" else "")
    if where == "schedule":
        jobs.redis.zrem(jobs.keys.pending, job_id)
        jobs.redis.zadd(jobs.keys.schedule, {job_id: 1e15})
    elif where == "dead":
        jobs.bury(job_id)
    new = TASK.decode().replace("ann", "bob")
    url = edit_url(jobs.name, job_id)
    assert f'action="{url}"' in text_of(root.get(job_url(jobs.name, job_id)))

    question = change(root, url, new)

    assert question.status_code == 200
    page = html.unescape(text_of(question))
    assert '<del>-     "to": "ann"</del>' in page
    assert '<ins>+     "to": "bob"</ins>' in page
    assert payload_of(jobs, job_id) == TASK
    assert not LogEntry.objects.exists()

    answer = root.post(url, {**fields_of(text_of(question)), "confirmed": "1"})

    assert answer.status_code == 303
    assert payload_of(jobs, job_id) == new.encode()
    assert "Changed the payload." in said(root, answer)
    (entry,) = LogEntry.objects.all()
    assert entry.object_id == f"{jobs.name}/{job_id}"
    assert entry.change_message == f"Changed the payload. {len(TASK)} → {len(new)} B"


@pytest.mark.parametrize(
    "payload", [b"", b"plain\ntext\n", b'\n{"a": 1}\n', "\u00e4\u4e16".encode()]
)
def test_what_is_not_touched_comes_back_as_it_was(payload: bytes, jobs: Jobs, root: Client) -> None:
    """Browsers send line breaks as two characters and drop the first of an area."""
    url = edit_url(jobs.name, jobs.add(payload))

    answer = root.post(url, {**fields_of(text_of(root.get(url))), "action": "edit"})

    assert "Nothing was changed." in said(root, answer)


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        (b"{}", "{} \n", ["<del>- {}</del>", "<ins>+ {} </ins>", "<ins>+ </ins>"]),
        (b"a", "a\n", ["<ins>+ </ins>"]),
        (b"-- x\nb", "-- x\nc", ["  -- x", "<del>- b</del>", "<ins>+ c</ins>"]),
        (b"-- x", "++ x", ["<del>- -- x</del>", "<ins>+ ++ x</ins>"]),
    ],
)
def test_a_change_of_blanks_or_of_lines_like_marks_is_a_change(
    old: bytes, new: str, shown: list[str], jobs: Jobs, root: Client
) -> None:
    job_id = jobs.add(old)
    url = edit_url(jobs.name, job_id)

    question = change(root, url, new)

    page = text_of(question)
    assert all(line in page for line in shown)
    root.post(url, {**fields_of(page), "confirmed": "1"})
    assert payload_of(jobs, job_id) == new.encode()


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b'{"password": "hunter2"}', "Parts of this payload are hidden"),
        (b"\xff\x00", "Parts of this payload are hidden"),
        ("safe \u202e txt".encode(), "characters that a form can&#x27;t carry"),
        (b"a\r\nb", "characters that a form can&#x27;t carry"),
        (b"x" * 65_537, "too large to be changed here"),
        (codec.sign(TASK, "default"), "This payload is signed"),
    ],
)
def test_what_a_form_would_damage_or_show_has_none(
    payload: bytes, why: str, jobs: Jobs, root: Client
) -> None:
    job_id = jobs.add(payload)
    url = edit_url(jobs.name, job_id)

    page = text_of(root.get(url))
    answer = root.post(url, {"payload": "other", "digest": "", "confirmed": "1"})

    assert why in page
    assert "<textarea" not in page
    assert "hunter2" not in page
    assert answer.status_code == 303
    assert payload_of(jobs, job_id) == payload


def hide_all(*_: object) -> None:
    """Show nothing."""


def test_the_hook_of_the_project_decides_here_too(jobs: Jobs, root: Client) -> None:
    url = edit_url(jobs.name, jobs.add(TASK))

    with override_settings(EMQ={**base.EMQ, "ADMIN": {"REDACT": f"{__name__}.hide_all"}}):
        page = text_of(root.get(url))

    assert "Parts of this payload are hidden" in page
    assert "shop.tasks.send" not in page


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (TASK, TASK.replace(b"shop.tasks.send", b"os.system"), "stays with its task"),
        (TASK, TASK.replace(b'"v":1', b'"v":2'), "stays with its task"),
        (TASK, b"[1]", "stays with its task"),
        (TASK, TASK[:-1], "must be JSON"),
        (TASK, b"[" * 100_000, "must be JSON"),
        (TASK, b' {"task":"shop.tasks.send","v":1,"args":[],"kwargs":{}}', "Leave the fields"),
        (TASK, TASK.replace(b"[7]", b"7"), "Leave the fields"),
        (b"plain", TASK, "turn the job into a task"),
        (b"plain", b"x" * 1_100_000, "MAX_PAYLOAD_BYTES"),
    ],
)
def test_a_job_stays_what_it_is(old: bytes, new: bytes, why: str, jobs: Jobs, root: Client) -> None:
    job_id = jobs.add(old)

    answer = change(root, edit_url(jobs.name, job_id), new.decode(), confirmed="1")

    assert answer.status_code == 200
    assert why in html.unescape(text_of(answer))
    assert fields_of(text_of(answer))["payload"] == new.decode()  # nothing typed is lost
    assert payload_of(jobs, job_id) == old


def test_a_payload_that_changed_meanwhile_is_left_alone(jobs: Jobs, root: Client) -> None:
    job_id = jobs.add(b"first")
    url = edit_url(jobs.name, job_id)
    form = {**fields_of(text_of(root.get(url))), "payload": "third", "confirmed": "1"}
    jobs.redis.hset(jobs.keys.row(job_id), "payload", "second")

    answer = root.post(url, form)

    assert "The payload is no longer the one that you saw: look again." in said(root, answer)
    assert payload_of(jobs, job_id) == b"second"


@pytest.mark.parametrize("what", ["taken", "changed"])
def test_a_job_that_moves_between_the_look_and_the_change_is_left_alone(
    what: str, jobs: Jobs, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from emq_django.admin import editing

    job_id = jobs.add(b"first")
    look = editing._seen

    def look_and_lose(*args: Any) -> Any:
        seen = look(*args)
        if what == "taken":
            jobs.claim()
        else:
            jobs.redis.hset(jobs.keys.row(job_id), "payload", "second")
        return seen

    url = edit_url(jobs.name, job_id)
    form = {**fields_of(text_of(root.get(url))), "payload": "third", "confirmed": "1"}
    monkeypatch.setattr(editing, "_seen", look_and_lose)

    answer = root.post(url, form)

    assert "nothing was done." in said(root, answer)
    assert payload_of(jobs, job_id) == (b"first" if what == "taken" else b"second")
    assert not LogEntry.objects.exists()


def test_a_job_that_runs_or_is_over_has_no_form(jobs: Jobs, root: Client) -> None:
    jobs.add(TASK)
    job = jobs.claim()
    url = edit_url(jobs.name, job.id)

    for page in (root.get(url), root.get(edit_url(jobs.name, "JOB00000000000"))):
        assert "Only a job that waits, is scheduled or is dead can be changed." in text_of(page)
    assert f'action="{url}"' not in text_of(root.get(job_url(jobs.name, job.id)))


def test_who_changes_a_payload_must_see_it(jobs: Jobs, staff: Callable[..., Client]) -> None:
    job_id = jobs.add(TASK)
    url = edit_url(jobs.name, job_id)
    blind = staff("view_queue", "view_job", "change_job")

    page = text_of(blind.get(url))

    assert "you must be allowed to see it" in page
    assert "shop.tasks.send" not in page
    assert blind.post(url, {"payload": "x", "confirmed": "1"}).status_code == 403
    assert f'action="{url}"' not in text_of(blind.get(job_url(jobs.name, job_id)))
    assert payload_of(jobs, job_id) == TASK


def test_markup_in_a_payload_stays_text(jobs: Jobs, root: Client) -> None:
    hostile = json.dumps({"a": "</textarea><script>alert(1)</script>", "b": "{{7*7}}"})
    url = edit_url(jobs.name, jobs.add(hostile.encode()))

    pages = [text_of(root.get(url)), text_of(change(root, url, hostile.replace("7", "8")))]

    for page in pages:
        assert "<script>alert" not in page
        assert html.unescape(page).count("</textarea><script>") >= 1
    assert fields_of(pages[0])["payload"] == hostile


def test_a_server_that_is_away_is_told(jobs: Jobs, root: Client) -> None:
    url = edit_url(jobs.name, jobs.add(TASK))
    queue_cache = {**base.CACHES["queue"], "LOCATION": "redis://127.0.0.1:1/0"}

    with override_settings(CACHES={**base.CACHES, "queue": queue_cache}):
        page = text_of(root.get(url))

    assert "The server did not answer." in page
    assert "<textarea" not in page


def test_payloads_of_very_many_lines_are_compared_where_they_differ_alone(
    jobs: Jobs, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comparing 20,000 lines with 100,000 took the best part of a minute."""
    compared: list[int] = []

    def compare(old: list[str], new: list[str], **options: Any) -> Iterator[str]:
        compared.append(max(len(old), len(new)))
        return unified(old, new, **options)

    unified = difflib.unified_diff
    monkeypatch.setattr(difflib, "unified_diff", compare)
    many = list(range(10_000))
    job_id = jobs.add(json.dumps(many).encode())
    url = edit_url(jobs.name, job_id)

    inside = html.unescape(text_of(change(root, url, json.dumps([*many[:5_000], *many[5_001:]]))))
    longer = html.unescape(text_of(change(root, url, json.dumps([*many, 1]))))
    other = html.unescape(text_of(change(root, url, json.dumps([0] * 50_000))))

    assert re.findall(r"<(?:del|ins)>(.*?)</", inside) == ["-   5000,"]
    assert re.findall(r"<(?:del|ins)>(.*?)</", longer) == ["-   9999", "+   9999,", "+   1"]
    assert max(compared) < 10
    assert len(re.findall(r"<del>", other)) == len(re.findall(r"<ins>", other)) == 200
    assert payload_of(jobs, job_id) == json.dumps(many).encode()
