"""`emq_queues`, `emq_health`, `emq_job` as readers: figures, hostile data, lost servers."""

from __future__ import annotations

import json
import time
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.test import override_settings

from emq_django.conf import conf
from emq_django.protocol import claim, metrics, operate, registry, workers
from emq_django.protocol.ids import first_id_at
from emq_django.protocol.workers import Busy, Facts
from tests.operating.shell import run_here
from tests.stub_server import StubServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.operating.conftest import Shop
    from tests.proxy import Proxy
    from tests.servers import Server

LANE = "USR0KHTOWnGLuC"
HOSTILE = b'\x1b]0;owned\x07\x1b[2J "\xe2\x80\xae evil \r\n\x00\xff'


@pytest.fixture
def at_work(shop: Shop) -> Iterator[Callable[..., str]]:
    """Let a worker be seen that serves the queue."""
    seen: list[str] = []

    def beat(*busy: Busy) -> str:
        name = f"w-{shop.name}-{len(seen)}"
        facts = Facts(
            incarnation=name, prefix=conf().queue_prefix, host="mill", pid=7, version="1",
            queues=(shop.name,), concurrency=4,
        )  # fmt: skip
        shop.call(workers.beat(facts, busy, 0))
        seen.append(name)
        return name

    yield beat
    for name in seen:
        shop.call(workers.gone(name))


def mine(shop: Shop, answer: Any) -> Any:
    return next(one for one in answer["queues"] if one["name"] == shop.name)


def test_all_figures_of_a_queue(shop: Shop, at_work: Callable[..., str]) -> None:
    shop.add_many(3)
    shop.add(lane=LANE)
    shop.call(claim.claim(shop.keys, 30_000))
    shop.bury(shop.add_many(2))
    worker = at_work(Busy(shop.name, "JOB00000000001"))

    outcome = shop.run("emq_queues", shop.name, "--json")

    assert (outcome.code, outcome.err) == (0, "")
    said = json.loads(outcome.out)
    figures = mine(shop, said)
    assert (figures["pending"], figures["lane_pending"], figures["active"]) == (2, 1, 1)
    assert (figures["dead"], figures["lanes"], figures["workers"]) == (2, 1, 1)
    assert figures["state"] == "running"
    (seen,) = [one for one in said["workers"] if one["incarnation"] == worker]
    assert seen["busy"] == [{"queue": shop.name, "id": "JOB00000000001"}]
    assert seen["gone"] is False
    table = shop.run("emq_queues", shop.name).out.splitlines()
    assert table[0].split()[:3] == ["queue", "state", "pending"]
    assert table[1].split()[:3] == [shop.name, "running", "2"]


def test_workers_and_what_they_counted(shop: Shop, at_work: Callable[..., str]) -> None:
    at_work(Busy(shop.name, "JOB00000000001"))
    figures = metrics.Figures(started=3, completed=2, retried=1)
    figures.run.add(50)
    shop.call(metrics.flush(shop.keys, figures))

    table = shop.run("emq_queues", shop.name, "--show", "workers").out
    (line,) = [line for line in table.splitlines() if shop.name in line]
    assert line.split()[:3] == ["mill", "7", "alive"]
    counted = shop.run("emq_queues", shop.name, "--show", "figures").out.splitlines()

    assert counted[0].startswith("queue, last hour")
    assert counted[1].split()[:6] == [shop.name, "3", "2", "1", "0", "0"]
    assert counted[1].split()[6:8] == ["65", "ms"]


def test_a_queue_that_only_the_server_knows_is_listed(shop: Shop) -> None:
    shop.env = {"EMQ_TEST_QUEUES": "{}"}
    shop.call(registry.register(shop.keys.wire_name))

    assert shop.name in shop.run("emq_queues").out


def test_a_queue_that_cannot_be_read_is_said_and_hides_no_other(shop: Shop) -> None:
    shop.redis.set(shop.keys.pending, "a string")
    shop.env = {"EMQ_TEST_QUEUES": json.dumps({shop.name: {}, f"{shop.name}-b": {}})}

    outcome = shop.run("emq_queues")

    assert outcome.code == 2
    assert "unreadable" in outcome.out
    assert f"{shop.name}-b" in outcome.out
    assert "emq_doctor" in outcome.out
    assert "Traceback" not in outcome.text


def test_health_of_a_queue_at_work(shop: Shop, at_work: Callable[..., str]) -> None:
    shop.add(job_id=first_id_at(int(time.time() * 1_000) - 50_000))
    at_work()

    assert shop.run("emq_health", shop.name).code == 0
    late = shop.run("emq_health", shop.name, "--max-pending", "20")

    assert late.code == 1
    assert "1 pending, the oldest for 50 s" in late.out


