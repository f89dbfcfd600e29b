"""C55: however many processes look at an entry, each tick is one job."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import read
from emq_django.protocol.periodic import Fired
from tests.timetable.conftest import declared, table
from tests.timetable.firing import fire

if TYPE_CHECKING:
    from tests.timetable.conftest import Table

__all__ = ["declared", "table"]


def test_many_who_try_at_once_fire_one_job_per_slot(queue: str) -> None:
    wins: list[int] = []

    def try_all() -> None:
        wins.extend(
            slot for slot in range(1_000, 51_000, 1_000) if fire(queue, slot).fired is Fired.FIRED
        )

    threads = [threading.Thread(target=try_all) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(wins) == len(set(wins))
    assert wire_for(keys(queue)).run(read.counts(keys(queue))).pending == len(wins)
    assert 50_000 in wins


@pytest.mark.slow
def test_keepers_with_wrong_clocks_fire_each_tick_once(table: Table) -> None:
    """Three processes' worth of keepers, of which two have clocks of their own."""
    clocks = [time.monotonic, lambda: time.monotonic() + 3, lambda: time.monotonic() * 1.01 + 9e9]
    with table.of(tick={"EVERY_S": 1}):
        began_ms = table.now_ms()
        end = threading.Event()

        def keep(clock: Any) -> None:
            keeper = table.keeper(clock)
            while not end.wait(keeper.tick()):
                pass

        threads = [threading.Thread(target=keep, args=(clock,)) for clock in clocks]
        for thread in threads:
            thread.start()
        end.wait(5.2)
        end.set()
        for thread in threads:
            thread.join()

        ticks = table.now_ms() // 1_000 - began_ms // 1_000
        assert ticks - 1 <= table.jobs() <= ticks
