"""A worker's looks for what lost takes brought: what decides when to look, without a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from emq_django.worker.strays import Strays

if TYPE_CHECKING:
    from emq_django.worker.sources import Source


def test_takes_of_several_queues_that_were_lost_at_one_moment_are_looked_for() -> None:
    lost = [queue_that_rests_for(seconds) for seconds in (9.0, 7.0, 8.0)]
    strays = Strays("me", kill=lambda _: None)

    strays.tick(lost, set)

    assert strays.next_in_s() == 7.0  # at once, as soon as their server is asked again
    assert not any(source.reply_lost for source in lost)


def test_a_look_that_is_due_and_whose_queue_does_not_rest_is_due_now() -> None:
    strays = Strays("me", kill=lambda _: None)
    strays.tick([queue_that_rests_for(seconds := 5.0)], set)
    assert strays.next_in_s() == seconds

    strays._looks = [look._replace(source=queue_that_rests_for(0.0)) for look in strays._looks]

    assert strays.next_in_s() == 0.0


def queue_that_rests_for(seconds: float) -> Source:
    queue = SimpleNamespace(reply_lost=True, rests=lambda: seconds > 0, rests_for_s=lambda: seconds)
    return cast("Source", queue)
