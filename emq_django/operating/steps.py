"""What an operator does to a whole queue: walks of bounded steps that can stop anywhere and go on.

Each walk yields how far it is after each step. A step is one script and done or not done as a
whole; whoever stops between two leaves a queue that every speaker can use, and starting again does
the rest. What producers add meanwhile is not chased: a walk handles what there was at its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from emq_django.connections import wire_for
from emq_django.errors import InvalidLane
from emq_django.operating.keys import live_keys, scan
from emq_django.operating.text import counted, in_number
from emq_django.protocol import lanes, mend, operate, read, registry
from emq_django.protocol.keyspace import Queue, id_text
from emq_django.protocol.operate import Obliterated, Reprocessed
from emq_django.protocol.records import JobSet

BATCH: Final = 200  # ids per step: some 5 ms of the server's time
_LANES: Final = 1_000


class Refused(Exception):
    """The queue can't be treated like that now. The text says why and what to do."""


@dataclass(slots=True)
class Walk:
    """How far a walk is. ``notes`` are for its end."""

    done: int = 0
    total: int | None = None
    skipped: int = 0
    notes: list[str] = field(default_factory=list)

    def plus(self, other: Walk) -> Walk:
        """Return both as one, of which nobody knows how long it is."""
        done, skipped = self.done + other.done, self.skipped + other.skipped
        return Walk(done=done, skipped=skipped, notes=[*self.notes, *other.notes])


def of_each(queues: Sequence[Queue], walk_of: Callable[[Queue], Iterator[Walk]]) -> Iterator[Walk]:
    """Walk through several queues that stand for one, as one walk."""
    so_far = Walk()
    for queue in queues:
        walk = Walk()
        for walk in walk_of(queue):
            yield so_far.plus(walk)
        so_far = so_far.plus(walk)
    yield so_far


def retry_dead(queue: Queue) -> Iterator[Walk]:
    """Give every job that is dead now another life, each once, also if it dies again at once."""
    wire = wire_for(queue)
    newest = wire.run(read.page(queue, JobSet.DEAD, 1, reverse=True, value_bytes=0))
    walk = Walk(total=newest.total)
    last = newest.entries[0].id.encode("utf-8", "surrogateescape") if newest.entries else b""
    cursor: str | None = None
    while True:
        page = wire.run(read.page(queue, JobSet.DEAD, BATCH, cursor=cursor, value_bytes=0))
        ids = [one.id for one in page.entries]
        ids = [one for one in ids if one.encode("utf-8", "surrogateescape") <= last]
        if ids:
            answers = wire.run(operate.reprocess(queue, ids))
            back = answers.count(Reprocessed.PENDING)
            walk.done += back
            walk.skipped += len(answers) - back
            cursor = ids[-1]
            yield walk
        if not page.more or len(ids) < len(page.entries):
            break
    if walk.skipped:
        walk.notes.append(
            in_number(
                walk.skipped,
                "1 was left: no row, damaged, or its key is taken",
                "{} were left: no row, damaged, or their key is taken",
            )
        )
    yield walk


def drain(queue: Queue, also: Sequence[JobSet] = ()) -> Iterator[Walk]:
    """Remove the jobs that wait, in lanes too, and those of further sets."""
    wire = wire_for(queue)
    counts = wire.run(read.counts(queue))
    sizes = {JobSet.SCHEDULE: counts.scheduled, JobSet.DEAD: counts.dead}
    walk = Walk(total=counts.pending + counts.lane_pending + sum(sizes[one] for one in also))
    yield from _drain_set(queue, JobSet.PENDING, counts.pending, walk)
    for lane in wire.run(lanes.lane_depths(queue, limit=_LANES)):
        if lane.waiting:
            try:
                yield from _drain_set(queue, lane.name, lane.waiting, walk)
            except InvalidLane:
                walk.skipped += lane.waiting
                walk.notes.append("a lane whose name is no branded id was left")
    for one in also:
        yield from _drain_set(queue, one, sizes[one], walk)
    after = wire.run(read.counts(queue))
    if left := after.pending + after.lane_pending:
        wait = in_number(left, "1 waits", "{} wait")
        walk.notes.append(f"{wait} by now: pause the queue to keep it empty")
    yield walk


def _drain_set(queue: Queue, job_set: JobSet | str, size: int, walk: Walk) -> Iterator[Walk]:
    wire = wire_for(queue)
    while size > 0:
        drained = wire.run(operate.drain(queue, job_set, min(BATCH, size)))
        walk.done += drained.removed
        size -= drained.removed
        yield walk
        if not drained.removed or not drained.left:
            return


def obliterate(queue: Queue, *, force: bool = False) -> Iterator[Walk]:
    """Remove a queue with all its keys. It is paused first, and is until the last step.

    ``force`` also removes jobs that workers hold. Raises Refused.
    """
    wire = wire_for(queue)
    counts = wire.run(read.counts(queue))
    if counts.active and not force:
        raise Refused(
            f"workers hold {counted(counts.active, 'job')} of it: wait for them, or say --force,"
            " and their results are refused"
        )
    waiting = counts.pending + counts.lane_pending + counts.scheduled
    walk = Walk(total=waiting + counts.active + counts.dead)
    wire.run(operate.pause(queue))
    step = wire.run(operate.obliterate(queue, force=force, batch=BATCH))
    while step is Obliterated.MORE:
        walk.done = min(walk.done + BATCH, walk.total or 0)
        yield walk
        step = wire.run(operate.obliterate(queue, force=force, batch=BATCH))
    if step is Obliterated.ACTIVE:
        raise Refused("a worker took a job meanwhile: wait for it, or say --force")
    if step is Obliterated.NOT_PAUSED:
        raise Refused("somebody resumed it meanwhile: nothing more was removed")
    walk.done = walk.total or 0
    yield walk
    yield from _strays(queue, walk)
    wire.run(registry.unregister(queue.wire_name))


def _strays(queue: Queue, walk: Walk) -> Iterator[Walk]:
    """Remove what nothing pointed to any more. What somebody enqueued meanwhile stays."""
    wire = wire_for(queue)
    removed = 0
    for found in scan(wire, queue):
        rows, others = found.rows, found.strays
        if rows:
            answers = wire.run(mend.mend(queue, rows))
            lost = {mend.Found.ORPHAN, mend.Found.HUSK, mend.Found.DAMAGED}
            gone = [one for one, answer in zip(rows, answers, strict=True) if answer in lost]
            removed += len(gone)
            if gone:
                wire.run(operate.remove(queue, [id_text(one) for one in gone]))
        if others := [key for key in others if key not in live_keys(queue)]:
            removed += wire.client.execute(("UNLINK", *others), queue.base)
        yield walk
    if removed:
        walk.notes.append(
            in_number(
                removed,
                "1 key that nothing pointed to is gone too",
                "{} keys that nothing pointed to are gone too",
            )
        )
