"""A timetable of its own for each test."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.test import override_settings

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import periodic, read
from emq_django.task_backend import registry
from emq_django.timetable import entries as module
from emq_django.timetable.entries import Entry, entries
from emq_django.timetable.keeper import Keeper

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emq_django.protocol.periodic import ScheduleState

TASKS = {"default": {"BACKEND": "emq_django.task_backend.EmqBackend", "QUEUES": []}}
ZOO = "tests.timetable.zoo"


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> dict[str, Entry]:
    """What `@periodic` declared: nothing yet."""
    empty: dict[str, Entry] = {}
    monkeypatch.setattr(module, "_declared", empty)
    return empty


class Table:
    """EMQ["PERIODIC"] of one test; its tasks go to the test's queue."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.keys = keys(queue)

    def of(self, **named: Any) -> override_settings:
        """Return settings with these entries."""
        its = {
            name.replace("_", "-"): {"TASK": f"{ZOO}.tick", "QUEUE": self.queue, **entry}
            for name, entry in named.items()
        }
        return override_settings(
            EMQ={**settings.EMQ, "TASK_MODULES": [ZOO], "PERIODIC": its}, TASKS=TASKS
        )

    def keeper(self, clock: Callable[[], float] | None = None) -> Keeper:
        given = {} if clock is None else {"clock": clock}
        return Keeper(entries().values(), wire_for, **given)

    def state(self, name: str) -> ScheduleState:
        return wire_for(self.keys).run(periodic.look(self.keys, [name])).states[0]

    def now_ms(self) -> int:
        return wire_for(self.keys).run(periodic.look(self.keys, [])).now_ms

    def last_was(self, name: str, ms: int) -> None:
        """Have the server remember a slot, as if the workers had been down since."""
        wire_for(self.keys).run(periodic.pass_over(self.keys, name, ms))

    def jobs(self) -> int:
        return wire_for(self.keys).run(read.counts(self.keys)).pending


@pytest.fixture
def table(queue: str) -> Iterator[Table]:
    with override_settings(TASKS=TASKS):
        yield Table(queue)
    registry._discovered = False


def tick_until(keeper: Keeper, done: Any, limit_s: float = 10.0) -> None:
    deadline_s = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < deadline_s, "nothing was fired"
        time.sleep(keeper.tick())  # the keeper names the pause; a worker makes it too
