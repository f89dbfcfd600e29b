"""A worker's looks for what lost takes brought: what decides when to look, without a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from emq_django.worker.strays import Strays

if TYPE_CHECKING:
    from emq_django.worker.sources import Source


def test_takes_of_several_queues_that_were_lost_at_one_moment_are_looked_for() -> None:
    lost = [cast("Source", SimpleNamespace(reply_lost=True, rests=lambda: True)) for _ in range(3)]
    strays = Strays("me", kill=lambda _: None)

    strays.tick(lost, set)

    assert strays.next_in_s() == 0.0  # at once, as soon as their server is asked again
    assert not any(source.reply_lost for source in lost)
