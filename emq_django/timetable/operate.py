"""What operators do with the timetable: list it, pause and resume an entry, fire one now.

For commands and the admin; each function asks each server once. ``run`` of ``wire_of(queue)`` is
all that is asked of a wire, so that the admin can come with its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from emq_django.conf import nearest
from emq_django.connections import wire_for
from emq_django.errors import ConfigError, EmqError, InvalidInput
from emq_django.protocol import periodic
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.periodic import ScheduleState
from emq_django.timetable.entries import Entry, entries

WireOf = Callable[[Queue], Any]


class Standing(NamedTuple):
    """One entry as operators see it; times are Unix ms by the server's clock.

    ``trouble`` says why nothing more is known.
    """

    entry: Entry
    queue: str
    task: str
    state: ScheduleState = ScheduleState()
    next_ms: int | None = None
    trouble: str = ""

    @property
    def is_paused(self) -> bool:
        """Whether the entry fires nothing."""
        return self.state.paused_ms is not None


def standings(wire_of: WireOf = wire_for) -> list[Standing]:
    """Return every entry and where it stands, by name. Raises ConfigError for a bad entry."""
    by_queue: dict[str, list[Entry]] = {}
    found: list[Standing] = []
    for entry in entries().values():
        try:
            by_queue.setdefault(entry.queue.wire_name, []).append(entry)
        except ConfigError as exc:
            found.append(Standing(entry, "", "", trouble=str(exc)))
    for group in by_queue.values():
        found += _of_queue(group, wire_of)
    return sorted(found, key=lambda one: one.entry.name)


def pause(name: str, wire_of: WireOf = wire_for) -> bool:
    """Let an entry fire nothing until it is resumed. False: it was paused already."""
    queue = entry_called(name).queue
    return bool(wire_of(queue).run(periodic.pause(queue, name)))


def resume(name: str, wire_of: WireOf = wire_for) -> bool:
    """Let an entry fire again, from its next time on. False: it was not paused."""
    queue = entry_called(name).queue
    return bool(wire_of(queue).run(periodic.resume(queue, name)))


def fire_now(name: str) -> str:
    """Enqueue an entry's job now, besides its times and also while it is paused; return its id.

    It is an ordinary enqueue of the entry's task, so a live job with its unique key is a duplicate.
    """
    entry = entry_called(name)
    result: Any = entry.task.enqueue(*entry.args, **entry.kwargs)
    return str(result.id)


def entry_called(name: str) -> Entry:
    """Return the entry of a name. Raises InvalidInput."""
    known = entries()
    if name not in known:
        raise InvalidInput(f"there is no periodic task {name!r}.{nearest(name, known)}")
    return known[name]


def _of_queue(group: list[Entry], wire_of: WireOf) -> list[Standing]:
    queue = group[0].queue
    call = periodic.look(queue, [entry.name for entry in group])
    try:
        now_ms, states = wire_of(queue).run(call)
    except EmqError as exc:
        return [
            Standing(entry, queue.name, entry.task.module_path, trouble=str(exc)) for entry in group
        ]
    return [
        Standing(entry, queue.name, entry.task.module_path, state, entry.schedule.after(now_ms))
        for entry, state in zip(group, states, strict=True)
    ]
