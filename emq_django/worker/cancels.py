"""Learns which jobs somebody wants to end, once a second, and tells the processes that run them.

It asks for no more than the jobs that have run for a moment, along with the upkeep's trip, so an
idle tree and one that runs short jobs ask nothing. The process that asks may be the parent of the
one that runs a job: the answer goes into the table that they share.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from emq_django.errors import EmqError
from emq_django.protocol import settle
from emq_django.protocol.records import ClaimedJob
from emq_django.worker.table import State

if TYPE_CHECKING:
    from emq_django.protocol.calls import Call
    from emq_django.worker.sources import Source
    from emq_django.worker.table import Region, Slot

_YOUNG_S: Final = 0.1  # most jobs end before anybody could want them to
_MOST: Final = 1_000  # per call


@dataclass(frozen=True, slots=True)
class Question:
    """One call, and whose jobs it is about."""

    call: Call[list[str]]
    slots: Sequence[tuple[Region, Slot]]

    def answered(self, answer: list[str] | EmqError) -> None:
        """Note who is to end; where the server gave no answer, it is asked again soon."""
        if isinstance(answer, EmqError):
            return
        for region, slot in self.slots:
            if slot.id in answer:
                region.ask_to_end(slot)


class Cancels:
    """Asks for all regions of a tree. ``queues`` are in the order that the table knows."""

    def __init__(
        self,
        queues: Sequence[Source],
        regions: Callable[[], Iterable[Region]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queues = tuple(queues)
        self._regions = regions
        self._clock = clock

    def questions(self, sources: Iterable[Source]) -> list[Question]:
        """Return what there is to ask the server of these queues."""
        asked = set(sources)
        now_s = self._clock()
        running: dict[int, list[tuple[Region, Slot]]] = {}
        for region in self._regions():
            for slot in region.slots():
                if slot.state is State.STARTED and now_s - slot.began_s > _YOUNG_S:
                    running.setdefault(slot.queue, []).append((region, slot))
        return [
            _question(self._queues[number], slots[first : first + _MOST])
            for number, slots in running.items()
            if self._queues[number] in asked
            for first in range(0, len(slots), _MOST)
        ]


def _question(source: Source, slots: Sequence[tuple[Region, Slot]]) -> Question:
    keys = source.options.keys
    jobs = [ClaimedJob(slot.id, b"", slot.token, keys.name) for _, slot in slots]
    return Question(settle.cancelled(keys, jobs), slots)
