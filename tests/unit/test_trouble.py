"""When a worker says that its server is in trouble, and when that it works again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from emq_django.errors import ReplyLost, ServerFull, ServerReadOnly, Unreachable, WrongAddress
from emq_django.worker.link import Trouble

if TYPE_CHECKING:
    from emq_django.errors import WireError


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
def _every_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "emq_django.worker")


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_an_answer_ends_the_trouble(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble("here", clock)
    trouble.failed(Unreachable("no connection: refused."))
    clock.now_s = 3
    trouble.answered()
    trouble.answered()

    gone, back = said(caplog)
    assert gone.startswith("server here in trouble: Unreachable: no connection: refused - no job")
    assert gone.endswith('until it answers: start it, or correct EMQ["CONNECTION"]')
    assert back == "server here works again, after 3.0 s"


@pytest.mark.parametrize("exc", [ServerReadOnly("READONLY"), ServerFull("OOM")])
def test_reads_that_are_answered_do_not_end_the_refusal_of_writes(
    exc: WireError, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    trouble = Trouble("here", clock)
    for clock.now_s in range(30):
        trouble.failed(exc)
        trouble.answered()
    refused = said(caplog)
    for clock.now_s in range(30, 60):
        trouble.answered()

    assert ["in trouble" in line for line in refused] == [True, True]
    assert said(caplog)[2:] == ["server here works again, after 41.0 s"]


def test_a_child_leaves_to_its_parent_what_both_see(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    trouble = Trouble("here", clock, told=True)
    trouble.failed(Unreachable("no connection"))
    trouble.failed(WrongAddress("no connection: what answers is no Redis or Valkey"))
    trouble.answered()
    assert said(caplog) == []

    trouble.failed(ReplyLost("no reply"))
    trouble.answered()
    assert ["in trouble" in line for line in said(caplog)] == [True, False]
