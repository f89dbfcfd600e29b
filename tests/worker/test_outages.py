"""A server that goes away, forgets its scripts or swallows replies costs no job."""

from __future__ import annotations

import contextlib
import signal
import time
from typing import TYPE_CHECKING

import pytest
import redis

from emq_django.conf import keys
from emq_django.protocol import scripts
from tests.worker.processes import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.proxy import Proxy
    from tests.servers import Server
    from tests.worker.processes import Bench


def _sha(name: str) -> bytes:
    return scripts.load(name).sha.encode()


def _sent(proxy: Proxy, name: str) -> int:
    return sum(_sha(name) in request for request in proxy.seen)


@pytest.mark.parametrize(
    ("order", "report", "again", "line"),
    [
        ({}, "complete_many", "complete", "completed queue="),
        ({"sleep_s": 0.05}, "complete", "complete", "completed queue="),
        ({"raise": "Retry"}, "retry", "retry", "failed queue="),
    ],
)
def test_a_report_whose_reply_is_lost_is_sent_again_and_counts_as_done(
    bench: Bench, proxy: Proxy, order: dict[str, str], report: str, again: str, line: str
) -> None:
    """A short job's end travels with others; when that goes wrong it is reported by itself."""
    bench.url = proxy.url
    job_id = bench.add(**order)
    bench.start("--concurrency", "1")
    until(lambda: not bench.counts().pending and not bench.counts().active, "a first run")
    proxy.arm("drop_reply", matching=_sha(report))
    ids = [job_id]
    while proxy.is_armed():  # a short job that took long, on a busy machine, is reported by itself
        ids.append(bench.add(**order))
        bench.workers[0].wait_for_log(f"{line}{bench.queue} id={ids[-1]}")

    # One for each job, and another one for the last.
    assert sum(_sent(proxy, one) for one in {report, again}) > len(ids)
    assert _sent(proxy, again)
    assert bench.ledger.count("start") == dict.fromkeys(ids, 1)
    assert "refused" not in bench.workers[0].log()


def test_a_take_whose_reply_is_lost_is_not_sent_again(bench: Bench, proxy: Proxy) -> None:
    bench.url = proxy.url
    worker = bench.start("--concurrency", "1")
    until(lambda: _sent(proxy, "take"), "the first, empty take")
    proxy.arm("drop_reply", matching=_sha("take"))
    job_id = bench.add()

    until(bench.empty, "the job came back and ended")

    # Long before its lease of 30 s ends, and at no cost.
    assert [(note.id, note.token) for note in bench.ledger.notes("end")] == [(job_id, 2)]
    worker.wait_for_log(f"its take's reply was lost queue={bench.queue} id={job_id} attempt=1")
    assert "works again" in worker.log()


def test_scripts_that_the_server_forgot_are_loaded_again(
    bench: Bench, redis_client: redis.Redis
) -> None:
    ids = [bench.add(sleep_s=0.002) for _ in range(1_000)]
    bench.start()

    while not bench.empty():
        redis_client.script_flush()
        time.sleep(0.05)  # the case's own beat

    assert bench.ledger.count("end") == dict.fromkeys(ids, 1)


@contextlib.contextmanager
def _frozen(server: Server) -> Iterator[None]:
    server.freeze()
    try:
        yield
    finally:
        server.thaw()


@pytest.mark.slow
def test_a_server_that_hangs_when_a_job_ends_hears_of_it_later(
    bench: Bench, fresh_server: Callable[..., Server]
) -> None:
    server = fresh_server()
    jobs = _Elsewhere(bench, server)
    gate = bench.folder / "gate"
    jobs.add(f'{{"wait_for": "{gate}"}}')
    bench.start("--concurrency", "1")
    bench.started()
    with _frozen(server):
        gate.touch()
        until(lambda: bench.ledger.notes("end"), "the handler's end")
        time.sleep(1)  # the case: the server answers nothing for a while

    until(lambda: jobs.left() == 0, "the job is gone")
    assert len(bench.ledger.notes("start")) == 1


def test_a_job_is_told_when_its_lease_could_not_be_renewed(
    bench: Bench, fresh_server: Callable[..., Server]
) -> None:
    server = fresh_server()
    jobs = _Elsewhere(bench, server)
    bench.handler, bench.settings = "tests.worker.zoo.wait_until_lost", {"LEASE_MS": 600}
    jobs.add("{}")
    bench.start("--concurrency", "1")
    bench.started()
    with _frozen(server):
        until(lambda: bench.ledger.notes("lost"), "the job is told")


