"""What the name of a schedule may be, and what another hand wrote into its state."""

from __future__ import annotations

from typing import Any

import pytest

from emq_django.errors import InvalidInput
from emq_django.protocol.keyspace import queue
from emq_django.protocol.periodic import ScheduleState, look, name_bytes


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "needs a name"),
        (None, "needs a name"),
        (7, "needs a name"),
        ("\ud800", "not valid Unicode"),
        ("x" * 256, "at most 255 bytes"),
        ("ü" * 128, "at most 255 bytes"),
    ],
)
def test_what_no_schedule_can_be_called(name: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        name_bytes(name)


def test_a_name_may_be_255_bytes_long() -> None:
    assert name_bytes("x" * 255) == b"x" * 255


def test_too_many_names_at_once_are_refused() -> None:
    assert look(queue("q"), ["n"] * 1_000).args == (b"n",) * 1_000
    with pytest.raises(InvalidInput, match="1001 names"):
        look(queue("q"), ["n"] * 1_001)


def test_a_state_that_another_hand_wrote_is_read_as_far_as_it_goes() -> None:
    call = look(queue("q"), ["one"])

    schedules = call.parse([5, [[b"nope", b"\xff", b"", b"?", b"7"]]])

    assert schedules.now_ms == 5
    assert schedules.states == [ScheduleState(None, "\udcff", None, 0, 7)]
