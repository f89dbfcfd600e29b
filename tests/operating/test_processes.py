"""The commands as processes: a terminal in front, pipes, signals, an odd encoding."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from tests.operating import shell

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.operating.conftest import Shop
    from tests.operating.shell import Terminal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def test_on_a_terminal_the_table_fits_and_is_coloured(
    shop: Shop, terminal: Callable[..., Terminal]
) -> None:
    shop.add()
    shop.bury([shop.add()])

    code, seen = terminal("emq_queues", shop.name, columns=60).end()

    assert code == 0
    assert "\x1b[33m1\x1b[0m" in seen  # a dead job
    plain = seen.replace("\x1b[33m", "").replace("\x1b[31m", "").replace("\x1b[2m", "")
    assert all(len(line) <= 60 for line in plain.replace("\x1b[0m", "").splitlines())
    assert "\x1b" not in terminal("emq_queues", shop.name, NO_COLOR="1").end()[1]
    assert "\x1b" not in terminal("emq_job", "JOB00000000009", NO_COLOR="1").end()[1]


def test_watching_draws_again_in_place_until_ctrl_c(
    shop: Shop, terminal: Callable[..., Terminal]
) -> None:
    watching = terminal("emq_queues", shop.name, "--watch", "0.2")
    watching.wait_for("\x1b[J")
    shop.add_many(77)

    watching.wait_for(" 77 ")  # with its blanks: the queue's name may hold the digits
    watching.interrupt()

    code, seen = watching.end()
    assert code == 130
    assert seen.count("\x1b[H") >= 2
    assert "Traceback" not in seen


def test_watching_through_a_pipe_is_lines_of_json(shop: Shop) -> None:
    process = shell.start("emq_queues", shop.name, "--watch", "0.2", "--json", env=shop.env)
    assert process.stdout is not None
    try:
        lines = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=shell.DEADLINE_S)
    finally:
        process.kill()

    assert [line["queues"][0]["name"] for line in lines] == [shop.name] * 3
    assert (process.returncode, err) == (130, b"")


def test_the_name_is_typed_and_a_bar_shows_how_far_it_is(
    shop: Shop, terminal: Callable[..., Terminal]
) -> None:
    shop.add_many(3_000)
    wrong = terminal("emq_queue", shop.name, "obliterate")
    wrong.wait_for("to go on: ")
    wrong.type("yes\n")
    assert wrong.end()[0] == 1
    assert shop.counts().pending == 3_000
    right = terminal("emq_queue", shop.name, "obliterate")
    right.wait_for("to go on: ")
    right.type(f"{shop.name}\n")

    code, seen = right.end()

    assert code == 0
    assert " of 3,000 [" in seen
    assert f"{shop.name}: the queue is gone, 3,000 jobs with it" in seen
    assert shop.left() == []


def test_an_encoding_that_can_not_say_it_is_no_traceback(shop: Shop) -> None:
    job_id = shop.add("é 日本".encode())

    outcome = shop.process("emq_job", job_id, PYTHONIOENCODING="ascii", PYTHONUTF8="0")

    assert outcome.code == 0
    assert "\\xe9 \\u65e5\\u672c" in outcome.out


def test_a_reader_that_has_seen_enough_is_no_error(shop: Shop) -> None:
    process = shell.start("emq_queues", shop.name, "--watch", "0.1", "--json", env=shop.env)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        process.stdout.readline()
        process.stdout.close()
        code = process.wait(shell.DEADLINE_S)
        err = process.stderr.read()
        process.stderr.close()
    finally:
        process.kill()
        if process.stdin:
            process.stdin.close()

    assert (code, err) == (0, b"")


def test_a_server_that_is_down_ends_every_process_in_one_line(shop: Shop) -> None:
    outcome = shop.process("emq_health", EMQ_TEST_WORKER_URL="redis://127.0.0.1:1/0")

    assert outcome.code == 2
    assert outcome.err == ""
    assert "unknown" in outcome.out
    assert "Traceback" not in outcome.out
