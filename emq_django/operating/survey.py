"""All queues and workers at one moment: a few bounded reads per server, over the admin's wire.

That wire waits 3 s at most for a server that is silent. A queue that can't be read says why; it is
never shown as empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from emq_django import reading
from emq_django.conf import conf, nearest
from emq_django.errors import EmqError, ScriptFailed, Unreachable, WireError
from emq_django.operating.text import safe
from emq_django.protocol import workers
from emq_django.protocol.calls import Call
from emq_django.protocol.ids import is_branded, minted_ms
from emq_django.protocol.records import Counts
from emq_django.protocol.workers import WorkerSeen
from emq_django.wire.sync import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSeen:
    """One queue: its figures, or why there are none."""

    name: str
    counts: Counts | None = None
    error: EmqError | None = None
    workers: int = 0  # that serve it and are alive
    stranger: str = ""  # says so where nothing is there and only the command line names it

    @property
    def oldest_ms(self) -> int | None:
        """How long the head of the flat set has been waiting, by its id; None where it is unknown.

        Jobs in lanes are not looked at, one by one, for their age.
        """
        head = self.counts.oldest_pending_id if self.counts else None
        if self.counts is None or head is None or not is_branded(head):
            return None
        return max(self.counts.now_ms - minted_ms(head), 0)

    @property
    def waiting(self) -> int:
        """How many jobs a worker could take, in lanes or not."""
        return self.counts.waiting if self.counts else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLine:
    """A worker as one of its servers knows it, and whether it missed its beats."""

    seen: WorkerSeen
    gone: bool
    age_ms: int  # since its last beat


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Everything at one moment. ``errors`` are those of servers, each once."""

    queues: list[QueueSeen]
    workers: list[WorkerLine]
    errors: list[EmqError]
    left_out: int = 0  # queues above the limit


def survey(names: Sequence[str] = ()) -> Survey:
    """Look at these queues; without names at all that the settings or the servers name."""
    wanted = list(dict.fromkeys(names))
    asked = reading.wires(wanted)
    noted = reading.noted(asked)
    troubles: dict[int, EmqError] = {wire: _told(exc) for wire, exc in noted.troubles.items()}
    lines: dict[str, WorkerLine] = {}
    for wire in asked:
        if isinstance(troubles.get(id(wire)), Unreachable):
            continue  # asking again would wait once more
        (seen,) = ask(wire, [workers.workers(conf().queue_prefix)])
        if isinstance(seen, EmqError):
            troubles.setdefault(id(wire), seen)
        else:
            _merge(lines, seen)
    every = wanted or sorted({*conf().queues, *noted.names})
    most = conf().admin.max_queues
    alive = [line.seen for line in lines.values() if not line.gone]
    serving = Counter(name for worker in alive for name in worker.queues)
    known = {*conf().queues, *noted.names, *serving}
    return Survey(
        queues=[
            replace(one, stranger=_stranger(one, known)) if wanted and not troubles else one
            for one in _queues(every[:most], troubles, serving)
        ],
        workers=sorted(lines.values(), key=lambda line: (line.gone, line.seen.incarnation)),
        errors=list(troubles.values()),
        left_out=max(len(every) - most, 0),
    )


def ask(wire: Wire, calls: Sequence[Call[Any]]) -> list[Any]:
    """Run Calls in one flush; an answer or an EmqError for each."""
    return [_told(answer) for answer in reading.ask_each(wire, calls)]


def _stranger(one: QueueSeen, known: set[str]) -> str:
    from emq_django.workers import is_for_tasks  # a worker's modules, and only for a strange name

    counts = one.counts
    if counts is None or one.name in known or is_for_tasks(one.name):
        return ""
    if one.waiting or counts.active or counts.scheduled or counts.dead or counts.completed:
        return ""
    near = nearest(one.name, sorted(known))
    return safe(f"{one.name}: neither the settings nor the server name such a queue.{near}", 500)


def _told(answer: Any) -> Any:
    if isinstance(answer, Exception) and not isinstance(answer, EmqError):
        return ScriptFailed(f"what the server holds can't be read: {answer}")
    return answer


def _merge(lines: dict[str, WorkerLine], seen: workers.WorkersSeen) -> None:
    """Add what one server knows; of a worker that several know, the latest beat counts."""
    for worker in seen.workers:
        age_ms = max(seen.now_ms - worker.last_beat_ms, 0)
        known = lines.get(worker.incarnation)
        if known is None or age_ms < known.age_ms:
            gone = worker.is_gone(seen.now_ms)
            lines[worker.incarnation] = WorkerLine(seen=worker, gone=gone, age_ms=age_ms)


def _queues(
    names: list[str], troubles: dict[int, EmqError], serving: Counter[str]
) -> list[QueueSeen]:
    lost = {wire: exc for wire, exc in troubles.items() if isinstance(exc, WireError)}
    found = []
    for name, answer in reading.counts_of(names, lost).items():
        told = _told(answer)
        good = isinstance(told, Counts)
        found.append(
            QueueSeen(
                name=name,
                counts=told if good else None,
                error=None if good else told,
                workers=serving[name],
            )
        )
    return found