def test_fresh_jobs_without_a_worker_are_said_before_they_are_late(
    shop: Shop, at_work: Callable[..., str]
) -> None:
    shop.add()

    fresh = shop.run("emq_health", shop.name)
    said = json.loads(shop.run("emq_health", shop.name, "--json").out)
    late = shop.run("emq_health", shop.name, "--max-unserved", "0.000001")
    nobody_asks = shop.run("emq_health", shop.name, "--no-workers")
    at_work()
    served = shop.run("emq_health", shop.name)

    remedy = "0 workers: start one (manage.py emq_worker)"
    assert (fresh.code, fresh.out.splitlines()[0]) == (0, "ok")
    assert remedy in fresh.out
    assert [one["serious"] for one in said["findings"]] == [False]
    assert (late.code, remedy in late.out) == (1, True)
    assert (nobody_asks.code, remedy in nobody_asks.out) == (0, False)
    assert (served.code, remedy in served.out) == (0, False)


def test_a_worker_that_missed_its_beats_serves_nobody(
    shop: Shop, at_work: Callable[..., str]
) -> None:
    shop.add(job_id=first_id_at(int(time.time() * 1_000) - 50_000))
    worker = at_work()
    shop.redis.zincrby(workers.WORKERS_KEY, -60_000, worker)

    outcome = shop.run("emq_health", shop.name)

    assert outcome.code == 1
    assert "0 workers" in outcome.out
    assert shop.run("emq_health", shop.name, "--no-workers").code == 0


def test_a_paused_queue_is_what_somebody_wanted(shop: Shop) -> None:
    shop.add(job_id=first_id_at(1))
    shop.call(operate.pause(shop.keys))

    assert shop.run("emq_health", shop.name).code == 0


@pytest.mark.parametrize("every", ["0", "-1", "nan", "inf", "often"])
def test_a_pause_that_is_none_is_refused(shop: Shop, every: str) -> None:
    outcome = shop.run("emq_queues", shop.name, f"--watch={every}")

    assert (outcome.code, outcome.out) == (2, "")
    assert f"argument --watch: '{every}': give seconds, 0.1 or more" in outcome.err


@pytest.mark.parametrize("option", ["--max-pending", "--max-expired", "--max-unserved"])
@pytest.mark.parametrize("age", ["nan", "inf", "-1", "old"])
def test_an_age_that_is_none_is_refused(shop: Shop, option: str, age: str) -> None:
    outcome = shop.run("emq_health", shop.name, f"{option}={age}")

    assert (outcome.code, outcome.out) == (2, "")
    assert f"argument {option}: '{age}': give seconds, 0 or more" in outcome.err


def test_a_mistyped_name_is_not_well(shop: Shop) -> None:
    shop.add()
    mistyped = f"{shop.name}x"

    outcome = shop.run("emq_health", shop.name, mistyped)

    assert outcome.code == 1
    assert f"such a queue. Did you mean {shop.name!r}?" in outcome.out
    assert "0 workers: start one" in outcome.out
    assert "2 queues, " in outcome.out  # and the workers of other tests, for as long as they count
    assert shop.run("emq_health", mistyped, "--no-workers").code == 0
    looked = shop.run("emq_queues", mistyped)
    assert looked.code == 1
    assert looked.err.endswith(f"not found: {mistyped}\n")
    assert "neither the settings nor the server" in shop.run("emq_doctor", mistyped).out
    paused = shop.run("emq_queue", mistyped, "pause")
    assert (paused.code, paused.out) == (0, f"{mistyped}: paused\n")
    assert paused.err.startswith(f"note: {mistyped}: neither the settings nor the server")
    assert shop.run("emq_queue", mistyped, "resume").out == f"{mistyped}: running\n"
    assert f"{mistyped}: neither the settings nor the server name such a queue." in looked.out


@pytest.mark.parametrize("show", ["queues", "workers", "figures"])
def test_a_name_that_nobody_knows_has_no_row(shop: Shop, show: str) -> None:
    shop.add()
    mistyped = f"{shop.name}x"

    alone = shop.run("emq_queues", mistyped, "--show", show)
    both = shop.run("emq_queues", mistyped, shop.name, "--show", show)

    for outcome in (alone, both):
        assert (outcome.code, outcome.out.count(mistyped)) == (1, 1)
        assert f"{mistyped}: neither the settings nor the server" in outcome.out
    assert "running" not in alone.out
    (said,) = json.loads(shop.run("emq_queues", mistyped, "--json").out)["queues"]
    assert (said["name"], "state" in said) == (mistyped, False)
    assert said["error"].startswith(f"{mistyped}: neither the settings nor the server")
    shop.run("emq_queue", mistyped, "pause")
    assert f"{mistyped}  paused" in shop.run("emq_queues", mistyped).out
    shop.run("emq_queue", mistyped, "resume")


