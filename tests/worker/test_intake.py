"""Who waits for jobs, what is asked for when they come, and when the main thread is needed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from emq_django.worker.intake import Intake
from emq_django.worker.sources import Haul


class Place:
    """A worker's parts as an intake sees them; ``script`` says what each take finds."""

    def __init__(self, *script: Callable[[Place], int], on_a_slot: bool = True) -> None:
        self.script = list(script)
        self.free = 4
        self.doubtful = False
        self.stopped = False
        self.waits: list[float] = []
        self.asked: list[int] = []
        self.lent = 0
        self.strays_in_s = 60.0
        crew = SimpleNamespace(
            is_idle=lambda: True, free=lambda: self.free, patience_s=lambda: 60.0,
            ends=SimpleNamespace(waiting=lambda: 0), start=lambda leases, full: None,
            slots=SimpleNamespace(lend=self._lend),
        )  # fmt: skip
        sources = SimpleNamespace(take=self._take, doubtful=lambda: self.doubtful)
        self.told: list[str] = []
        idle = SimpleNamespace(
            wait=self.waits.append, took=lambda *_: self.told.append("took"),
            gave_back=lambda: self.told.append("gave back"), on_a_slot=on_a_slot,
        )  # fmt: skip
        stop = SimpleNamespace(requested=lambda: self.stopped, cut_short=_Nothing)
        strays = SimpleNamespace(next_in_s=lambda: self.strays_in_s)
        parts: Any = (sources, crew, idle, strays, stop)
        self.intake = Intake("me", *parts)

    def _lend(self, work: Callable[[], None]) -> None:
        self.lent += 1
        work()

    def _take(self, _incarnation: str, free: int, *_: object) -> Haul:
        self.asked.append(free)
        self.stopped = self.script.pop(0)(self) < 0
        return Haul([], free)


class _Nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def stop(_place: Place) -> int:
    return -1


def nothing(_place: Place) -> int:
    return 0


def lost(place: Place) -> int:
    place.doubtful = True
    return 0


def test_a_slot_asks_for_what_is_free_when_the_jobs_come() -> None:
    def one_more_is_free(place: Place) -> int:
        place.free = 5
        return 0

    place = Place(one_more_is_free, stop)

    place.intake.wait()

    assert (place.lent, place.asked) == (1, [4, 5])


def test_a_slot_that_found_nothing_waits_on_without_the_main_thread() -> None:
    place = Place(nothing, nothing, stop)

    place.intake.wait()

    assert (place.lent, len(place.waits), len(place.asked)) == (1, 3, 3)


def test_what_a_worker_takes_as_it_stops_is_said_to_be_there_again() -> None:
    place = Place(nothing, stop)

    place.intake.wait()

    assert place.told == ["took", "gave back"]


def test_the_main_thread_is_needed_when_a_take_was_lost_on_the_way() -> None:
    place = Place(lost)

    place.intake.wait()

    assert (place.lent, len(place.waits), len(place.asked)) == (1, 1, 1)


@pytest.mark.parametrize("in_s", [0.0, 7.0])
def test_nobody_waits_for_longer_than_until_a_lost_one_is_to_be_looked_for(in_s: float) -> None:
    place = Place(stop)
    place.strays_in_s = in_s

    place.intake.wait()

    assert place.waits == ([in_s] if in_s else [])


def test_a_worker_that_is_alone_waits_on_its_main_thread_and_takes_nothing_meanwhile() -> None:
    place = Place(on_a_slot=False)

    place.intake.wait()

    assert (place.lent, place.waits, place.asked) == (0, [60.0], [])
