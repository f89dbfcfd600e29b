"""Looks for what is wrong with settings, servers, rights and data; puts right what can be.

The data of a queue is walked key by key in bounded steps, each of which looks again at what it
changes, so that workers and producers may go on meanwhile. A walk can stop anywhere; what it put
right stays so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from django.core.checks import WARNING, CheckMessage

from emq_django import checks, server_checks
from emq_django.conf import keys
from emq_django.connections import hearing_clients, wire_for
from emq_django.errors import EmqError, LoginRefused
from emq_django.operating import health, rights
from emq_django.operating.command import sentence
from emq_django.operating.keys import scan
from emq_django.operating.survey import Survey
from emq_django.operating.terminal import Paint, Terminal
from emq_django.operating.text import in_number, safe
from emq_django.protocol import lanes, mend
from emq_django.protocol.ids import is_branded
from emq_django.protocol.keyspace import Queue, id_text
from emq_django.protocol.mend import Found
from emq_django.wire.replies import error_for
from emq_django.wire.sync import Wire

STOPPED_TEXT: Final = "stopped: what was put right stays so, the same command does the rest"
_STEP: Final = 100  # ids in one script: one in no set is looked for in up to 1,000 lanes
_SETS: Final = ("pending", "active", "schedule", "dead")
_WORDS: Final = {
    Found.GHOST: (
        "1 id without a row: a claim drops it, --fix does now",
        "{} ids without a row: a claim drops them, --fix does now",
    ),
    Found.ORPHAN: (
        "1 row in no set, which no worker finds: --fix puts it back",
        "{} rows in no set, which no worker finds: --fix puts them back",
    ),
    Found.HUSK: (
        "1 row without payload, left by another speaker's sweep: --fix removes it",
        "{} rows without payload, left by another speaker's sweep: --fix removes them",
    ),
    Found.DOUBLE: (
        "1 id in two sets: the next claim or sweep puts it right",
        "{} ids in two sets: the next claim or sweep puts them right",
    ),
    Found.DAMAGED: (
        "1 row that can't be read: the next claim buries it, emq_job shows it",
        "{} rows that can't be read: the next claim buries them, emq_job shows them",
    ),
}
_TRACKING: Final = (
    "Jobs start up to half a second later. Allow the server's user CLIENT, in RESP3 (HELLO 3)."
)
_MENDED: Final = {
    Found.GHOST: ("1 id without a row was removed", "{} ids without a row were removed"),
    Found.ORPHAN: ("1 row in no set was put back", "{} rows in no set were put back"),
    Found.HUSK: (
        "1 row without payload was removed",
        "{} rows without payload were removed",
    ),
}
_OF_SETS: Final = frozenset({Found.GHOST})
_OF_ROWS: Final = frozenset(Found) - _OF_SETS
_CHECKS: Final = (
    checks.check_settings,
    checks.check_tasks,
    checks.check_database_for_deployment,
    checks.check_pools,
    checks.check_leases,
    checks.check_handlers,
    server_checks.check_servers,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or was."""

    area: str  # settings, rights, server, work, data
    text: str
    hint: str = ""
    mended: bool = False
    serious: bool = True  # False: a remark, which is no reason to call it ill

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "area": self.area, "text": self.text, "hint": self.hint, "mended": self.mended,
            "serious": self.serious,
        }  # fmt: skip


@dataclass(slots=True)
class Examined:
    """What was found in the data of one queue so far."""

    looked: int = 0
    found: Counter[Found] = field(default_factory=Counter)
    stuck: list[str] = field(default_factory=list)


def settings_and_servers() -> list[Finding]:
    """Return what the system checks say, those that ask the server too."""
    messages: list[CheckMessage] = [one for check in _CHECKS for one in check()]
    return [
        Finding(
            area="settings",
            text=f"{message.id}: {message.msg}",
            hint=message.hint or "",
            serious=message.level > WARNING,
        )
        for message in messages
        if not message.is_silenced()
    ]


def work_left(seen: Survey) -> list[Finding]:
    """Return which queues nobody works off: remarks, since ``emq_health`` judges that."""
    return [
        Finding(area="work", text=one.text, serious=False)
        for queue in seen.queues
        for one in health.about(queue, health.Limits())
    ]


def rights_on(queues: Sequence[Queue]) -> list[Finding]:
    """Return which commands the user of each server lacks, or that it can't be asked."""
    return [one for queue in rights.one_per_server(queues) for one in _rights_on(queue)]


def _rights_on(queue: Queue) -> Iterator[Finding]:
    try:
        needed, wished = rights.missing(queue)
    except LoginRefused as exc:
        yield Finding(area="rights", text=sentence(exc))
        return
    except EmqError as exc:
        # A server that is away is told by the others; what else it may be is told by nobody.
        text = f"what the server's user may run is not known: {sentence(exc)}"
        yield Finding(area="rights", text=text, serious=False)
        return
    if needed:
        yield Finding(area="rights", text=f"the server's user {needed}")
    if wished:
        text = f"the server's user may not run {wished}: nobody hears of events"
        yield Finding(area="rights", text=text, serious=False)


def deafness(queues: Sequence[Queue]) -> list[Finding]:
    """Return which servers can't tell workers of new jobs; nothing where they can't be asked."""
    try:
        clients = [client for client, _ in hearing_clients(queues)]
    except EmqError:
        return []
    found = []
    for client in clients:
        with closing(client), suppress(Exception):  # a server that is away is told by the others
            client.execute(("PING",), b"")
            if not client.hears:
                text = (
                    "the server can't tell workers of new jobs, which they look for again and"
                    f" again: CLIENT TRACKING was refused ({client.refusal})"
                )
                found.append(Finding(area="server", text=text, hint=_TRACKING, serious=False))
    return found


