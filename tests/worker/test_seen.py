"""What operators see of a worker: its record, its figures, its log, and what it may not do."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from emq_django.conf import conf, keys
from emq_django.connections import wire_for
from emq_django.protocol import metrics, workers
from tests.worker.processes import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from emq_django.protocol.metrics import Figures
    from emq_django.protocol.workers import WorkerSeen
    from tests.servers import Server
    from tests.worker.processes import Bench

pytestmark = pytest.mark.slow


def seen(bench: Bench, *, alive: bool = True) -> list[WorkerSeen]:
    answer = wire_for(keys(bench.queue)).run(workers.workers(conf().queue_prefix))
    mine = [one for one in answer.workers if bench.queue in one.queues]
    return [one for one in mine if one.is_gone(answer.now_ms) is not alive]


def figures(bench: Bench) -> Figures:
    return wire_for(keys(bench.queue)).run(metrics.history(keys(bench.queue), count=10)).total()


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_tree_is_one_worker_that_shows_what_it_runs_until_it_ends(
    bench: Bench, processes: str
) -> None:
    worker = bench.start("--processes", processes, "--concurrency", "3")
    until(lambda: seen(bench), "it is seen")
    (one,) = seen(bench)
    assert (one.pid, one.concurrency) == (worker.process.pid, 3)
    assert one.processes == max(int(processes), 1)
    gate = bench.folder / "gate"
    job_id = bench.add(wait_for=str(gate))

    until(lambda: job_id in {busy.id for one in seen(bench) for busy in one.busy}, "it is busy")
    gate.touch()
    until(lambda: not seen(bench)[0].busy, "it is idle")
    worker.signal(signal.SIGTERM)

    assert worker.exit_code() == 0
    assert seen(bench) == seen(bench, alive=False) == []
    assert figures(bench).completed == 1


def test_a_killed_tree_is_gone_after_three_missed_beats_and_keeps_its_record(bench: Bench) -> None:
    worker = bench.start()
    until(lambda: seen(bench), "it is seen")
    worker.kill()

    until(lambda: seen(bench, alive=False), "it is gone")
    assert seen(bench) == []


def test_figures_of_runs_that_end_well_fail_and_die(bench: Bench) -> None:
    bench.settings = {"MAX_ATTEMPTS": 2, "BACKOFF_BASE_MS": 1, "BACKOFF_CAP_MS": 1}
    bench.add()
    bench.add(**{"raise": "ValueError"})
    bench.burst("--processes", "0")

    total = figures(bench)

    assert total.completed == 1
    assert (total.started, total.retried, total.failed) == (3, 1, 1)
    assert total.run.count == 3
    assert total.wait.count == 2


def test_a_process_that_is_killed_is_counted_by_its_parent(bench: Bench) -> None:
    job_id = bench.add(wait_for=str(bench.folder / "never"))
    worker = bench.start("--processes", "1")
    bench.started()
    os.kill(bench.ledger.notes("start")[0].pid, signal.SIGKILL)

    until(lambda: bench.ledger.count("start")[job_id] == 2, "it runs again")
    until(lambda: figures(bench).lost == 1, "its loss is counted")
    worker.kill()


def test_log_json_is_an_object_per_line(bench: Bench) -> None:
    job_id = bench.add()
    worker = bench.burst("--log-json", "--processes", "0")

    lines = [json.loads(line) for line in worker.log().splitlines()]

    (done,) = [line for line in lines if line.get("event") == "completed"]
    assert (done["queue"], done["id"], done["attempt"]) == (bench.queue, job_id, 1)
    assert done["ms"] >= 0
    assert all({"time", "level", "logger"} <= line.keys() for line in lines)


@pytest.fixture
def as_user(fresh_server: Callable[..., Server]) -> Callable[..., str]:
    server = fresh_server()

    def restrict(*rules: str) -> str:
        with server.client() as client:
            client.execute_command("ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "&*", "+@all",
                                   *rules)  # fmt: skip
        return f"redis://u:p@127.0.0.1:{server.port}/0"

    return restrict


@pytest.mark.parametrize("right", ["zpopmin", "evalsha", "time"])
def test_c117_a_worker_without_a_needed_right_says_so_and_ends(
    bench: Bench, as_user: Callable[..., str], right: str
) -> None:
    bench.url = as_user(f"-{right}")

    worker = bench.start(ready=False)

    assert worker.exit_code() != 0
    assert right.split("|")[0] in worker.log().lower()
    assert "docs/reference/wire.md" in worker.log()
    assert "Traceback" not in worker.log()


def test_c117_a_worker_without_an_optional_right_works_and_warns_once(
    bench: Bench, as_user: Callable[..., str]
) -> None:
    bench.url = as_user("-publish", "-info", "-config")

    worker = bench.start()
    worker.signal(signal.SIGTERM)

    assert worker.exit_code() == 0
    assert worker.log().count("may not run PUBLISH") == 1


def test_c117_a_worker_that_may_not_be_listed_works(
    bench: Bench, as_user: Callable[..., str]
) -> None:
    bench.url = as_user("resetkeys", "~emq:*", "~{emq}:version")

    worker = bench.start()
    worker.wait_for_log("missing in the list of workers")
    worker.signal(signal.SIGTERM)

    assert worker.exit_code() == 0
    assert worker.log().count("missing in the list of workers") == 1
    assert "in trouble" not in worker.log()
