"""Bounded reads of all servers of the project over the admin's wire, which waits 3 s at most.

A part that can't be read is an error in its place; nothing is shown as zero and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from emq_django.conf import conf, keys
from emq_django.connections import admin_wire_for
from emq_django.errors import InvalidQueueName
from emq_django.protocol import read, registry
from emq_django.protocol.calls import Call
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.records import Counts
from emq_django.wire.cluster import ClusterClient
from emq_django.wire.sync import Wire

R = TypeVar("R")

_ANY_QUEUE: Final = "default"  # where names are asked for when the settings list no queue


def ask_each(wire: Wire, calls: Sequence[Call[R]]) -> list[R | Exception]:
    """Run Calls in one flush; an answer or an error for each.

    Over a cluster each goes by itself, since a flush must stay on one slot.
    """
    if not isinstance(wire.client, ClusterClient) or len(calls) == 1:
        try:
            return [*wire.run_many(calls)]
        except (ArithmeticError, LookupError, TypeError, ValueError) as exc:
            # Another speaker wrote what can't be read, an infinite score for one. Find out where.
            if len(calls) == 1:
                return [exc]
    return [answer for call in calls for answer in ask_each(wire, [call])]


def ask_where(asked: Sequence[tuple[Queue, Call[Any]]]) -> list[Any]:
    """Run Calls, each on the server of its queue, in one flush per server; answers in order."""
    by_wire: dict[int, tuple[Wire, list[int]]] = {}
    for place, (queue, _call) in enumerate(asked):
        wire = admin_wire_for(queue)
        by_wire.setdefault(id(wire), (wire, []))[1].append(place)
    found: list[Any] = [None] * len(asked)
    for wire, places in by_wire.values():
        answers = ask_each(wire, [asked[place][1] for place in places])
        for place, answer in zip(places, answers, strict=True):
            found[place] = answer
    return found


def wires(names: Iterable[str] = ()) -> list[Wire]:
    """Return the wires to the servers of these queues; without names of those in the settings."""
    wanted = list(names) or sorted(conf().queues) or [_ANY_QUEUE]
    return wires_of(map(keys, wanted))


def wires_of(queues: Iterable[Queue]) -> list[Wire]:
    """Return the wires to the servers of these queues, each once."""
    return list({id(wire): wire for wire in map(admin_wire_for, queues)}.values())


@dataclass(frozen=True, slots=True)
class Noted:
    """The queues that servers know of, and what is wrong with servers that could not be asked."""

    names: set[str] = field(default_factory=set)
    troubles: dict[int, Exception] = field(default_factory=dict)  # by the id() of the wire


def noted(asked: Iterable[Wire]) -> Noted:
    """Ask each server which queues of this project were used on it."""
    found = Noted()
    for wire in asked:
        (answer,) = ask_each(wire, [registry.registered()])
        if isinstance(answer, Exception):
            found.troubles[id(wire)] = answer
        else:
            found.names.update(_own(answer.names))
    return found


def counts_of(names: Sequence[str], lost: Mapping[int, Exception]) -> dict[str, Counts | Exception]:
    """Return the figures of each queue, in order; a wire that is lost is not asked again.

    Those of a queue with priorities are the sum of its bands.
    """
    bands = {name: conf().bands(name) for name in names}
    each = _counts_of_each([band for some in bands.values() for band in some], lost)
    return {name: sum_of([each[band] for band in some]) for name, some in bands.items()}


def sum_of(answers: Sequence[Counts | Exception]) -> Counts | Exception:
    """Return the figures of queues that stand for one, or why one of them can't be read."""
    counts: list[Counts] = []
    for answer in answers:
        if isinstance(answer, Exception):
            return answer
        counts.append(answer)
    return Counts.sum_of(counts) if len(counts) > 1 else counts[0]


def _counts_of_each(
    names: Sequence[str], lost: Mapping[int, Exception]
) -> dict[str, Counts | Exception]:
    found: dict[str, Counts | Exception] = {
        name: gone
        for name in names
        if (gone := lost.get(id(admin_wire_for(keys(name))))) is not None
    }
    asked = [name for name in names if name not in found]
    answers = ask_where([(keys(name), read.counts(keys(name))) for name in asked])
    return found | dict(zip(asked, answers, strict=True))


def _own(wire_names: list[str]) -> set[str]:
    """Return the names that belong to this project, without its prefix; bands as their queue."""
    prefix = conf().queue_prefix
    names = {name.removeprefix(prefix) for name in wire_names if name.startswith(prefix)}
    return {conf().base_of(name) for name in names if _is_queue_name(name)}


def _is_queue_name(name: str) -> bool:
    try:
        keys(name)
    except InvalidQueueName:
        return False
    return True
