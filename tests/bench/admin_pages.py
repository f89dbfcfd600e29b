"""What the admin's pages cost on a million jobs, and "retry all" on 100,000 dead ones.

    python -m tests.bench.admin_pages [jobs [dead]]
    RIVAL_PYTHON=/path/to/python python -m tests.bench.admin_pages

With RIVAL_PYTHON, an interpreter that has django-rq, the same number of jobs is put into its queue
on a server of its own, its pages are asked for in the same way, and the ratios are printed. A page
is timed from request to response in one process, without a network. Beside the median stand the
best round and the processor's time, which tell more on a busy machine; so does the processor's time
of the server in a script, which is read from the kernel around each of some hundred.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django

from tests.servers import start_server

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUE = "bench"
LANE = "USR0123456789a"
ROUNDS = 30
RIVALS_PAGE = 100  # jobs on a page of django-rq
# Rows and members as an enqueue leaves them, made on the server: that is quicker.
FILL = """
local base, set, state, first = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
for i = 4, #ARGV do
  redis.call('HSET', base .. 'job:' .. ARGV[i], 'state', state, 'attempts', first, 'payload',
    '{"v":1,"task":"shop.tasks.ship","args":[' .. i .. '],"kwargs":{}}')
  if state == 'dead' then
    redis.call('HSET', base .. 'job:' .. ARGV[i], 'last_error', 'ValueError: no such user', 'failures', '5')
  end
  redis.call('ZADD', base .. set, 0, ARGV[i])
end
"""  # noqa: E501


def main(jobs: int = 1_000_000, dead: int = 100_000) -> None:
    server = start_server()
    os.environ["EMQ_TEST_URL"] = server.url
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    from django.conf import settings
    from django.test.utils import override_settings, setup_databases, setup_test_environment

    from emq_django.conf import conf

    setup_test_environment()
    databases = setup_databases(0, False, keepdb=True)
    client, redis = _signed_in(), server.client()
    redis.config_set("slowlog-max-len", 100_000)
    ids = _fill(redis, "pending", "pending", "0", jobs)
    before_mb = _rss_mb()
    for size in (conf().admin.page_size, RIVALS_PAGE):
        with override_settings(EMQ={**settings.EMQ, "ADMIN": {"PAGE_SIZE": size}}):
            found = _pages(client, redis, ids, size)
        _say(f"{jobs:,} pending, pages of {size} jobs, median of {ROUNDS}")
        for name, times in found.items():
            _say(f"  {name:<8} {_in_words(times)}")
    _say(f"  memory of the process grew by {_rss_mb() - before_mb:.1f} MB")
    redis.rename(_key("pending"), _key(f"g:{LANE}:pending"))
    redis.rpush(_key("ring"), LANE)
    _say(f"the same {jobs:,} jobs in one lane")
    for name, times in _pages(client, redis, ids, conf().admin.page_size, LANE).items():
        _say(f"  {name:<8} {_in_words(times)}")
    _rival(jobs, found)
    _retry_all(client, redis, dead)
    _scripts(redis, redis.info("server")["process_id"])
    from django.test.utils import teardown_databases

    teardown_databases(databases, 0, keepdb=True)
    server.close()


def _signed_in() -> Any:
    from django.contrib.auth.models import User
    from django.test import Client

    user, _ = User.objects.get_or_create(username="bench", is_staff=True, is_superuser=True)
    client = Client()
    client.force_login(user)
    return client


def _fill(redis: Any, which: str, state: str, attempts: str, count: int) -> list[str]:
    from emq_django.conf import keys
    from emq_django.protocol.ids import mint

    script, base, ids = redis.register_script(FILL), keys(QUEUE).base, mint.many(count)
    for start in range(0, count, 5_000):
        script(keys=[base], args=[which, state, attempts, *ids[start : start + 5_000]])
    return ids


def _pages(
    client: Any, redis: Any, ids: list[str], size: int, lane: str = ""
) -> dict[str, list[float]]:
    from emq_django.admin.links import Links

    url = f"{Links('admin').queue(QUEUE)}?lane={lane}"
    places = {
        "first": url,
        "middle": f"{url}&after={ids[len(ids) // 2]}",
        "last": f"{url}&after={ids[-1 - size]}",
    }
    if lane:
        places["lanes"] = f"{Links('admin').queue(QUEUE)}?tab=lanes"
    return {name: _measure(redis, partial(client.get, at)) for name, at in places.items()}


def _measure(redis: Any, ask: Callable[[], Any]) -> list[float]:
    """Return ms of a page: median and best by the clock, Python's processor, and the server's."""
    clock: list[float] = []
    server: list[float] = []
    for number in range(ROUNDS + 2):
        if number == 2:  # the first ones fill caches
            clock.clear()
            server.clear()
            python_s = time.process_time()
        spent = _spent_us(redis)
        began = time.perf_counter()
        answer = ask()
        clock.append((time.perf_counter() - began) * 1_000)
        server.append((_spent_us(redis) - spent) / 1_000)
        assert answer.status_code == 200, answer.status_code
    python_ms = (time.process_time() - python_s) * 1_000 / ROUNDS
    return [statistics.median(clock), min(clock), python_ms, statistics.median(server), min(server)]


def _in_words(times: list[float]) -> str:
    page, best, python, server, server_best = times
    spent = f"{page:6.1f} ms, at best {best:5.1f}, processor {python:5.1f}"
    return f"{spent}; of it in Redis {server:5.2f}, at best {server_best:5.2f}"


def _spent_us(redis: Any) -> float:
    """The server's time so far in scripts, which are all that a page sends."""
    return float(redis.info("commandstats")["cmdstat_evalsha"]["usec"])


