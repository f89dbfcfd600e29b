"""C114: after a fork nobody reads another process's replies."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.servers import Server

# As a preloading web server does: the application is loaded and used in the parent, then it forks,
# and parent and children go on at once. Children leave in both ways: with and without closing.
SCRIPT = """
import os, sys, threading
import django
django.setup()
from emq_django import claim, complete, enqueue
from emq_django.conf import keys
from emq_django.connections import close_all, wire_for

base, children, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def work(name):
    for number in range(rounds):
        payload = f"{name}-{number}".encode()
        receipt = enqueue(name, payload)
        job = claim(name)
        assert (job.id, job.payload) == (receipt.id, payload), (job, receipt, payload)
        assert complete(job).value == "completed"

def in_threads(name):
    failed = []
    def run(part):
        try:
            work(f"{name}-{part}")
        except BaseException as exc:
            failed.append(exc)
            raise
    threads = [threading.Thread(target=run, args=(part,)) for part in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed

def client_id(name):
    return wire_for(keys(name)).client.execute(("CLIENT", "ID"), b"")

work(base)
in_threads(base)
mine = client_id(base)
pids = []
for child in range(children):
    pid = os.fork()
    if pid == 0:
        try:
            assert client_id(base) != mine
            in_threads(f"{base}-child{child}")
            if child % 2:
                close_all()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    pids.append(pid)
work(f"{base}-parent")
failed = 0
for pid in pids:
    failed += os.waitpid(pid, 0)[1] != 0
    work(f"{base}-after")
assert client_id(base) == mine
sys.exit(failed)
"""


def run(server: Server, queue: str, children: int, rounds: int) -> None:
    # Forking with threads alive would warn; the threads of this script have ended by then.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, queue, str(children), str(rounds)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_c114_parent_and_children_keep_their_replies_apart(server: Server, queue: str) -> None:
    run(server, queue, children=4, rounds=150)


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_c114_in_full_two_thousand_pairs_each(server: Server, queue: str) -> None:
    run(server, queue, children=4, rounds=2_000)


@pytest.mark.slow
def test_c114_a_fork_while_another_thread_builds_the_client_does_not_hang(
    server: Server, queue: str
) -> None:
    code = """
import os, sys, threading
import django
django.setup()
import emq_django.connections as c
from emq_django import enqueue

with c._lock:  # as a thread does that is just building the client
    pid = os.fork()
    if pid == 0:
        enqueue(sys.argv[1], b"x")
        os._exit(0)
sys.exit(os.waitpid(pid, 0)[1])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, queue],
        timeout=30,
        check=False,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
    )
    assert done.returncode == 0
