"""The keeper: fires what is due for a worker's queues, whatever its host's clock says."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.connections import wire_for
from emq_django.errors import Unreachable
from emq_django.protocol import periodic
from emq_django.task_backend.compat import task_enqueued
from emq_django.timetable.entries import entries
from emq_django.timetable.keeper import Keeper, keeper_for
from tests.timetable.conftest import tick_until

if TYPE_CHECKING:
    from tests.timetable.conftest import Table

MINUTE = 60_000


def test_a_new_entry_owes_nothing_for_the_time_before_and_fires_its_next_slot(table: Table) -> None:
    with table.of(tick={"EVERY_S": 1, "ARGS": [1], "KWARGS": {"a": "b"}}):
        keeper = table.keeper()
        keeper.tick()
        assert table.jobs() == 0

        tick_until(keeper, table.jobs)

        state = table.state("tick")
        assert state.last_ms is not None
        assert state.fired_ms is not None
        assert state.last_ms % 1_000 == 0
        assert 0 <= state.fired_ms - state.last_ms < 1_000


def test_a_broken_entry_is_logged_each_time_and_the_others_go_on(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    broken = {"EVERY_S": 1, "TASK": "tests.timetable.zoo.broken"}
    with table.of(a_broken=broken, tick={"EVERY_S": 1}, z_broken=broken):
        keeper = table.keeper()
        tick_until(keeper, lambda: table.jobs() >= 2)

    for name in ("a-broken", "z-broken"):
        lines = [one for one in caplog.records if name in one.getMessage()]
        assert len(lines) >= 2
        assert all(one.levelno == logging.ERROR and one.exc_info for one in lines)


def test_an_entry_without_a_task_is_told_and_the_others_are_kept(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    with table.of(gone={"EVERY_S": 1, "TASK": "tests.timetable.zoo.gone"}, tick={"EVERY_S": 1}):
        keeper = keeper_for([table.queue], wire_for)
        assert keeper is not None
        tick_until(keeper, table.jobs)

    assert any("gone can't be fired" in one.getMessage() for one in caplog.records)


def test_a_paused_entry_fires_nothing_until_it_is_resumed(table: Table) -> None:
    with table.of(tick={"EVERY_S": 1, "CATCH_UP": "all"}):
        keeper = table.keeper()
        keeper.tick()
        wire_for(table.keys).run(periodic.pause(table.keys, "tick"))
        last_ms = table.state("tick").last_ms or 0
        tick_until(keeper, lambda: (table.state("tick").last_ms or 0) > last_ms)
        assert table.jobs() == 0

        wire_for(table.keys).run(periodic.resume(table.keys, "tick"))
        tick_until(keeper, table.jobs)

        assert table.jobs() == 1


def test_a_job_that_still_lives_keeps_the_next_one_out(table: Table) -> None:
    with table.of(one={"EVERY_S": 1, "TASK": "tests.timetable.zoo.one_at_a_time"}):
        keeper = table.keeper()
        tick_until(keeper, table.jobs)
        first_ms = table.state("one").last_ms or 0
        tick_until(keeper, lambda: (table.state("one").last_ms or 0) > first_ms)

        assert table.jobs() == 1


def test_receivers_of_task_enqueued_hear_of_it(table: Table) -> None:
    heard: list[Any] = []

    def hear(task_result: Any, **_: Any) -> None:
        heard.append(task_result)

    task_enqueued.connect(hear)
    try:
        with table.of(tick={"EVERY_S": 1}):
            tick_until(table.keeper(), table.jobs)
    finally:
        task_enqueued.disconnect(hear)

    assert [one.id for one in heard] == [f"{table.queue}:{table.state('tick').job_id}"]


class Away:
    """A wire to a server that is away for the first few calls."""

    def __init__(self, wire: Any, failures: int) -> None:
        self._wire, self.failures = wire, failures

    def run(self, call: Any, timeout_s: float | None = None) -> Any:
        self.failures -= 1
        if self.failures >= 0:
            raise Unreachable("planned")
        return self._wire.run(call, timeout_s)

    def run_many(self, calls: Any, timeout_s: float | None = None) -> Any:
        raise AssertionError


def test_a_server_that_is_away_is_waited_for(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    with table.of(tick={"EVERY_S": 1}):
        away = Away(wire_for(table.keys), 3)
        keeper = Keeper(entries().values(), lambda _: away)
        for _ in range(3):
            assert keeper.tick() == 1.0
        assert table.jobs() == 0
        tick_until(keeper, table.jobs)

    assert len([one for one in caplog.records if "wait for the server" in one.getMessage()]) == 1


def test_queues_of_other_workers_are_left_to_them(table: Table) -> None:
    with table.of(tick={"EVERY_S": 1}):
        assert keeper_for(["another"], wire_for) is None