@pytest.mark.slow
def test_a_server_that_restarts_when_a_job_ends_hears_of_it_later(
    bench: Bench, fresh_server: Callable[..., Server]
) -> None:
    server = fresh_server("--appendfsync", "always", appendonly=True)
    jobs = _Elsewhere(bench, server)
    gate = bench.folder / "gate"
    jobs.add(f'{{"wait_for": "{gate}"}}')
    worker = bench.start("--concurrency", "1")
    bench.started()
    server.kill()
    gate.touch()
    until(lambda: bench.ledger.notes("end"), "the handler's end")
    worker.wait_for_log("in trouble")
    server.start()

    until(lambda: jobs.left() == 0, "the job is gone")
    worker.wait_for_log("works again")
    assert len(bench.ledger.notes("start")) == 1
    for _ in range(20):
        jobs.add("{}")
    until(lambda: jobs.left() == 0, "jobs enqueued after the restart")
    assert len(bench.ledger.notes("end")) == 21


@pytest.mark.slow
def test_an_outage_longer_than_the_lease_gives_the_job_a_second_run(
    bench: Bench, fresh_server: Callable[..., Server]
) -> None:
    server = fresh_server("--appendfsync", "always", appendonly=True)
    jobs = _Elsewhere(bench, server)
    bench.settings = {"LEASE_MS": 600}
    gate = bench.folder / "gate"
    jobs.add(f'{{"wait_for": "{gate}"}}')
    worker = bench.start("--concurrency", "1")
    bench.started()
    server.kill()
    gate.touch()
    worker.wait_for_log("unreported, runs again after its lease")
    server.start()

    until(lambda: jobs.left() == 0, "the job is gone")
    assert [note.token for note in bench.ledger.notes("end")] == [1, 2]
    assert worker.log().count("unreported") == 1


@pytest.mark.slow
def test_a_server_that_is_away_is_logged_a_few_times_without_secrets(
    bench: Bench, fresh_server: Callable[..., Server]
) -> None:
    server = fresh_server("--requirepass", "s3cret")
    server.stop()
    bench.url = f"redis://:s3cret@127.0.0.1:{server.port}/0"
    worker = bench.start("--concurrency", "8")
    worker.wait_for_log("in trouble")
    time.sleep(3)  # the case: an outage, with many attempts to reach the server
    server.start()
    worker.wait_for_log("works again")
    worker.signal(signal.SIGTERM)

    assert worker.exit_code() == 0
    trouble = [line for line in worker.log().splitlines() if "in trouble" in line]
    (said,) = trouble  # by the parent, also for its child
    assert said.endswith('no job runs until it answers: start it, or correct EMQ["CONNECTION"]')
    assert f"redis://127.0.0.1:{server.port}/0" in trouble[0]
    assert " ERROR " in trouble[0]
    assert "s3cret" not in worker.log()
    assert worker.log().count("works again") <= 2


def test_a_burst_gives_up_on_a_server_that_stays_away(
    bench: Bench, fresh_server: Callable[..., Server]
) -> None:
    server = fresh_server()
    server.stop()
    bench.url = server.url

    worker = bench.start("--burst", "--grace-s", "0.5", ready=False)

    assert worker.exit_code() == 1


def test_a_broken_queue_does_not_hold_up_a_burst(bench: Bench, redis_client: redis.Redis) -> None:
    redis_client.set(keys(bench.queue).pending, b"not a set")

    worker = bench.start("--burst", "--grace-s", "0.5", ready=False)

    assert worker.exit_code() == 1
    assert "can't be served: WrongType" in worker.log()


class _Elsewhere:
    """Jobs on a server that is not the session's; its client comes back after a restart."""

    def __init__(self, bench: Bench, server: Server) -> None:
        bench.url = server.url
        self._server = server
        self._keys = keys(bench.queue)

    def add(self, payload: str) -> None:
        from emq_django.protocol.ids import mint

        job_id = mint.one()
        with self._server.client() as client:
            client.hset(
                self._keys.row(job_id),
                mapping={"state": "pending", "attempts": "0", "payload": payload},
            )
            client.zadd(self._keys.pending, {job_id: 0})

    def left(self) -> int:
        sets = (self._keys.pending, self._keys.active, self._keys.schedule, self._keys.dead)
        with self._server.client() as client:
            return sum(int(client.zcard(one)) for one in sets)
