"""A tree of processes: what is lost with one of them comes back, and what it needs is replaced."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol.claim import take
from emq_django.worker.notices import Notices
from tests.worker.processes import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from tests.worker.processes import Bench, WorkerProcess

pytestmark = pytest.mark.skipif(not Path("/proc").exists(), reason="children are found in /proc")


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def kill_child(worker: WorkerProcess, signum: signal.Signals = signal.SIGKILL) -> int:
    (pid, *_) = worker.children()
    os.kill(pid, signum)
    return pid


@contextlib.contextmanager
def halted(pid: int) -> Iterator[None]:
    """Stand in for an interpreter that is blocked: none of its threads runs."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def test_the_jobs_of_a_killed_child_run_again_long_before_their_lease_ends(bench: Bench) -> None:
    gate = bench.folder / "gate"
    ids = [bench.add(wait_for=str(gate)) for _ in range(4)]
    worker = bench.start("--concurrency", "4")
    bench.started(4)

    kill_child(worker)
    bench.started(5)

    assert [bench.field(one, "stalled") for one in ids] == ["1"] * 4
    assert worker.log().count("lost with its process, handed back") == 4
    gate.touch()  # one of them runs at a time: each may be what killed the child
    until(bench.empty, "all jobs ended")
    assert bench.ledger.count("start") == dict.fromkeys(ids, 2)
    assert all(note.token > 1 for note in bench.ledger.notes("end"))


def test_a_job_that_a_take_brought_but_the_child_never_saw_goes_back_at_no_cost(
    bench: Bench,
) -> None:
    worker = bench.start("--concurrency", "1")
    gate = bench.folder / "gate"
    running = bench.add(wait_for=str(gate))
    bench.started()
    unseen = bench.add()
    where = keys(bench.queue)
    assert wire_for(where).run(take(where, worker.incarnations()[-1], 30_000)).jobs

    kill_child(worker)

    until(lambda: "handed back queue" in worker.log(), "the unseen job is handed back")
    gate.touch()
    until(bench.empty, "all jobs ended")
    ends = {note.id: note.token for note in bench.ledger.notes("end")}
    assert ends == {running: 2, unseen: 2}
    assert f"INFO handed back queue={bench.queue} id={unseen} attempt=1" in worker.log()


def test_a_killed_child_is_replaced_and_the_others_go_on(bench: Bench) -> None:
    worker = bench.start("--processes", "2", "--concurrency", "1")
    until(lambda: len(worker.incarnations()) == 2, "both children serve")
    before = worker.children()

    kill_child(worker, signal.SIGSEGV)
    ids = [bench.add() for _ in range(20)]

    until(bench.empty, "all jobs ended")
    assert bench.ledger.count("end") == dict.fromkeys(ids, 1)
    until(lambda: len(worker.incarnations()) == 3, "another one serves")
    now = worker.children()
    assert (len(now), len({*now, *before})) == (2, 3)
    assert "ended by signal 11" in worker.log()


def test_children_end_with_a_killed_parent(bench: Bench) -> None:
    worker = bench.start("--processes", "2")
    until(lambda: len(worker.incarnations()) == 2, "both children serve")
    children = worker.children()

    worker.kill()

    until(lambda: all(map(gone, children)), "no child is left")


def test_a_lease_is_renewed_for_a_child_whose_threads_stand_still(bench: Bench) -> None:
    bench.settings = {"LEASE_MS": 600}
    gate = bench.folder / "gate"
    job_id = bench.add(wait_for=str(gate))
    worker = bench.start("--concurrency", "1")
    bench.started()
    (pid,) = worker.children()
    with halted(pid):
        row = bench.row(job_id)
        assert row is not None
        began_ms = row.now_ms
        until(lambda: _now_ms(bench, job_id) > began_ms + 2_500, "four leases would have ended")
        assert bench.held_by(job_id) == "active"

    gate.touch()
    until(bench.empty, "the job ended")
    assert [note.token for note in bench.ledger.notes("end")] == [1]
    assert "leases ended" not in worker.log()


def _now_ms(bench: Bench, job_id: str) -> int:
    row = bench.row(job_id)
    assert row is not None
    return row.now_ms


def test_a_child_that_stands_still_for_too_long_is_killed(bench: Bench) -> None:
    gate = bench.folder / "gate"
    bench.add(wait_for=str(gate))
    worker = bench.start("--concurrency", "1", "--stuck-s", "1.5")
    bench.started()
    (pid,) = worker.children()

    os.kill(pid, signal.SIGSTOP)

    bench.started(2)
    assert "its threads stood still" in worker.log()
    assert gone(pid)
    gate.touch()
    until(bench.empty, "the job ended")


def test_a_job_past_its_hard_limit_fails_and_its_neighbours_lose_nothing(bench: Bench) -> None:
    bench.settings = {"HARD_LIMIT_S": 4, "MAX_ATTEMPTS": 1}
    stuck = bench.add(wait_for=str(bench.folder / "never"))
    worker = bench.start("--concurrency", "2")
    bench.started()
    # The neighbour has the same limit, so it starts half of it later and is young at the kill.
    began_s = time.monotonic()
    until(lambda: time.monotonic() - began_s > 2, "half of the limit is over")
    gate = bench.folder / "gate"
    neighbour = bench.add(wait_for=str(gate))
    bench.started(2)

    until(lambda: bench.held_by(stuck) == "dead", "the job is dead")

    assert "HardTimeLimit: still running after 4 s" in (bench.field(stuck, "last_error") or "")
    gate.touch()
    until(bench.empty, "the neighbour ended")
    assert bench.ledger.count("end") == {neighbour: 1}
    assert "runs past its hard limit" in worker.log()


