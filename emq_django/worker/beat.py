"""A worker's sign of life: its record in the list of workers, renewed once a second.

Whoever does the upkeep of a worker tree beats for the whole tree, in the same trip. That it fails
is nobody's trouble: the jobs go on, and the list of workers says that this one is gone.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from redis.exceptions import AskError

from emq_django import __version__
from emq_django.errors import AccessRefused, EmqError
from emq_django.protocol import workers
from emq_django.protocol.workers import Busy, Facts
from emq_django.worker.failure import one_line
from emq_django.worker.log import Quiet, logger
from emq_django.worker.table import State

if TYPE_CHECKING:
    from emq_django.protocol.calls import Call
    from emq_django.worker.link import Link
    from emq_django.worker.options import WorkerOptions
    from emq_django.worker.table import Region

_TIMEOUT_S: Final = 0.5


def facts_of(options: WorkerOptions, incarnation: str, processes: int = 1) -> Facts:
    """Return what a worker with these options says about itself."""
    keys = options.queues[0].keys
    return Facts(
        incarnation=incarnation,
        prefix=keys.wire_name.removesuffix(keys.name),
        host=socket.gethostname(),
        pid=os.getpid(),
        version=__version__,
        queues=tuple(queue.keys.name for queue in options.queues),
        concurrency=options.concurrency,
        processes=processes,
        beat_ms=options.upkeep_ms,
    )


def busy_of(options: WorkerOptions, regions: Iterable[Region]) -> list[Busy]:
    """Return the jobs that run, as a tree's table has them."""
    return [
        Busy(options.queues[slot.queue].keys.name, slot.id)
        for region in regions
        for slot in region.slots()
        if slot.state is State.STARTED
    ]


class Beat:
    """Renews the record of one worker tree, on each server that it works for.

    ``call`` goes along with a sweep and ``answered`` hears how it went.
    """

    def __init__(
        self,
        facts: Facts,
        busy: Callable[[], Sequence[Busy]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._facts = facts
        self._busy = busy
        self._clock = clock
        self._began_s = clock()
        self._quiet = Quiet(clock)

    def call(self) -> Call[int]:
        """Return the beat of this moment."""
        up_ms = max(round((self._clock() - self._began_s) * 1_000), 0)
        return workers.beat(self._facts, self._busy(), up_ms)

    def answered(self, answer: object, link: Link | None = None) -> None:
        """Hear how it went. A node of a cluster that does not hold the list says who does.

        Then it is sent by ``link``, which finds that node.
        """
        moved = isinstance(answer, EmqError) and isinstance(answer.__cause__, AskError)
        if moved and link is not None:
            try:
                link.run_aside(self.call(), _TIMEOUT_S)
            except EmqError as exc:
                answer = exc
        # A server that is away is told of by its link.
        if isinstance(answer, AccessRefused) and self._quiet.may_log(AccessRefused):
            logger.warning(
                "the server's user may not use the keys {emq}:dj:*, so this worker is missing in"
                " the list of workers; its jobs run all the same (%s)",
                one_line(str(answer)),
            )

    def end(self, links: Iterable[Link]) -> None:
        """Take the worker off the list."""
        for link in dict.fromkeys(links):
            try:
                link.run_aside(workers.gone(self._facts.incarnation), _TIMEOUT_S)
            except EmqError as exc:
                self.answered(exc)
