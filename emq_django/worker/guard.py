"""What a parent enforces on its children by what their table and the kernel say of them.

| what | when | then |
| --- | --- | --- |
| a lease that its child should have renewed | less than half of it is left | the parent renews it |
| a child whose threads do not run (an interpreter that is blocked, SIGSTOP) | for ``stuck_s`` | killed |
| a job past its hard limit | at once | its child is killed |
| a child that has grown too large | above ``max_memory_mb`` | asked to stop, and replaced |
"""  # noqa: E501 - a table

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from emq_django.errors import EmqError
from emq_django.protocol import settle
from emq_django.protocol.records import ClaimedJob
from emq_django.worker.children import Child
from emq_django.worker.log import logger
from emq_django.worker.sources import Source
from emq_django.worker.table import Slot
from emq_django.worker.watch import Watch

_SOONEST_S: Final = 0.05
_LATEST_S: Final = 1.0
_RENEW_TIMEOUT_S: Final = 0.5
_MOST: Final = 500  # leases per call


class Guard:
    """Looks at all children about once a second; more often where leases are short."""

    def __init__(
        self, watch: Watch, sources: Sequence[Source], stuck_s: float, max_memory_mb: int
    ) -> None:
        self._watch = watch
        self._sources = sources
        self._stuck_s = stuck_s
        self._max_memory_bytes = max_memory_mb * 1024 * 1024
        shortest_s = min(source.options.lease_ms for source in sources) / 1_000
        self._every_s = min(max(shortest_s / 6, _SOONEST_S), _LATEST_S)
        self._next_at_s = 0.0

    def next_in_s(self) -> float:
        """Return the time until the next look."""
        return max(self._next_at_s - time.monotonic(), 0.0)

    def too_large(self, child: Child) -> bool:
        """Tell whether a child uses more memory than it may."""
        return 0 < self._max_memory_bytes < memory_bytes(child.pid)

    def tick(self, children: Iterable[Child]) -> Iterable[Child]:
        """Look if it is time: renew, kill, and return the children that have grown too large."""
        now_s = time.monotonic()
        if now_s < self._next_at_s:
            return []
        self._next_at_s = now_s + self._every_s
        looked = [(child, child.region.slots()) for child in children]
        for child, slots in looked:
            self._kill_if_over(child, slots, now_s)
        self._renew([(child, slot) for child, slots in looked for slot in slots], now_s)
        deadlines = [slot.deadline_s for _, slots in looked for slot in slots if slot.deadline_s]
        self._next_at_s = max(min([self._next_at_s, *deadlines]), now_s + _SOONEST_S)
        return [child for child, _ in looked if self.too_large(child)]

    def _kill_if_over(self, child: Child, slots: Sequence[Slot], now_s: float) -> None:
        overdue = [slot for slot in slots if 0 < slot.deadline_s <= now_s]
        if overdue:
            logger.error(
                "process %d is killed: job %s runs past its hard limit", child.pid, overdue[0].id
            )
            child.overdue = overdue
            child.kill()
        elif (still_s := now_s - child.region.beat_s()) > self._stuck_s:
            logger.error(
                "process %d is killed: its threads stood still for %.0f s", child.pid, still_s
            )
            child.kill()

    def _renew(self, held: Sequence[tuple[Child, Slot]], now_s: float) -> None:
        """Renew what a child should have renewed by now."""
        late = [
            (child, slot)
            for child, slot in held
            if slot.until_s - now_s < slot.lease_ms / 2_000 and slot.until_s > now_s
        ]
        groups: dict[tuple[int, int], list[tuple[Child, Slot]]] = {}
        for child, slot in late:
            groups.setdefault((slot.queue, slot.lease_ms), []).append((child, slot))
        for (queue, lease_ms), group in groups.items():
            for first in range(0, len(group), _MOST):
                self._extend(self._sources[queue], lease_ms, group[first : first + _MOST], now_s)

    def _extend(
        self, source: Source, lease_ms: int, group: Sequence[tuple[Child, Slot]], now_s: float
    ) -> None:
        keys = source.options.keys
        link = self._watch.link_of(source)
        if link is None:
            return
        jobs = [ClaimedJob(slot.id, b"", slot.token, keys.name) for _, slot in group]
        try:
            lost = link.run(settle.extend_many(keys, jobs, lease_ms), _RENEW_TIMEOUT_S)
        except EmqError:
            return  # logged by the link; the next look tries again
        for child, slot in group:
            if slot.id not in lost:
                child.region.helped(slot.place, now_s + lease_ms / 1_000)


def memory_bytes(pid: int) -> int:
    """Return the resident memory of a process, 0 where the system does not say."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
