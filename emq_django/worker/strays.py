"""Jobs that a take brought to nobody: its reply was lost, so they are leased to us unknown to us.

The connection that was lost is killed on the server first, because the take may still run from its
buffer. Then every active job that carries this worker's mark and that nobody here holds goes back,
at no cost; and once more a second later, for what the first look could not see. Runs on the thread
that takes, so no take is on its way meanwhile.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple, cast

from emq_django.errors import EmqError
from emq_django.protocol import recover
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.records import Verdict
from emq_django.worker.failure import one_line
from emq_django.worker.link import Link
from emq_django.worker.log import logger
from emq_django.worker.retry import lost_pause_ms
from emq_django.worker.sources import Source

_LOOK_AGAIN_S: Final = 1.0
_TIMEOUT_S: Final = 0.5
_MOST_PARTS: Final = 1_000  # of the active set, in one look

# Kills the lost connections of this process on the server that holds a queue.
Kill = Callable[[Queue], None]


class _Look(NamedTuple):
    """A look that is to be made. The earlier of two is the lesser, wherever they look."""

    at_s: float
    more: int  # looks after it
    source: Source

    def __lt__(self, other: tuple[object, ...]) -> bool:
        return self.at_s < cast("_Look", other).at_s


class Strays:
    """What a worker does about its lost takes."""

    def __init__(self, incarnation: str, kill: Kill) -> None:
        self._incarnation = incarnation
        self._kill = kill
        self._looks: list[_Look] = []

    def tick(
        self, sources: Sequence[Source], held: Callable[[], Collection[tuple[str, int]]]
    ) -> None:
        """Look where it is time. ``held`` gives the (id, token) of each job in our hands."""
        now_s = time.monotonic()
        for source in sources:
            if source.reply_lost:
                source.reply_lost = False
                self._looks.append(_Look(now_s, 1, source))
        due = [look for look in self._looks if look.at_s <= now_s and not look.source.rests()]
        for look in due:
            self._looks.remove(look)
            _, more, source = look
            if self._look(source, held()):
                if more:
                    self._looks.append(_Look(time.monotonic() + _LOOK_AGAIN_S, more - 1, source))
            else:
                self._looks.append(_Look(time.monotonic() + _LOOK_AGAIN_S, more, source))

    def next_in_s(self) -> float:
        """Return the time until the next look, infinity for no look."""
        now_s = time.monotonic()
        waits = (max(look.at_s - now_s, look.source.rests_for_s()) for look in self._looks)
        return max(min(waits, default=math.inf), 0.0)

    def _look(self, source: Source, held: Collection[tuple[str, int]]) -> bool:
        keys = source.options.keys
        try:
            self._kill(keys)
            strays = [
                job
                for job in find(source.link, keys, self._incarnation)
                if (job.id, job.token) not in held
            ]
            for job, verdict in hand_back(source.link, keys, strays):
                if verdict is Verdict.RELEASED:
                    logger.warning(
                        "handed back, its take's reply was lost queue=%s id=%s attempt=%d",
                        one_line(keys.name), one_line(job.id), job.token,
                    )  # fmt: skip
        except EmqError:
            return False  # the link has logged it
        return True


def find(link: Link, keys: Queue, incarnation: str) -> list[recover.Held]:
    """Return the active jobs that carry this worker's mark. Raises what the wire raises."""
    found: dict[tuple[str, int], recover.Held] = {}
    cursor = recover.START
    for _ in range(_MOST_PARTS):
        part = link.run(recover.marked(keys, incarnation, cursor), _TIMEOUT_S)
        found.update(((job.id, job.token), job) for job in part.held)
        cursor = part.cursor
        if cursor == recover.START:
            break
    return list(found.values())


def hand_back(
    link: Link, keys: Queue, jobs: Sequence[recover.Held]
) -> Iterator[tuple[recover.Held, Verdict]]:
    """Return jobs by their token, as many a call as it takes. Raises what the wire raises."""
    for first in range(0, len(jobs), recover.MOST_HELD):
        part = jobs[first : first + recover.MOST_HELD]
        call = recover.hand_back(keys, part, pause_ms=lost_pause_ms())
        verdicts = link.run(call, _TIMEOUT_S)
        yield from zip(part, verdicts, strict=True)
