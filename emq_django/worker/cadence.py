"""Upkeep: when to promote what is due and to reap what was lost, and the sweeps themselves.

Any worker does it for its own queues, and several may at the same time: each sweep is one atomic,
bounded step on the server's clock. All queues of a server go in one flush, with a look at what
each of them has to offer now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from emq_django.errors import EmqError, WireError
from emq_django.protocol import read, upkeep
from emq_django.worker.failure import one_line
from emq_django.worker.log import logger
from emq_django.worker.pauses import jitter
from emq_django.worker.retry import lost_pause_ms

if TYPE_CHECKING:
    from emq_django.protocol.calls import Call
    from emq_django.protocol.keyspace import Queue
    from emq_django.protocol.records import Outlook, Swept
    from emq_django.worker.beat import Beat
    from emq_django.worker.cancels import Cancels
    from emq_django.worker.link import Link
    from emq_django.worker.sources import Source

BATCH: Final = 100
_ROUNDS: Final = 10  # per sweep, so that a backlog of due jobs never keeps takes waiting


class Cadence:
    """When the next tick is due: every ``interval_s``, drawn between 75 % and 100 % of it.

    Without the draw, workers that were started together would sweep together for ever.
    """

    def __init__(
        self, interval_s: float, uniform: Callable[[float, float], float] = jitter
    ) -> None:
        self._interval_s = interval_s
        self._uniform = uniform
        self.next_at_s = 0.0

    def is_due(self, now_s: float) -> bool:
        """Tell whether a tick is due, and if so plan the next one."""
        if now_s < self.next_at_s:
            return False
        self.next_at_s = now_s + self._uniform(0.75 * self._interval_s, self._interval_s)
        return True

    def hurry(self) -> None:
        """Make the next tick due at once."""
        self.next_at_s = 0.0


@dataclass(slots=True)
class Findings:
    """What sweeps did and saw. ``more``: there is a backlog beyond what one sweep may do."""

    moved: int = 0
    more: bool = False
    outlooks: dict[Source, Outlook] = field(default_factory=dict)
    error: WireError | None = None  # the server could not be asked


def sweep(
    link: Link,
    sources: Iterable[Source],
    *,
    reap: bool = True,
    promote: bool = True,
    beat: Beat | None = None,
    cancels: Cancels | None = None,
) -> Findings:
    """Promote, reap and look at queues of one server; again for those that have a backlog.

    A ``beat`` goes along and what ``cancels`` ask, so that neither costs a trip of its own.
    """
    findings = Findings()
    left = list(sources)
    for number in range(_ROUNDS):
        if not left:
            return findings
        if number:
            beat = cancels = None
        left = _round(link, left, findings, reap=reap, promote=promote, beat=beat, cancels=cancels)
        if findings.error is not None:
            return findings
    findings.more = bool(left)
    return findings


def _round(
    link: Link,
    sources: Sequence[Source],
    findings: Findings,
    *,
    reap: bool,
    promote: bool,
    beat: Beat | None,
    cancels: Cancels | None,
) -> list[Source]:
    """Make one flush; returns the queues with more to move."""
    verbs = ["promote"] * promote + ["reap"] * reap + ["look"]
    calls = [_CALLS[verb](source.options.keys) for source in sources for verb in verbs]
    questions = cancels.questions(sources) if cancels else []
    along: list[Call[Any]] = [beat.call()] if beat else []
    along += [one.call for one in questions]
    results = iter(link.run_many(calls, aside=along))
    again = []
    for source in sources:
        answers = {verb: next(results) for verb in verbs}
        look = answers.pop("look")
        if not isinstance(look, EmqError):
            findings.outlooks[source] = look
        full = [_note(source, verb, one, findings) for verb, one in answers.items()]
        if any(full):
            again.append(source)
        for answer in (look, *answers.values()):
            if isinstance(answer, WireError):
                findings.error = answer
            elif isinstance(answer, EmqError):
                source.complain(answer)  # jobs may still be claimable
    if beat:
        beat.answered(next(results), sources[0].link)
    for question in questions:
        question.answered(next(results))
    return again


def _note(source: Source, verb: str, swept: Swept | EmqError, findings: Findings) -> bool:
    """Note what one sweep did; True where it saw as many jobs as it may."""
    if isinstance(swept, EmqError):
        return False
    findings.moved += swept.moved
    if verb == "reap" and swept.seen:
        source.tally.lost(swept.moved + swept.dead)
        logger.warning(
            "leases ended queue=%s back=%d dead=%d without_row=%d",
            one_line(source.options.keys.name), swept.moved, swept.dead, swept.dropped,
        )  # fmt: skip
    return swept.seen >= BATCH


def _promote(keys: Queue) -> Call[Swept]:
    return upkeep.promote(keys, BATCH)


def _reap(keys: Queue) -> Call[Swept]:
    return upkeep.reap(keys, BATCH, pause_ms=lost_pause_ms())


_CALLS: Final[dict[str, Callable[[Queue], Call[Any]]]] = {
    "promote": _promote,
    "reap": _reap,
    "look": read.look,
}
