"""Worker processes fire periodic tasks beside their jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import periodic

if TYPE_CHECKING:
    from tests.task_backend.conftest import Desk

from tests.task_backend.conftest import desk

__all__ = ["desk"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def test_two_workers_fire_and_run_each_tick_once(desk: Desk) -> None:
    entry = {
        "TASK": "tests.task_backend.zoo.noted", "EVERY_S": 1, "ARGS": ["tick"], "QUEUE": desk.queue
    }  # fmt: skip
    desk.emq["PERIODIC"] = {"tick": entry}
    desk.start("--processes", "2")
    desk.start("--processes", "0")
    desk.noted("ran", 4)
    for worker in desk.workers:
        worker.close()

    slots = [int(one["at"]) for one in desk.notes("ran")]
    state = wire_for(keys(desk.queue)).run(periodic.look(keys(desk.queue), ["tick"])).states[0]
    assert len(slots) == len(set(slots)), "a second saw two jobs"
    assert state.last_ms is not None


def test_a_burst_fires_nothing(desk: Desk) -> None:
    entry = {"TASK": "tests.task_backend.zoo.noted", "EVERY_S": 1, "QUEUE": desk.queue}
    with desk.set(PERIODIC={"tick": entry}, TASK_MODULES=["tests.task_backend.zoo"]):
        desk.run()

    found = wire_for(keys(desk.queue)).run(periodic.look(keys(desk.queue), ["tick"])).states[0]
    assert found == periodic.ScheduleState()
