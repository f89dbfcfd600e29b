"""C161: text of strangers is text on every page, in every message, file name and entry of the log.

Payload, error and fields of a row, in all lists: test_hostile_bytes_come_out_as_text_everywhere in
tests/django/test_admin_pages. The text of workers: tests/django/test_admin_operations.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry

from emq_django.admin.links import Links
from emq_django.admin.tokens import cursor_token, once_token
from emq_django.models import Queue
from emq_django.protocol import notes, settle
from emq_django.protocol.ids import mint
from tests.django.conftest import Jobs, job_url, overview_url, queue_url, text_of
from tests.django.test_admin_pages import with_queues

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from django.test import Client

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "' onmouseover=alert(1) '",
    "</textarea></pre><script>alert(1)</script>",
    "{{7*7}}{% load x %}",
]
TABS = ("pending", "active", "schedule", "dead", "finished", "lanes")


def check(answer: Any) -> None:
    assert answer.status_code == 200
    page = text_of(answer)
    body = page.split('id="content-main"')[-1] if 'id="content-main"' in page else page
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    Reader().feed(page)
    assert "49" not in re.findall(r">\s*(\d+)\s*<", body)


class Reader(HTMLParser):
    """Reads a page as a browser does and finds no element or attribute that runs anything."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in {"img", "iframe", "object", "embed", "base"}
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            if name in {"href", "src", "action", "formaction"}:
                assert not (value or "").strip().lower().startswith("javascript:"), (tag, value)
            if tag == "script" and name == "src":
                assert (value or "").startswith("/static/")


@pytest.fixture(params=HOSTILE)
def hostile(request: pytest.FixtureRequest) -> str:
    text: str = request.param
    return text


@pytest.fixture
def evil(hostile: str, redis_client: redis.Redis) -> Iterator[Jobs]:
    """A queue of a hostile name with a hostile lane, foreign id, worker, error, note and result."""
    name = hostile.replace("{", "(").replace("}", ")")  # no queue's name has braces
    jobs = Jobs(f"{mint.one()} {name}", redis_client)
    raw = hostile.encode()
    base = jobs.keys.base
    job_id = jobs.add(raw)
    row = jobs.keys.row(job_id)
    jobs.run(notes.add_log(jobs.keys, job_id, hostile))
    jobs.run(notes.progress(jobs.keys, job_id, hostile))
    for field in (b"group", b"worker", b"last_error", b"previous_error", b"died", raw):
        jobs.redis.hset(row, field, raw)
    foreign = raw.replace(b"/", b"|")  # an id with a slash has no page
    for part in (b"pending", b"active", b"schedule", b"dead", b"dj:finished"):
        jobs.redis.zadd(base + part, {foreign: 5, job_id: 5})
    jobs.redis.hset(base + b"job:" + foreign, mapping={"state": "dead", "payload": raw})
    result = {"state": "completed", "payload": raw, "value": raw, "task": raw}
    jobs.redis.hset(base + b"job:" + foreign + b":result", mapping=result)
    jobs.redis.rpush(base + b"ring", raw)
    jobs.redis.zadd(base + b"g:" + raw + b":pending", {job_id: 0})
    jobs.redis.sadd(base + b"paused", raw)
    yield jobs
    jobs.redis.delete(*jobs.redis.keys(base.replace(b"*", b"\\*") + b"*"))


def ids_of(jobs: Jobs) -> tuple[str, str]:
    """The foreign id and our own one."""
    ids = [one.decode() for one in jobs.redis.zrange(jobs.keys.dead, 0, -1)]
    own = next(one for one in ids if one.startswith("JOB"))
    return next(one for one in ids if one != own), own


def test_no_page_runs_what_a_stranger_wrote(evil: Jobs, root: Client) -> None:
    links = Links("admin")
    foreign, job_id = ids_of(evil)
    urls = [queue_url(evil.name, f"?tab={tab}") for tab in TABS]
    urls += [queue_url(evil.name, f"?tab=dead&text={foreign}&task={foreign}&q={foreign}")]
    for one in (foreign, job_id):
        urls += [job_url(evil.name, one), links.edit(evil.name, one) or ""]
    urls += [links.metrics(evil.name) or "", links.history(Queue, evil.name) or ""]

    for url in urls:
        check(root.get(url))
    with with_queues(evil.name):
        check(root.get(overview_url()))
        check(root.get(overview_url(), {"q": evil.name}))


def test_no_question_message_or_entry_does_either(evil: Jobs, root: Client, hostile: str) -> None:
    url = queue_url(evil.name, "?tab=dead")
    token = cursor_token(ids_of(evil)[0]) or ""
    check(root.post(url, {"action": "delete", "id": token}))
    check(root.post(url, {"action": hostile}, follow=True))
    check(root.post(url, {"action": "delete_all"}))
    form = {"action": "delete_all", "confirmed": "1", "once": once_token()}
    check(root.post(url, {**form, "name": hostile}))
    check(root.post(queue_url(evil.name), {"action": "pause"}))
    check(root.post(queue_url(evil.name), {"action": "pause", "confirmed": "1"}, follow=True))
    check(root.post(url, {"action": "retry", "id": token}, follow=True))
    check(root.get("/admin/"))  # "Recent actions" names the queue

    assert LogEntry.objects.filter(object_id=evil.name).exists()


def test_a_download_has_a_plain_name_and_runs_nowhere(evil: Jobs, root: Client) -> None:
    _foreign, job_id = ids_of(evil)

    answer = root.post(Links("admin").download(evil.name, job_id) or "")

    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert re.fullmatch(r'attachment; filename="[\w.\-]+"', answer["Content-Disposition"])
    assert answer["Content-Security-Policy"] == "sandbox"


def test_an_error_of_a_handler_is_text(jobs: Jobs, root: Client, hostile: str) -> None:
    jobs.add()
    job = jobs.claim()
    jobs.run(settle.retry(jobs.keys, job, f"ValueError: {hostile}", 60_000, 5))

    check(root.get(queue_url(jobs.name, "?tab=schedule")))
    check(root.get(job_url(jobs.name, job.id)))