def test_a_run_that_the_hard_limit_ends_is_published(
    bench: Bench, redis_client: redis.Redis
) -> None:
    bench.settings = {"HARD_LIMIT_S": 1, "MAX_ATTEMPTS": 1, "EVENTS": True}
    client: Any = redis_client  # its pubsub has no types
    with client.pubsub() as subscription:
        subscription.subscribe(keys(bench.queue).base + b"events")
        stuck = bench.add(wait_for=str(bench.folder / "never"))
        bench.start("--concurrency", "1")
        until(lambda: bench.held_by(stuck) == "dead", "the job is dead")

        messages: list[Any] = []
        while (message := subscription.get_message(timeout=1)) is not None:
            messages.append(message["data"])

    (event,) = [json.loads(one) for one in messages if isinstance(one, bytes)]
    assert (event.pop("error").startswith("HardTimeLimit: still running"), event) == (
        True,
        {"event": "failed", "job": stuck, "state": "dead"},
    )


def test_a_child_is_replaced_after_its_share_of_jobs(bench: Bench) -> None:
    ids = [bench.add() for _ in range(10)]

    worker = bench.start("--concurrency", "1", "--max-jobs", "4")

    until(bench.empty, "all jobs ended")
    notes = bench.ledger.notes("end")
    assert Counter(note.id for note in notes) == dict.fromkeys(ids, 1)
    assert sorted(Counter(note.pid for note in notes).values()) == [2, 4, 4]
    assert "lost" not in worker.log()


def test_a_child_that_has_grown_too_large_is_replaced(bench: Bench) -> None:
    worker = bench.start("--max-memory-mb", "1")

    worker.wait_for_log("it has grown too large")

    until(lambda: len(worker.incarnations()) > 1, "another child serves")


def test_a_second_signal_hands_everything_back_at_once(bench: Bench) -> None:
    ids = [bench.add(wait_for=str(bench.folder / "never")) for _ in range(4)]
    worker = bench.start("--processes", "2", "--concurrency", "2")
    bench.started(4)
    worker.signal(signal.SIGTERM)
    worker.wait_for_log("stopping")

    worker.signal(signal.SIGTERM)

    assert worker.exit_code() == 128 + signal.SIGTERM
    assert [bench.held_by(one) for one in ids] == ["pending"] * 4
    assert [bench.field(one, "stalled") for one in ids] == [None] * 4


def test_the_health_file_says_that_the_tree_lives(bench: Bench) -> None:
    path = bench.folder / "health"
    worker = bench.start("--health-file", str(path), "--concurrency", "1")
    until(path.exists, "the file is written")
    first = json.loads(path.read_text())

    until(lambda: json.loads(path.read_text())["time"] > first["time"], "it is written again")
    assert first["pid"] == worker.process.pid
    assert first["alive"] == 1
    worker.signal(signal.SIGTERM)
    assert worker.exit_code() == 0
    assert not path.exists()


def test_a_health_file_that_cannot_be_written_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    notices = Notices(str(folder / "health"), {})

    def tick() -> int:
        notices._next_at_s = 0.0
        notices.tick(dict)
        return caplog.text.count("the health file can't be written")

    assert tick() == 0
    shutil.rmtree(folder)
    assert [tick(), tick()] == [1, 1]
    folder.mkdir()
    assert tick() == 1
    shutil.rmtree(folder)
    assert tick() == 2


def test_a_title_does_not_hide_how_many_threads_a_process_has(bench: Bench) -> None:
    """Python reads the number at each fork, as the twentieth word of a line with the name in it."""
    pytest.importorskip("setproctitle")
    worker = bench.start("--concurrency", "1")
    line = Path(f"/proc/{worker.process.pid}/stat")

    until(lambda: "emq_worker" in line.read_text(), "it has its title")

    assert len(line.read_text().split(")")[0].split()) == 2


def test_systemd_hears_that_the_tree_is_ready_lives_and_stops(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address := str(bench.folder / "s"))
        systemd.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        monkeypatch.setenv("WATCHDOG_USEC", "1000000")
        worker = bench.start()
        said = [systemd.recv(100) for _ in range(3)]
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == 0
        while b"STOPPING=1" not in said:
            said.append(systemd.recv(100))

    assert said[:2] == [b"READY=1", b"WATCHDOG=1"]


def test_everything_in_one_process(bench: Bench) -> None:
    worker = bench.start("--processes", "0")
    ids = [bench.add() for _ in range(20)]

    until(bench.empty, "all jobs ended")

    assert {note.pid for note in bench.ledger.notes("end")} == {worker.process.pid}
    assert bench.ledger.count("end") == dict.fromkeys(ids, 1)
    assert not worker.children()


def test_nothing_waits_for_a_server_that_hangs_at_the_second_signal(bench: Bench) -> None:
    job_id = bench.add(wait_for=str(bench.folder / "never"))
    worker = bench.start("--processes", "0", "--concurrency", "1")
    bench.started()
    worker.signal(signal.SIGINT)
    worker.wait_for_log("stopping")

    worker.signal(signal.SIGINT)

    assert worker.exit_code() == 128 + signal.SIGINT
    assert bench.held_by(job_id) == "pending"