def examine(name: str, *, fix: bool, show: Callable[[Examined], object]) -> list[Finding]:
    """Return what is wrong with the data of a queue; ``show`` hears of each step."""
    queue, seen = keys(name), Examined()
    try:
        for step in (_rows, _sets):
            for _ in step(queue, seen, fix=fix):
                show(seen)
    except EmqError as exc:
        return [Finding(area="data", text=f"{safe(name)}: {sentence(exc)}")]
    return list(_told(name, seen, fix=fix))


def lines_of(found: list[Finding], terminal: Terminal) -> list[str]:
    """Return what was found, a line each with its remedy below."""
    lines = []
    for one in found:
        mark = "mended" if one.mended else "wrong" if one.serious else "remark"
        paint: Paint = "good" if one.mended else "bad" if one.serious else "warn"
        lines.append(f"{terminal.paint(f'{mark:<7}', paint)} {safe(one.text, 600)}")
        lines += [f"        {safe(one.hint, 600)}"] if one.hint else []
    return lines or [terminal.paint("nothing is wrong", "good")]


def but_for(error: EmqError, found: list[Finding]) -> list[Finding]:
    """Return the findings without the end that repeats ``error``, which is told after them."""
    ends = (f": {sentence(error)}", f": {error}")
    texts = [one.text.removesuffix(ends[0]).removesuffix(ends[1]) for one in found]
    return [replace(one, text=text) for one, text in zip(found, texts, strict=True)]


def is_ill(found: list[Finding]) -> bool:
    """Whether something is wrong that was not put right."""
    return any(one.serious and not one.mended for one in found)


def _told(name: str, seen: Examined, *, fix: bool) -> Iterator[Finding]:
    for kind, words in _WORDS.items():
        if count := seen.found[kind]:
            mended = fix and kind in _MENDED
            text = f"{safe(name)}: {in_number(count, *(_MENDED[kind] if mended else words))}"
            yield Finding(area="data", text=text, mended=mended)
    if seen.stuck:
        what = ", ".join(safe(lane, 40) for lane in seen.stuck[:3])
        state = (
            in_number(len(seen.stuck), "was put on the ring", "were put on the ring")
            if fix
            else in_number(
                len(seen.stuck),
                "is not on the ring: --fix puts it there",
                "are not on the ring: --fix puts them there",
            )
        )
        lanes_with = in_number(len(seen.stuck), "1 lane with work", "{} lanes with work")
        text = f"{safe(name)}: {lanes_with} ({what}) {state}"
        yield Finding(area="data", text=text, mended=fix)


def _rows(queue: Queue, seen: Examined, *, fix: bool) -> Iterator[None]:
    """Look at every row, and at what waits in every lane that has a set."""
    wire = wire_for(queue)
    for found in scan(wire, queue):
        # An id without a row is found again from its set, unless it is put right now.
        _mend(wire, queue, seen, found.rows, b"", fix, frozenset(Found) if fix else _OF_ROWS)
        yield
        for lane in found.lanes:
            key = queue.base + b"g:" + lane + b":pending"
            for ids in _members(wire, queue, key):
                _mend(wire, queue, seen, ids, lane, fix, _OF_SETS)
                yield
        _ring(queue, seen, found.lanes, fix=fix)


def _sets(queue: Queue, seen: Examined, *, fix: bool) -> Iterator[None]:
    wire = wire_for(queue)
    for name in _SETS:
        for ids in _members(wire, queue, queue.base + name.encode()):
            _mend(wire, queue, seen, ids, b"", fix, _OF_SETS)
            yield


def _ring(queue: Queue, seen: Examined, names: list[bytes], *, fix: bool) -> None:
    """Look whether lanes with work are on the ring. One that no place names is found by its set."""
    wire = wire_for(queue)
    ours = [name for name in map(id_text, names) if is_branded(name)]
    if not ours:
        return
    for lane in wire.run(lanes.lane_depths(queue, ours)):
        full = lane.limit is not None and lane.active >= lane.limit
        if lane.waiting and not lane.on_ring and not lane.paused and not full:
            seen.stuck.append(lane.name)
            if fix:
                wire.run(lanes.resume_lane(queue, lane.name))


def _mend(
    wire: Wire,
    queue: Queue,
    seen: Examined,
    ids: list[bytes],
    lane: bytes,
    fix: bool,
    counted: frozenset[Found],
) -> None:
    for start in range(0, len(ids), _STEP):
        part = ids[start : start + _STEP]
        answers = wire.run(mend.mend(queue, part, lane, fix=fix))
        seen.looked += len(part)
        seen.found.update(answer for answer in answers if answer in counted)


def _members(wire: Wire, queue: Queue, key: bytes) -> Iterator[list[bytes]]:
    """Yield the members of a sorted set, a bounded step at a time."""
    cursor: bytes | str = "0"
    while True:
        try:
            cursor, flat = wire.client.execute(("ZSCAN", key, cursor, "COUNT", _STEP), queue.base)
        except Exception as exc:  # noqa: BLE001 - mapped to the error tree
            error = error_for(exc)
            raise error from error.__cause__
        yield flat[::2]
        if cursor in {b"0", "0"}:
            return
