"""The pages on real data: what they show, what they survive, and what they never send."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from html import unescape
from typing import Any

import pytest
import redis
from django.contrib.admin.utils import quote
from django.test import Client, override_settings

from emq_django import connections
from emq_django.conf import keys
from emq_django.protocol import enqueue as admission
from emq_django.protocol import registry, settle, upkeep
from emq_django.protocol.ids import mint
from emq_django.protocol.keyspace import QUEUES_KEY, VERSION_KEY
from tests import settings as base
from tests.django.conftest import Jobs, job_url, overview_url, queue_url, text_of
from tests.monitoring import Recording
from tests.proxy import Proxy
from tests.servers import Server, free_port

LANE = "USR0123456789a"
IDS = re.compile(r'class="emq-id"><span dir="ltr" class="emq-code"><a href="[^"]*">(\w{14})</a>')
NEXT = re.compile(r'<a href="([^"]*)" rel="next">')
PREVIOUS = re.compile(r'<a href="([^"]*)" rel="prev">')
PAYLOAD = re.compile(r'<pre[^>]*aria-label="payload">(.*?)</pre>', re.DOTALL)


def line_of(page: str, name: str) -> list[str]:
    """The figures of a queue in the overview, from left to right."""
    row = re.search(rf"<bdi>{re.escape(name)}</bdi>.*?</tr>", page, re.DOTALL)
    assert row is not None, page
    return re.findall(r'<td class="emq-number[^"]*">(\d+)', row[0])


def with_queues(*names: str, **emq: Any) -> Any:
    return override_settings(EMQ={**base.EMQ, "QUEUES": {name: {} for name in names}, **emq})


def with_server(url: str, *names: str, **emq: Any) -> Any:
    queue_cache = {**base.CACHES["queue"], "LOCATION": url}
    return override_settings(
        CACHES={**base.CACHES, "queue": queue_cache},
        EMQ={**base.EMQ, "QUEUES": {name: {} for name in names}, **emq},
    )


@pytest.mark.smoke
def test_the_overview_has_the_figures_of_every_queue(jobs: Jobs, root: Client) -> None:
    ids = jobs.add_many(7)
    jobs.add(lane=LANE)
    jobs.claim()
    jobs.claim(lease_ms=1)
    jobs.bury(ids[6])
    jobs.run(admission.enqueue_in(jobs.keys, mint.one(), b"{}", 60_000))
    job = jobs.claim()
    jobs.run(settle.complete(jobs.keys, job))
    time.sleep(0.005)  # the lease of 1 ms ends on the server's clock

    with with_queues(jobs.name):
        page = text_of(root.get(overview_url()))

    # waiting, active, expired, scheduled, dead, completed, failed
    assert line_of(page, jobs.name) == ["4", "2", "1", "1", "1", "1", "0"]
    assert "1 in 1 lane</span>" in page
    assert "running" in page


def test_jobs_that_wait_in_lanes_are_told_where_they_could_be_missed(
    jobs: Jobs, root: Client
) -> None:
    """They are not in the list of pending jobs, which a newcomer opens first."""
    for lane in (LANE, LANE[:-1] + "b", LANE):
        jobs.add(lane=lane)

    page = text_of(root.get(queue_url(jobs.name)))

    assert "<dt>Waiting</dt><dd>3 " in page
    assert "3 of them in 2 lanes" in page
    assert "3 more jobs wait in lanes: this list has those outside of lanes." in page
    assert f'{queue_url(jobs.name)}?tab=lanes">Show the lanes</a>' in page
    assert "more jobs wait" not in text_of(root.get(queue_url(jobs.name, f"?lane={LANE}")))


def test_the_overview_shows_a_pause_in_words(jobs: Jobs, root: Client) -> None:
    jobs.redis.hset(jobs.keys.meta, "paused", "1")

    with with_queues(jobs.name):
        page = text_of(root.get(overview_url()))

    assert "paused" in page
    assert "running" not in page


def test_the_overview_lists_queues_that_only_the_server_knows(jobs: Jobs, root: Client) -> None:
    foreign = keys(jobs.name).wire_name.removeprefix(str(base.EMQ["QUEUE_PREFIX"])) + "-foreign"
    try:
        assert jobs.run(registry.register(jobs.keys.wire_name))
        jobs.redis.sadd("{emq}:dj:queues", foreign, b"\xff\xfe", b"t-main-{bad}")

        with with_queues("listed"):
            page = text_of(root.get(overview_url()))
    finally:
        jobs.redis.delete("{emq}:dj:queues")

    assert f"<bdi>{jobs.name}</bdi>" in page
    assert "<bdi>listed</bdi>" in page
    assert foreign not in page


def test_the_registry_takes_no_more_names_than_a_page_can_read(jobs: Jobs) -> None:
    jobs.redis.delete("{emq}:dj:queues")
    try:
        jobs.redis.sadd("{emq}:dj:queues", *(f"q{number}" for number in range(1_000)))

        assert not jobs.run(registry.register("one-more"))
        assert jobs.run(registry.register("q7"))
        found = jobs.run(registry.registered())
    finally:
        jobs.redis.delete("{emq}:dj:queues")

    assert (found.total, len(found.names)) == (1_000, 1_000)


def test_one_broken_queue_leaves_the_others_their_figures(jobs: Jobs, root: Client) -> None:
    jobs.add_many(3)
    broken = f"{jobs.name}-broken"
    jobs.redis.set(keys(broken).pending, "a string")

    with with_queues(broken, jobs.name):
        page = text_of(root.get(overview_url()))

    assert line_of(page, jobs.name)[0] == "3"
    assert "another type of value" in page
    assert "without 1 queue" in page


@pytest.mark.parametrize("kind", ["string", "list"])
@pytest.mark.parametrize("part", ["pending", "active", "schedule", "dead", "meta", "ring"])
def test_keys_of_a_wrong_type_make_a_message_not_a_failure(
    kind: str, part: str, jobs: Jobs, root: Client
) -> None:
    job_id = jobs.add()
    key = jobs.keys.base + part.encode()
    jobs.redis.delete(key)
    if kind == "string":
        jobs.redis.set(key, "x")
    else:
        jobs.redis.rpush(key, "x")

    for tab in ("pending", "active", "schedule", "dead"):
        assert root.get(queue_url(jobs.name, f"?tab={tab}")).status_code == 200
    assert root.get(job_url(jobs.name, job_id)).status_code == 200
    assert root.get(overview_url()).status_code == 200


def test_a_row_of_a_wrong_type_is_shown_as_far_as_it_can_be(jobs: Jobs, root: Client) -> None:
    job_id = mint.one()
    jobs.redis.zadd(jobs.keys.pending, {job_id: 0})
    jobs.redis.set(jobs.keys.row(job_id), "no hash")

    assert job_id in text_of(root.get(queue_url(jobs.name)))
    assert root.get(job_url(jobs.name, job_id)).status_code == 200


@pytest.mark.parametrize("score", [math.inf, -math.inf, 1e300, -1.0, 0.5])
@pytest.mark.parametrize("part", ["active", "schedule"])
def test_scores_that_are_no_times_are_survived(
    score: float, part: str, jobs: Jobs, root: Client
) -> None:
    job_id = jobs.add()
    jobs.redis.zadd(jobs.keys.base + part.encode(), {job_id: score})

    page = root.get(queue_url(jobs.name, f"?tab={part}"))

    assert page.status_code == 200
    assert job_id in text_of(page)
    assert root.get(job_url(jobs.name, job_id)).status_code == 200
    with with_queues(jobs.name):
        assert root.get(overview_url()).status_code == 200


@pytest.mark.smoke
def test_pending_and_active_jobs_are_listed_with_their_facts(jobs: Jobs, root: Client) -> None:
    first, second = jobs.add(b'{"to": "ann"}'), jobs.add(b'{"to": "bob"}')
    assert jobs.claim(lease_ms=5_400_000).id == first

    pending = text_of(root.get(queue_url(jobs.name)))
    active = text_of(root.get(queue_url(jobs.name, "?tab=active")))

    assert IDS.findall(pending) == [second]
    assert "bob" in pending
    assert "13 bytes" in pending
    assert IDS.findall(active) == [first]
    assert re.search(r"1 h (30|29) min left", active)


def test_an_expired_lease_is_told_in_words(jobs: Jobs, root: Client) -> None:
    job_id = jobs.add()
    jobs.claim()
    jobs.redis.zadd(jobs.keys.active, {job_id: 1_000})

    page = text_of(root.get(queue_url(jobs.name, "?tab=active")))

    assert re.search(r'class="emq-warn"><bdi>expired \d+ d \d+ h ago', page)


def test_the_dead_list_shows_the_first_line_of_the_error(jobs: Jobs, root: Client) -> None:
    job_id = jobs.add()
    jobs.bury(job_id, b"ValueError: no such <user>\nTraceback: secret stuff" + b"x" * 500)

    page = text_of(root.get(queue_url(jobs.name, "?tab=dead")))

    assert "ValueError: no such &lt;user&gt;" in page
    assert "secret stuff" not in page


def test_a_dead_job_tells_when_it_died(jobs: Jobs, root: Client) -> None:
    buried = jobs.add()
    jobs.bury(buried)  # as another speaker does
    jobs.add()
    job = jobs.claim()
    jobs.run(settle.retry(jobs.keys, job, "boom", 0, 1))
    row = jobs.keys.row(job.id)
    died_ms = int(jobs.redis.hget(row, "died").split(b":")[0])
    jobs.redis.hset(row, "died", b"%d:1" % (died_ms - 3 * 3_600_000))

    page = text_of(root.get(queue_url(jobs.name, "?tab=dead")))

    assert '<span>Minted<span class="emq-fold">, died</span></span>' in page
    assert page.count("3 h 0 min ago</bdi></time>") == 1
    assert "<dt>Died</dt>" in text_of(root.get(job_url(jobs.name, job.id)))
    assert "<dt>Died</dt>" not in text_of(root.get(job_url(jobs.name, buried)))
    jobs.redis.hset(row, "attempts", "2")  # another speaker has revived it since
    assert "3 h 0 min ago" not in text_of(root.get(queue_url(jobs.name, "?tab=dead")))


def test_the_schedule_tells_a_retry_from_a_first_run(jobs: Jobs, root: Client) -> None:
    jobs.run(admission.enqueue_in(jobs.keys, mint.one(), b"{}", 3_600_500))
    page = text_of(root.get(queue_url(jobs.name, "?tab=schedule")))
    assert "in 1 h 0 min" in page
    assert "first run" in page

    jobs.add()
    job = jobs.claim()
    jobs.run(settle.retry(jobs.keys, job, "once more", 60_000, 5))
    page = text_of(root.get(queue_url(jobs.name, "?tab=schedule")))
    assert "once more" in page
    assert ">retry<" in page


def test_a_lane_has_a_list_of_its_own(jobs: Jobs, root: Client) -> None:
    job_id = jobs.add(lane=LANE)
    jobs.add()

    page = text_of(root.get(queue_url(jobs.name, f"?lane={LANE}")))

    assert IDS.findall(page) == [job_id]


def test_a_ghost_is_marked_in_the_list_and_on_its_page(jobs: Jobs, root: Client) -> None:
    job_id = mint.one()
    jobs.redis.zadd(jobs.keys.pending, {job_id: 0})

    assert "row is missing" in text_of(root.get(queue_url(jobs.name)))
    assert "The row is missing" in text_of(root.get(job_url(jobs.name, job_id)))


@pytest.mark.smoke
def test_a_finished_job_is_told_honestly(jobs: Jobs, root: Client) -> None:
    job_id = jobs.add()
    job = jobs.claim()
    jobs.run(settle.complete(jobs.keys, job))

    answer = root.get(job_url(jobs.name, job_id))

    assert answer.status_code == 200
    assert "finished, was deleted, or never existed" in text_of(answer)


def test_a_mark_tells_that_a_job_finished_not_long_ago(jobs: Jobs, root: Client) -> None:
    jobs.add()
    job = jobs.claim()
    jobs.run(settle.complete(jobs.keys, job, 60_000))

    assert "Finished not long ago" in text_of(root.get(job_url(jobs.name, job.id)))


def test_a_row_in_no_set_is_told(jobs: Jobs, root: Client) -> None:
    job_id = jobs.add()
    jobs.redis.zrem(jobs.keys.pending, job_id)

    assert "in no set" in text_of(root.get(job_url(jobs.name, job_id)))


HOSTILE = {
    "markup": b"<script>alert(1)</script>\"><img src=x onerror=alert(1)>' onmouseover=x </pre>",
    "template": b"{{7*7}} {% load x %} {# c #}",
    "nul and bidi": "a\x00b\u202egnp.exe\u2066\x1b[31m".encode(),
    "invalid utf-8": b"\xff\xfe\x80abc\xc3",
    "link": b"javascript:alert(1)",
    "deep": b"[" * 4_000,
    "digits": b'{"n": ' + b"9" * 4_000 + b"}",
    "surrogate": b'"\\ud800"',
    "pickle": b"cos\nsystem\n(S'echo'\ntR.",
}


@pytest.mark.smoke
@pytest.mark.parametrize("payload", HOSTILE.values(), ids=HOSTILE)
def test_hostile_bytes_come_out_as_text_everywhere(
    payload: bytes, jobs: Jobs, root: Client
) -> None:
    job_id = jobs.add(payload)
    row = jobs.keys.row(job_id)
    for field in (b"last_error", b"group", b"worker", b"attempts", b"state", b"progress", payload):
        jobs.redis.hset(row, field, payload)
    jobs.redis.zadd(jobs.keys.pending, {payload: 0})
    for copy in (jobs.keys.active, jobs.keys.schedule, jobs.keys.dead):
        jobs.redis.zadd(copy, {job_id: 5, payload: 5})

    urls = [
        queue_url(jobs.name, f"?tab={tab}") for tab in ("pending", "active", "schedule", "dead")
    ]
    for url in [*urls, job_url(jobs.name, job_id)]:
        answer = root.get(url)
        page = text_of(answer)
        assert answer.status_code == 200
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert not re.search(r"(href|src)=.javascript:", page)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", page)
        assert "49" not in re.findall(r">(\d+)<", page)


def test_a_payload_is_shown_as_it_is_but_for_escapes(jobs: Jobs, root: Client) -> None:
    job_id = jobs.add("größe {{7*7}} \u202e \x07".encode())

    found = PAYLOAD.search(text_of(root.get(job_url(jobs.name, job_id))))

    assert found is not None
    assert unescape(found[1]) == "größe {{7*7}} \\u202e \\x07"


def test_binary_is_shown_as_hex(jobs: Jobs, root: Client) -> None:
    job_id = jobs.add(b"\x80\x04abc")

    found = PAYLOAD.search(text_of(root.get(job_url(jobs.name, job_id))))

    assert found is not None
    assert found[1].startswith("00000000  80 04 61 62 63")
    assert "80 04 61 62 63" in text_of(root.get(queue_url(jobs.name)))


def test_a_payload_above_the_gate_is_told_by_its_size_and_never_moved(
    jobs: Jobs, root: Client, monitor: Callable[[], AbstractContextManager[Recording]]
) -> None:
    job_id = mint.one()
    for one in (job_id, *mint.many(9)):
        jobs.redis.hset(jobs.keys.row(one), mapping={"attempts": 0, "payload": b"x" * 5_000_000})
        jobs.redis.zadd(jobs.keys.pending, {one: 0})

    started = time.process_time()
    pages = [text_of(root.get(url)) for url in (queue_url(jobs.name), job_url(jobs.name, job_id))]
    took_s = time.process_time() - started

    for page in pages:
        assert "too large to show" in page
        assert "5.0 MB" in page
        assert len(page) < 60_000
    assert took_s < 2


ODD_NAMES = [
    "odd/na me:é", "..", ".", "a_2Fb", "<script>alert(1)</script>", "q?x=1&y#z", "%2F%00",
    "日本語", "tab\tline\nbreak", "'\"\\", "x" * 110, "+", " ", "add", "\u202eabc",
]  # fmt: skip


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_queue_may_have_any_name(name: str, redis_client: redis.Redis, root: Client) -> None:
    jobs, job_id = Jobs(name, redis_client), mint.one()
    # As another speaker would: this package makes no queue of some of these names.
    redis_client.hset(jobs.keys.row(job_id), mapping={"state": "pending", "payload": "{}"})
    redis_client.zadd(jobs.keys.pending, {job_id: 0})
    redis_client.sadd(QUEUES_KEY, jobs.keys.wire_name)
    try:
        with with_queues():
            page = text_of(root.get(overview_url()))
            links = re.findall(r'class="emq-name"><a href="([^"]+)"', page)
            listed = text_of(root.get(unescape(links[0])))
            (job_link,) = re.findall(r'class="emq-code"><a href="([^"]+)"', listed)
            shown = text_of(root.get(unescape(job_link)))
    finally:
        redis_client.delete(jobs.keys.pending, jobs.keys.row(job_id), QUEUES_KEY)

    assert "/./" not in links[0]
    assert "/../" not in links[0]
    assert job_id in shown
    assert "waiting (pending)" in shown
    assert "<script>alert" not in page + listed + shown
    assert "\u202e" not in page + listed + shown


@pytest.mark.parametrize(
    "query",
    [
        "?after=x", "?before=JOB", "?after=~!!", "?after=%00", "?tab=all", "?p=abc", "?page=9",
        "?after=JOB0123456789a&before=JOB0123456789a", "?q=%ff%fe", "?q=" + "J" * 5_000,
        "?tab=active&after=JOB0123456789a&at=nan", "?tab=active&at=" + "9" * 400, "?minted=1y",
        "?lane={{7*7}}", "?tab=%3Cscript%3E", "?order=up", "?_fragment=1&after=x",
        "?tab=active&after=JOB0123456789a&at=inf", "?after=~" + "A" * 700,
    ],
)  # fmt: skip
def test_garbage_in_the_query_string_is_never_a_failure(
    query: str, jobs: Jobs, root: Client
) -> None:
    job_id = jobs.add()

    for url in (queue_url(jobs.name), overview_url(), job_url(jobs.name, job_id)):
        answer = root.get(url + query)
        assert answer.status_code == 200
        assert "<script>" not in text_of(answer)


def test_a_parameter_that_makes_no_sense_is_named_and_the_list_shown(
    jobs: Jobs, root: Client
) -> None:
    job_id = jobs.add()

    page = text_of(root.get(queue_url(jobs.name, "?after=nonsense&colour=red")))

    assert "makes no sense here: after, colour" in page
    assert IDS.findall(page) == [job_id]


@pytest.mark.parametrize("key", ["no-slash", "/JOB0123456789a", "emails/", "a{b}/JOB0123456789a"])
def test_an_address_that_can_name_no_job_is_not_found(key: str, root: Client) -> None:
    url = job_url("q", "JOB0123456789a").replace("q_2FJOB0123456789a", str(quote(key)))

    assert root.get(url).status_code == 404


@pytest.mark.smoke
def test_walking_a_long_list_while_jobs_are_claimed_shows_no_id_twice(
    jobs: Jobs, root: Client
) -> None:
    ids = jobs.add_many(2_550)
    seen: list[str] = []
    url = queue_url(jobs.name)
    claimed = 0

    while url:
        page = text_of(root.get(url))
        seen += IDS.findall(page)
        for _ in range(20):
            jobs.claim()
            claimed += 1
        follow = NEXT.search(page)
        url = unescape(follow[1]) if follow else ""

    assert len(seen) == len(set(seen))
    assert seen == sorted(seen)
    assert set(ids[claimed:]) <= set(seen)


def test_walking_back_from_the_end_shows_the_same_jobs(jobs: Jobs, root: Client) -> None:
    ids = jobs.add_many(250)
    page = text_of(root.get(queue_url(jobs.name, f"?after={ids[199]}")))
    assert IDS.findall(page) == ids[200:]

    back = PREVIOUS.search(page)
    assert back is not None
    page = text_of(root.get(unescape(back[1])))

    assert IDS.findall(page) == ids[150:200]


def test_active_jobs_are_paged_by_the_end_of_their_lease(jobs: Jobs, root: Client) -> None:
    jobs.add_many(230)
    order = [jobs.claim(lease_ms=60_000 + 10 * number).id for number in range(230)]
    seen: list[str] = []
    url = queue_url(jobs.name, "?tab=active")

    while url:
        page = text_of(root.get(url))
        found = IDS.findall(page)
        seen += found
        jobs.redis.zrem(jobs.keys.active, found[-1])  # the cursor itself leaves
        follow = NEXT.search(page)
        url = unescape(follow[1]) if follow else ""

    assert seen == order


def test_a_prefix_and_a_mint_window_narrow_the_list(jobs: Jobs, root: Client) -> None:
    old = jobs.add(job_id="JOB00000000001")
    new = jobs.add()

    assert IDS.findall(text_of(root.get(queue_url(jobs.name, "?q=JOB000")))) == [old]
    assert IDS.findall(text_of(root.get(queue_url(jobs.name, "?minted=15m")))) == [new]
    assert "No job matches the filter" in text_of(root.get(queue_url(jobs.name, "?q=JOB9zz")))


@pytest.mark.smoke
def test_a_refused_connection_is_a_page_with_a_message(jobs: Jobs, root: Client) -> None:
    with with_server(f"redis://127.0.0.1:{free_port()}/0", "emails", "reports"):
        for url in (overview_url(), queue_url("emails"), job_url("emails", mint.one())):
            started = time.perf_counter()
            answer = root.get(url)
            took_s = time.perf_counter() - started

            assert answer.status_code == 200
            assert "The server did not answer." in text_of(answer)
            assert line_or_nothing(text_of(answer)) == []
            assert took_s < 1


def line_or_nothing(page: str) -> list[str]:
    return re.findall(r'<td class="emq-number[^"]*">(\d+)', page) + re.findall(r"<dd>(\d+)", page)


def test_a_silent_server_holds_no_page_for_three_seconds(proxy: Proxy, root: Client) -> None:
    proxy.mode = "blackhole"
    with with_server(f"redis://127.0.0.1:{proxy.port}/0", "emails", "reports"):
        for url in (overview_url(), queue_url("emails"), job_url("emails", mint.one())):
            started = time.perf_counter()
            answer = root.get(url)
            took_s = time.perf_counter() - started

            assert answer.status_code == 200
            assert "The server did not answer." in text_of(answer)
            assert took_s < 3


def test_the_server_comes_back_and_so_do_the_figures(
    proxy: Proxy, jobs: Jobs, root: Client
) -> None:
    jobs.add()
    with with_server(f"redis://127.0.0.1:{proxy.port}/0", jobs.name):
        assert line_of(text_of(root.get(overview_url())), jobs.name)[0] == "1"
        proxy.mode = "close"
        assert "The server did not answer." in text_of(root.get(overview_url()))
        proxy.mode = "forward"
        assert line_of(text_of(root.get(overview_url())), jobs.name)[0] == "1"


def test_a_user_who_may_not_run_scripts_is_told(jobs: Jobs, root: Client) -> None:
    jobs.redis.acl_setuser("weak", enabled=True, passwords=["+pw"], categories=["-@all"], keys="*")
    port = jobs.redis.connection_pool.connection_kwargs["port"]
    try:
        with with_server(f"redis://weak:pw@127.0.0.1:{port}/0", jobs.name):
            page = text_of(root.get(queue_url(jobs.name)))
    finally:
        jobs.redis.acl_deluser("weak")

    assert "refused the user or the command" in page
    assert "pw@" not in page


def test_a_full_server_still_shows_its_queues(
    fresh_server: Callable[..., Server], root: Client
) -> None:
    server = fresh_server()
    with with_server(server.url, "emails"), server.client() as client:
        client.config_set("maxmemory", 1)
        answer = root.get(overview_url())

    assert line_of(text_of(answer), "emails")[0] == "0"


def test_a_replica_still_shows_its_queues(
    fresh_server: Callable[..., Server], root: Client
) -> None:
    source = fresh_server("--repl-diskless-sync-delay", "0")
    replica = fresh_server()
    pending = keys("emails").pending
    with source.client() as client:
        client.zadd(pending, {mint.one(): 0})
    with replica.client() as client:
        client.replicaof("127.0.0.1", source.port)
        for _ in range(500):
            if client.exists(pending):
                break
            time.sleep(0.01)  # polls the first sync
    with with_server(replica.url, "emails"):
        page = text_of(root.get(overview_url()))

    assert line_of(page, "emails")[0] == "1"


@pytest.mark.parametrize(
    "emq",
    [{"CONNECTION": "default"}, {"CONNECTION": "absent"}, {"WIRE": 5}, {"COLOUR": "red"}],
    ids=str,
)
def test_settings_that_cannot_work_make_a_message(emq: dict[str, Any], root: Client) -> None:
    with override_settings(EMQ=emq):
        answer = root.get(overview_url())

    assert answer.status_code == 200
    assert "settings of the queue server" in text_of(answer)


def test_without_any_queue_the_overview_says_how_to_name_one(root: Client, server: Server) -> None:
    with override_settings(EMQ={**base.EMQ, "QUEUES": {}, "QUEUE_PREFIX": "nobody-"}):
        assert 'EMQ = {"QUEUES"' in text_of(root.get(overview_url()))


def test_the_overview_is_filtered_by_name(jobs: Jobs, root: Client) -> None:
    with with_queues("Emails", "reports"):
        page = text_of(root.get(overview_url() + "?q=MAIL"))
        none = text_of(root.get(overview_url() + "?q=zzz"))

    assert "<bdi>Emails</bdi>" in page
    assert "<bdi>reports</bdi>" not in page
    assert "No queue's name holds" in unescape(none)


def test_the_index_and_other_apps_never_ask_the_server(
    root: Client, monitor: Callable[[], AbstractContextManager[Recording]]
) -> None:
    with monitor() as recording:
        assert root.get("/admin/").status_code == 200
        assert root.get("/admin/auth/user/").status_code == 200

    assert list(recording.commands) == []


def test_looking_writes_nothing_and_runs_nothing_but_bounded_scripts(
    jobs: Jobs, root: Client, monitor: Callable[[], AbstractContextManager[Recording]]
) -> None:
    ids = jobs.add_many(30)
    jobs.claim(lease_ms=1)
    jobs.bury(ids[5])
    jobs.redis.zadd(jobs.keys.pending, {"JOB00000000000": 0})
    dump = {key: jobs.redis.dump(key) for key in jobs.redis.scan_iter(jobs.keys.base + b"*")}

    with monitor() as recording, with_queues(jobs.name):
        for tab in ("pending", "active", "schedule", "dead"):
            root.get(queue_url(jobs.name, f"?tab={tab}"))
        root.get(overview_url())
        root.get(job_url(jobs.name, ids[0]))

    after = {key: jobs.redis.dump(key) for key in jobs.redis.scan_iter(jobs.keys.base + b"*")}
    assert after == dump
    others = [
        command for command in recording.commands if command[0] not in {b"EVALSHA", b"SCRIPT"}
    ]
    fence, health = {(b"GET", VERSION_KEY)}, {(b"INFO", b"memory"), (b"INFO", b"persistence")}
    assert set(others) <= fence | health


def test_an_overview_of_many_queues_takes_two_trips(root: Client, proxy: Proxy, jobs: Jobs) -> None:
    names = [f"{jobs.name}-{number}" for number in range(200)]
    with with_server(f"redis://127.0.0.1:{proxy.port}/0", *names):
        root.get(overview_url())
        before = len(proxy.seen)
        started = time.process_time()
        page = text_of(root.get(overview_url()))
        took_s = time.process_time() - started

    assert page.count('class="emq-name"') == 200
    assert len(proxy.seen) - before <= 15
    assert took_s < 1


def test_a_fragment_is_the_live_part_alone(jobs: Jobs, root: Client) -> None:
    job_id = jobs.add()

    answer = root.get(queue_url(jobs.name, "?_fragment=1"))

    assert answer["X-Emq-Fragment"] == "1"
    assert job_id in text_of(answer)
    assert "<html" not in text_of(answer)
    assert "_fragment" not in text_of(answer)
    assert "no-cache" in answer["Cache-Control"]


def test_pages_hold_nothing_that_a_strict_policy_refuses(jobs: Jobs, root: Client) -> None:
    job_id = jobs.add()

    for url in (overview_url(), queue_url(jobs.name), job_url(jobs.name, job_id)):
        content = text_of(root.get(url)).split('id="content-main"')[1].split("<footer")[0]
        assert not re.search(r"<script|<style|\sstyle=|\son\w+=|javascript:", content)


def test_the_hook_of_the_project_decides_what_is_shown(
    jobs: Jobs, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, str, str, bytes]] = []

    def hook(request: Any, queue: str, job_id: str, field: str, value: bytes) -> Any:
        seen.append((queue, job_id, field, value))
        return {"shown": "as JSON"} if field == "payload" else None

    monkeypatch.setattr("emq_django.admin.render._redactor", lambda: hook)
    job_id = jobs.add(b"raw contents")
    jobs.redis.hset(jobs.keys.row(job_id), "last_error", "raw error")

    page = unescape(text_of(root.get(job_url(jobs.name, job_id))))

    assert '"shown": "as JSON"' in page
    assert "raw contents" not in page
    assert "raw error" not in page
    assert (jobs.name, job_id, "payload", b"raw contents") in seen
    assert (jobs.name, job_id, "last_error", b"raw error") in seen


def test_a_hook_that_fails_hides_the_value(
    jobs: Jobs, root: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def hook(*_: Any) -> Any:
        raise RuntimeError("hook is broken")

    monkeypatch.setattr("emq_django.admin.render._redactor", lambda: hook)
    job_id = jobs.add(b"raw contents")

    for url in (queue_url(jobs.name), job_url(jobs.name, job_id)):
        page = text_of(root.get(url))
        assert "raw contents" not in page
        assert "the redaction hook failed" in page
    assert "the redaction hook failed" in caplog.text


def test_secrets_are_masked_in_the_list_and_on_the_job_page(jobs: Jobs, root: Client) -> None:
    job_id = jobs.add(b'{"user": {"api_key": "k-123", "name": "ann"}}')
    jobs.redis.hset(jobs.keys.row(job_id), "last_error", 'Refused: {"password": "p-456"}')

    for url in (queue_url(jobs.name), job_url(jobs.name, job_id)):
        page = text_of(root.get(url))
        assert "ann" in page
        assert "k-123" not in page
        assert "p-456" not in page


def test_pages_work_in_another_language_and_from_right_to_left(jobs: Jobs, root: Client) -> None:
    jobs.add()
    with override_settings(LANGUAGE_CODE="ar", USE_THOUSAND_SEPARATOR=True):
        page = text_of(root.get(queue_url(jobs.name)))

    assert 'dir="rtl"' in page
    assert 'dir="ltr" class="emq-code"' in page


def test_rows_that_were_reaped_and_promoted_move_between_the_lists(
    jobs: Jobs, root: Client
) -> None:
    job_id = jobs.add()
    jobs.claim(lease_ms=1)
    time.sleep(0.005)  # the lease of 1 ms ends on the server's clock
    jobs.run(upkeep.reap(jobs.keys))

    page = text_of(root.get(queue_url(jobs.name)))

    assert IDS.findall(page) == [job_id]


def test_connections_of_the_admin_are_its_own(jobs: Jobs) -> None:
    assert connections.admin_wire_for(jobs.keys) is not connections.wire_for(jobs.keys)


def test_a_list_is_no_wider_than_what_it_shows(jobs: Jobs, root: Client) -> None:
    """A path may break behind its dots, and a column of errors is there where there is one."""
    payload = b'{"v":1,"task":"shop.tasks.ship","args":[],"kwargs":{}}'
    jobs.run(admission.enqueue_in(jobs.keys, mint.one(), payload, 60_000))
    url = queue_url(jobs.name, "?tab=schedule")

    page = text_of(root.get(url))
    assert "shop.<wbr>tasks.<wbr>ship<wbr>" in page
    assert "Last error" not in page

    jobs.add(b"x")
    jobs.run(settle.retry(jobs.keys, jobs.claim(), "boom", 60_000, 9))
    page = text_of(root.get(url))
    assert "Last error" in page
    assert "boom" in page