def _server_cpu_s(redis: Any) -> float:
    cpu = redis.info("cpu")
    return float(cpu["used_cpu_user"] + cpu["used_cpu_sys"])


def _rss_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _retry_all(client: Any, redis: Any, dead: int) -> None:
    from django.contrib.admin.models import LogEntry

    from emq_django.admin import bulk
    from emq_django.admin.links import Links
    from emq_django.admin.tokens import once_token

    redis.flushdb(asynchronous=True)  # a million rows take longer than a client waits
    _fill(redis, "dead", "dead", "5", dead)
    url = f"{Links('admin').queue(QUEUE)}?tab=dead"
    LogEntry.objects.all().delete()
    redis.config_set("slowlog-log-slower-than", 500)
    redis.slowlog_reset()
    cpu_s, server_s, began, requests = (
        time.process_time(),
        _server_cpu_s(redis),
        time.perf_counter(),
        1,
    )
    answer = client.post(url, {"action": "retry_all", "confirmed": "1", "once": once_token()})
    while "/walk/" in answer["Location"]:
        state = answer["Location"]
        answer = client.post(state.split("?")[0], {"state": _state_of(state), "continue": "1"})
        requests += 1
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_s
    server_s = _server_cpu_s(redis) - server_s
    slow = sorted(one["duration"] / 1_000 for one in redis.slowlog_get(100_000))
    redis.config_set("slowlog-log-slower-than", -1)
    left, entries = redis.zcard(_key("dead")), LogEntry.objects.count()
    _say(f"retry all of {dead:,} dead jobs")
    _say(f"  {took_s:.2f} s by the clock in {requests} requests; processor {cpu_s:.2f} s here,")
    _say(f"  {server_s:.2f} s in Redis; {entries} entry in the log")
    if slow:
        over = sum(one > 5 for one in slow)
        _say(f"  scripts: median {statistics.median(slow):.1f} ms, longest {slow[-1]:.1f} ms,")
        scripts = dead // bulk.PER_SCRIPT
        _say(f"  {over} of {scripts} above 5 ms by the clock (those under 0.5 ms not counted)")
    assert left == 0, left


def _scripts(redis: Any, pid: int, count: int = 300) -> None:
    """Retry jobs as a walk does, one script at a time, and read what each took of the processor."""
    from emq_django.admin import bulk
    from emq_django.conf import keys
    from emq_django.connections import admin_wire_for
    from emq_django.protocol import operate

    queue, size = keys(QUEUE), bulk.PER_SCRIPT
    ids = _fill(redis, "dead", "dead", "5", count * size)
    spent: list[float] = []
    for start in range(0, len(ids), size):
        before = _on_processor_ns(pid)
        admin_wire_for(queue).run(operate.reprocess(queue, ids[start : start + size]))
        spent.append((_on_processor_ns(pid) - before) / 1_000_000)
    spent.sort()
    _say(f"scripts that retry {size} jobs, by the server's processor")
    _say(f"  median {statistics.median(spent):.2f} ms, 99 % {spent[-count // 100]:.2f} ms,")
    _say(f"  longest {spent[-1]:.2f} ms")


def _on_processor_ns(pid: int) -> int:
    """Return how long the server's main thread ran so far, by the kernel's account of it."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0])


def _state_of(url: str) -> str:
    from urllib.parse import parse_qs, urlsplit

    return parse_qs(urlsplit(url).query)["state"][0]


def _key(which: str) -> bytes:
    from emq_django.conf import keys

    return keys(QUEUE).base + which.encode()


def _rival(jobs: int, ours: dict[str, list[float]]) -> None:
    python = os.environ.get("RIVAL_PYTHON")
    if not python:
        return
    server = start_server()
    script = Path(__file__).with_name("admin_pages_rq.py")
    done = subprocess.run(
        [python, str(script), str(server.port), str(jobs), str(ROUNDS)],
        check=True,
        capture_output=True,
        text=True,
    )
    server.close()
    theirs = json.loads(done.stdout.splitlines()[-1])
    _say(f"django-rq {theirs.pop('version')} on {jobs:,} queued jobs, pages of {RIVALS_PAGE} jobs")
    for name, times in theirs.items():
        clock, processor = times[0] / ours[name][0], times[2] / ours[name][2]
        _say(f"  {name:<8} {_in_words(times)}")
        _say(f"           {clock:.1f} times ours, {processor:.1f} times by processor")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