def test_a_queue_of_tasks_or_of_the_server_alone_is_no_mistake(shop: Shop) -> None:
    tasks = {"default": {"BACKEND": "emq_django.task_backend.EmqBackend", "QUEUES": ["letters"]}}
    with override_settings(TASKS=tasks):
        assert shop.run("emq_health", "letters").code == 0
    shop.add()
    with override_settings(EMQ={**settings.EMQ, "QUEUES": {}}):
        assert run_here("emq_health", shop.name).code == 0
        shop.call(registry.register(shop.keys.wire_name))
        near = run_here("emq_health", f"{shop.name}x").out
    assert f"Did you mean {shop.name!r}?" in near


@pytest.mark.parametrize(("due_ms_ago", "code"), [(60_000, 1), (-60_000, 0), (1_000, 0)])
def test_scheduled_jobs_want_a_worker_when_they_are_due(
    shop: Shop, due_ms_ago: int, code: int
) -> None:
    seconds, micros = shop.redis.time()
    now_ms = seconds * 1_000 + micros // 1_000
    job_id = shop.add()
    shop.redis.zrem(shop.keys.pending, job_id)
    shop.redis.zadd(shop.keys.schedule, {job_id: now_ms - due_ms_ago})

    assert shop.run("emq_health", shop.name).code == code


def test_a_probe_is_cheap(shop: Shop, monitor: Callable[[], Any]) -> None:
    shop.run("emq_health", shop.name)  # scripts are loaded
    with monitor() as recording:
        shop.run("emq_health", shop.name)

    assert len(recording.commands) <= 8, recording.commands  # three scripts loaded, once


def test_a_job_is_shown_and_its_secrets_are_not(shop: Shop) -> None:
    job_id = shop.add(b'{"to": "ann", "password": "sesame"}', lane=LANE)

    outcome = shop.run("emq_job", job_id)

    assert outcome.code == 0
    assert "pending in its lane" in outcome.out
    assert '"to": "ann"' in outcome.out
    assert "sesame" not in outcome.out
    said = json.loads(shop.run("emq_job", job_id, "--json").out)
    assert said["queue"] == shop.name
    assert said["fields"]["group"] == LANE
    assert "sesame" not in json.dumps(said)
    assert shop.run("emq_job", f"{shop.name}:{job_id}").code == 0
    raw = shop.run("emq_job", job_id, "--queue", shop.name, "--raw")
    assert raw.out == '{"to": "ann", "password": "sesame"}'


def test_raw_bytes_that_are_not_there_are_not_an_empty_payload(shop: Shop) -> None:
    ended, empty = shop.add(), shop.add(b"")
    shop.redis.hdel(shop.keys.row(ended), "payload")

    lost = shop.run("emq_job", ended, "--queue", shop.name, "--raw")
    assert (lost.code, lost.out) == (1, "")
    assert f"{ended}: it is pending and has no payload" in lost.err
    none = shop.run("emq_job", empty, "--queue", shop.name, "--raw")
    assert (none.code, none.out, none.err) == (0, "", "")


@pytest.mark.parametrize("action", ["--cancel", "--remove"])
def test_a_payload_can_not_be_asked_for_beside_what_may_end_it(shop: Shop, action: str) -> None:
    job_id = shop.add(b"precious")

    outcome = shop.run("emq_job", job_id, "--raw", action)

    assert (outcome.code, outcome.out) == (2, "")
    assert "not allowed with" in outcome.err
    assert shop.redis.exists(shop.keys.row(job_id))


@pytest.mark.parametrize("job_id", ["", " "])
def test_an_empty_id_is_no_job_that_is_missing(shop: Shop, job_id: str) -> None:
    outcome = shop.run("emq_job", job_id)

    assert outcome.code == 2
    assert "the ID is empty: give a job's id" in outcome.err


@pytest.mark.parametrize("payload", [HOSTILE, HOSTILE.replace(b"\xff", b""), b"\x9b31m" * 9])
def test_hostile_bytes_can_not_reach_a_terminal(shop: Shop, payload: bytes) -> None:
    job_id = shop.add(payload)
    row = shop.keys.row(job_id)
    shop.redis.hset(row, mapping={"last_error": HOSTILE, "state": HOSTILE, HOSTILE: HOSTILE})

    for arguments in (("emq_job", job_id), ("emq_job", job_id, "--json")):
        outcome = shop.run(*arguments)

        assert outcome.code == 0
        assert all(char == "\n" or char.isprintable() for char in outcome.out), outcome.out
        assert "\u202e" not in outcome.out


