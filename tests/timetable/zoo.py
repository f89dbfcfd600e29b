"""Tasks on a timetable, for its tests."""

from __future__ import annotations

from emq_django import task


@task
def tick(*args: object, **kwargs: object) -> list[object]:
    return [list(args), kwargs]


def no_lane(*_: object) -> str:
    raise LookupError("planned: no lane")


@task(lane=no_lane)
def broken() -> None: ...


@task(unique="one")
def one_at_a_time() -> None: ...
