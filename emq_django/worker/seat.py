"""A worker's place: alone in its process, or one of several under a parent.

The place decides who wakes the worker, who does the upkeep, and where others can read what it
holds. The worker itself is the same everywhere.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from emq_django.wire.sync import Wire
from emq_django.worker.beat import Beat, busy_of, facts_of
from emq_django.worker.cancels import Cancels
from emq_django.worker.link import Link
from emq_django.worker.lookout import Lookout
from emq_django.worker.parked import Line, Parked
from emq_django.worker.table import Region, Table
from emq_django.worker.watch import Post, Rhythm, Watch
from emq_django.worker.watched import Watched

if TYPE_CHECKING:
    import socket

    from emq_django.protocol.keyspace import Queue
    from emq_django.wire.hearing import HearingClient
    from emq_django.worker.options import WorkerOptions
    from emq_django.worker.shutdown import StopRequest
    from emq_django.worker.sources import Source, Sources
    from emq_django.worker.strays import Kill
    from emq_django.worker.wait import Bell, Idle

# Returns a client that hears for each server of these queues, with the queues that it holds.
Listen = Callable[[Sequence["Queue"]], Sequence[tuple["HearingClient", Sequence["Queue"]]]]


def no_kill(_keys: Queue) -> None:
    """Kill no connection: their numbers are not known."""


class Seat:
    """Alone: the worker watches its queues itself. Without ``listen`` it looks again and again."""

    is_alone = True

    def __init__(
        self,
        incarnation: str = "",
        kill: Kill = no_kill,
        listen: Listen | None = None,
        region: Region | None = None,
    ) -> None:
        self.incarnation = incarnation or new_incarnation()
        self.kill = kill
        self._listen = listen
        self._region = region

    def region(self, options: WorkerOptions) -> Region:
        """Return where the worker notes what it holds."""
        return self._region or Table(1, slots_for(options), guarded=False).region(0)

    def idle(
        self,
        options: WorkerOptions,
        bell: Bell,
        stop: StopRequest,
        sources: Sources,
        region: Region,
    ) -> Idle:
        """Return how the worker waits."""
        del stop
        beat = Beat(facts_of(options, self.incarnation), lambda: busy_of(options, [region]))
        watch = Watch(
            lambda: posts_for(options, sources.all, self._listen),
            beat=beat,
            cancels=Cancels(sources.all, lambda: [region]),
        )
        return Watched(bell, watch, sources)


class ChildSeat(Seat):
    """Under a parent, at the other end of ``line``."""

    is_alone = False

    def __init__(
        self,
        incarnation: str,
        kill: Kill,
        listen: Listen,
        overhear: Listen,
        region: Region,
        line: socket.socket,
    ) -> None:
        super().__init__(incarnation, kill, listen, region)
        self._overhear = overhear
        self._line = line

    def idle(
        self,
        options: WorkerOptions,
        bell: Bell,
        stop: StopRequest,
        sources: Sources,
        region: Region,
    ) -> Idle:
        """Return how the worker waits. A second signal is none here: the parent kills."""
        stop.forcible = False
        line = Line(self._line, bell, stop)
        if options.burst:
            # It ends when nothing is left, which it sees for itself.
            watch = Watch(lambda: posts_for(options, sources.all, self._listen))
            return Watched(bell, watch, sources)
        queues = [source.options.keys for source in sources.all]
        return Parked(line, bell, sources, region, Lookout(self._overhear, queues, region))


def posts_for(
    options: WorkerOptions, sources: Sequence[Source], listen: Listen | None
) -> list[Post]:
    """Return a post for each server of these queues. Raises WireError when they can't be found."""
    rhythm = Rhythm(
        upkeep_s=options.upkeep_ms / 1_000,
        poll_s=options.poll_ms / 1_000,
        poll_cap_s=options.idle_cap_ms / 1_000,
    )
    if listen is None:
        links = dict.fromkeys(source.link for source in sources)
        return [
            Post(link, [source for source in sources if source.link is link], rhythm=rhythm)
            for link in links
        ]
    by_base = {source.options.keys.base: source for source in sources}
    posts = []
    for ear, queues in listen([source.options.keys for source in sources]):
        held = [by_base[queue.base] for queue in queues]
        posts.append(Post(Link(Wire(ear), held[0].link.trouble), held, ear, rhythm=rhythm))
    return posts


def slots_for(options: WorkerOptions) -> int:
    """Return how many jobs a process may hold at once, with some room for taken ahead."""
    return options.concurrency + 1_024


def new_incarnation() -> str:
    """Return a name for one life of one worker. Random, because pid 1 repeats in containers."""
    return secrets.token_hex(8)