def test_a_huge_payload_is_said_by_its_size(shop: Shop) -> None:
    job_id = shop.add(b"x" * 5_000_000)

    outcome = shop.run("emq_job", job_id)

    assert "payload (5,000,000 bytes)" in outcome.out
    assert len(outcome.out) < 2_000


def test_c166_a_payload_that_would_run_code_is_only_shown(shop: Shop, tmp_path: Any) -> None:
    mark = tmp_path / "mark"
    payloads = [
        b"cos\nsystem\n(S'touch %b'\ntR." % str(mark).encode(),
        b"!!python/object/apply:os.system ['touch %b']" % str(mark).encode(),
        json.dumps({"py/object": "os.system", "args": [f"touch {mark}"]}).encode(),
    ]
    for payload in payloads:
        job_id = shop.add(payload)
        assert shop.run("emq_job", job_id).code == 0
        assert shop.run("emq_job", job_id, "--json").code == 0

    assert not mark.exists()


def test_an_unknown_job_is_said_so(shop: Shop) -> None:
    for arguments in ((), ("--queue", shop.name)):
        outcome = shop.run("emq_job", "JOB00000000009", *arguments)

        assert (outcome.code, outcome.out) == (1, "")
        assert "JOB00000000009 is not in" in outcome.err
        assert outcome.err.count("\n") == 1


def test_an_id_that_names_another_queue_than_the_option_is_said_so(shop: Shop) -> None:
    job_id = shop.add()

    outcome = shop.run("emq_job", "--queue", f"{shop.name}x", f"{shop.name}:{job_id}")

    assert (outcome.code, outcome.out) == (2, "")
    name = shop.name
    assert f"--queue {name}x and {name}:{job_id}, which is of {name}, " in outcome.err
    assert "contradict each other: leave --queue away" in outcome.err
    assert shop.run("emq_job", "--queue", shop.name, f"{shop.name}:{job_id}").code == 0


COMMANDS = [
    ("emq_queues", "--show", "workers"), ("emq_queues", "--show", "figures"),
    ("emq_queues",), ("emq_queues", "--json"), ("emq_health",), ("emq_health", "--json"),
    ("emq_job", "JOB00000000009"), ("emq_enqueue", "default", "x"), ("emq_doctor",),
    ("emq_queue", "default", "pause"), ("emq_queue", "default", "retry-dead"),
    ("emq_queue", "default", "drain", "--yes"), ("emq_queue", "default", "obliterate", "--yes"),
]  # fmt: skip


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_server_that_is_down_is_one_line_that_says_what_to_do(arguments: tuple[str, ...]) -> None:
    with override_settings(EMQ={"CONNECTION": "redis://u:sesame@127.0.0.1:1/0"}):
        outcome = run_here(*arguments)

    assert outcome.code == 2
    assert "redis://127.0.0.1:1/0" in outcome.text
    assert "Traceback" not in outcome.text
    assert "sesame" not in outcome.text
    assert outcome.err.count("\n") <= 1
    assert "start it, or correct EMQ[" in outcome.text
    assert "no worker has been seen" not in outcome.text, "nobody knows"


def test_what_answers_but_is_no_such_server_need_not_be_started(server: Server) -> None:
    answers = repeat(b"<html>400 Bad Request</html>\r\n")
    with StubServer(answers) as web:
        other = f"redis://127.0.0.1:{web.port}/0"
        with override_settings(EMQ={"CONNECTION": other}):
            of_another_kind = run_here("emq_queues")
    no_database = f"redis://127.0.0.1:{server.port}/4711"
    with override_settings(EMQ={"CONNECTION": no_database}):
        without_database = run_here("emq_queues")

    for outcome in (of_another_kind, without_database):
        assert outcome.code == 2
        assert ' - correct EMQ["CONNECTION"]\n' in outcome.text
        assert "start it" not in outcome.text
    assert "what answers is no Redis or Valkey" in of_another_kind.text
    assert "the server has no such database: DB index is out of range" in without_database.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("emq_queues",), ("emq_health",), ("emq_job", "JOB00000000009")], ids=" ".join
)
def test_a_server_that_is_silent_is_waited_for_3_s(
    proxy: Proxy, arguments: tuple[str, ...]
) -> None:
    proxy.mode = "blackhole"
    with override_settings(EMQ={"CONNECTION": proxy.url}):
        began_s = time.monotonic()
        outcome = run_here(*arguments)
        took_s = time.monotonic() - began_s

    assert outcome.code == 2
    assert took_s < 5
    assert "Traceback" not in outcome.text
