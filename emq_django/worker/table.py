"""The table that a worker tree shares: what each child holds, where its parent can read it.

One anonymous shared mapping, a region per child. The child writes, the parent reads, and nobody
locks: a slot's state is written last when it is filled and first when it is emptied, and whatever
is done on the strength of a slot is fenced by its id and token. So a slot that is read while it
changes costs a refused call and nothing else. Times are the machine's monotonic clock, which all
processes share.
"""

from __future__ import annotations

import mmap
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from emq_django.protocol.keyspace import id_bytes, id_text

_BEAT_AT, _ASKED_AT, _USED_AT = 0, 8, 16  # beat_s, asked_s, slots used so far
_APPOINTED_AT, _HEARS_AT = 24, 25  # may it hear of jobs for itself, does it
_HEADER_BYTES: Final = 64
_CONNECTIONS: Final = 192  # numbers of open connections; further ones are not noted
# state, tries, queue, bytes of the id, lease_ms, token, began_s, until_s, deadline_s, helped_s,
# max_attempts + 1 (0: its queue's), pause_ms, id
_SLOT: Final = struct.Struct("<BxHHHIqddddII")
_BEGAN_AT, _UNTIL_AT, _DEADLINE_AT, _HELPED_AT, _POLICY_AT = 20, 28, 36, 44, 52
_ID_AT: Final = _SLOT.size
_ID_BYTES: Final = 64  # a longer id (another speaker's) is found by the mark on its row
SLOT_BYTES: Final = 128
_ASKED_TO_END_AT: Final = _ID_AT + _ID_BYTES  # the mark of the job that is asked to, 4 bytes
_WHOLE_SLOT: Final = struct.Struct(f"{_SLOT.format}{_ID_BYTES}sI")

_DOUBLE: Final = struct.Struct("<d")
_NUMBER: Final = struct.Struct("<q")
_MARK: Final = struct.Struct("<I")
_POLICY: Final = struct.Struct("<II")
_LARGEST: Final = 2**32 - 1


class State(IntEnum):
    """What a child is doing with a job."""

    FREE = 0
    HELD = 1  # taken, not begun
    STARTED = 2
    SETTLING = 3  # its end is being reported


class Slot(NamedTuple):
    """One job in a child's hands. ``queue`` is its position among the worker's queues.

    ``max_attempts`` and ``pause_ms`` are for the case that the hard limit ends its run.
    """

    place: int
    state: State
    queue: int
    id: str
    token: int
    tries: int
    lease_ms: int
    began_s: float
    until_s: float  # when its lease ends, as last renewed by the child or for it
    deadline_s: float  # when it must have ended; 0 for never
    max_attempts: int | None  # None: its queue's, and so is the pause
    pause_ms: int
    asked_to_end: bool


class Table:
    """The whole mapping. Made by the parent before its first fork.

    A worker without a parent has one of its own, which nobody guards: no limit in it is kept.
    """

    def __init__(self, regions: int, slots: int, *, guarded: bool = True) -> None:
        self._region_bytes = _HEADER_BYTES + 8 * _CONNECTIONS + SLOT_BYTES * slots
        self._map = mmap.mmap(-1, self._region_bytes * regions)
        self._slots = slots
        self._guarded = guarded

    def region(self, number: int) -> Region:
        """Return the region of the ``number``-th child."""
        at = self._region_bytes * number
        return Region(self._map, at, self._slots, guarded=self._guarded)

    def close(self) -> None:
        """Give the memory back."""
        self._map.close()


class Region:
    """One child's part, as both sides see it. Methods of the parent are marked so."""

    def __init__(self, table: mmap.mmap, offset: int, slots: int, *, guarded: bool = True) -> None:
        self.guarded = guarded
        self._map = table
        self._at = offset
        self._connections_at = offset + _HEADER_BYTES
        self._slots_at = self._connections_at + 8 * _CONNECTIONS
        self._slots = slots
        self._lock = threading.Lock()  # connections are opened by any thread
        self._used = 0
        self._free = list(range(slots))
        self._free.reverse()

    def clear(self) -> None:
        """Forget everything (parent, before it forks a child into this region)."""
        end = self._slots_at + SLOT_BYTES * self._slots
        self._map[self._at : end] = bytes(end - self._at)
        self._used = 0
        self.beat()

    def beat(self) -> None:
        """Say that the child's threads run."""
        _DOUBLE.pack_into(self._map, self._at + _BEAT_AT, time.monotonic())

    def beat_s(self) -> float:
        """Return when the child's threads were last seen running (parent)."""
        return float(_DOUBLE.unpack_from(self._map, self._at + _BEAT_AT)[0])

    def asked(self, now_s: float) -> None:
        """Note when the last take was sent that found nothing more."""
        _DOUBLE.pack_into(self._map, self._at + _ASKED_AT, now_s)

    def asked_s(self) -> float:
        """Return when the last take was sent that found nothing more (parent)."""
        return float(_DOUBLE.unpack_from(self._map, self._at + _ASKED_AT)[0])

    def appoint(self, appointed: bool) -> None:
        """Let this child hear of jobs for itself, once it sees that, or not (parent)."""
        self._map[self._at + _APPOINTED_AT] = appointed

    def is_appointed(self) -> bool:
        """Tell whether it may hear of jobs for itself."""
        return bool(self._map[self._at + _APPOINTED_AT])

    def hears(self, hears: bool) -> None:
        """Note whether it does."""
        self._map[self._at + _HEARS_AT] = hears

    def is_hearing(self) -> bool:
        """Tell whether it hears of jobs for itself, and has not come back from a take (parent)."""
        return bool(self._map[self._at + _HEARS_AT])

    def hold(
        self, queue: int, job_id: str, token: int, tries: int, lease_ms: int, until_s: float
    ) -> int:
        """Note a job; returns its slot, -1 where there is no room for it. For one thread only."""
        raw = id_bytes(job_id)
        if not self._free or len(raw) > _ID_BYTES:
            return -1
        index = self._free.pop()
        if index >= self._used:
            self._used = index + 1
            _NUMBER.pack_into(self._map, self._at + _USED_AT, self._used)
        at = self._slot_at(index)
        _WHOLE_SLOT.pack_into(
            self._map, at, State.FREE, min(tries, 65_535), queue, len(raw),
            min(lease_ms, _LARGEST), token, 0.0, until_s, 0.0, 0.0, 0, 0, raw, 0,
        )  # fmt: skip
        self._map[at] = State.HELD
        return index

    def started(self, index: int, deadline_s: float = 0.0) -> None:
        """Note that a job's handler is called now, and by when it must have ended."""
        if index >= 0:
            at = self._slot_at(index)
            _DOUBLE.pack_into(self._map, at + _BEGAN_AT, time.monotonic())
            _DOUBLE.pack_into(self._map, at + _DEADLINE_AT, deadline_s)
            self._map[at] = State.STARTED

    def limited(self, index: int, deadline_s: float) -> None:
        """Note by when a job that runs must have ended."""
        if index >= 0:
            _DOUBLE.pack_into(self._map, self._slot_at(index) + _DEADLINE_AT, deadline_s)

    def judged_by(self, index: int, max_attempts: int, pause_ms: int) -> None:
        """Note what becomes of a job whose run the hard limit ends; the pause is cut at 49 days."""
        if index >= 0:
            at = self._slot_at(index) + _POLICY_AT
            most = min(max_attempts, _LARGEST - 1) + 1
            _POLICY.pack_into(self._map, at, most, min(pause_ms, _LARGEST))

    def settling(self, index: int) -> None:
        """Note that the job's end is being reported; there is nothing left to be limited."""
        if index >= 0:
            at = self._slot_at(index)
            _DOUBLE.pack_into(self._map, at + _DEADLINE_AT, 0.0)
            self._map[at] = State.SETTLING

    def renewed(self, index: int, until_s: float) -> None:
        """Note that the lease now ends later."""
        if index >= 0:
            _DOUBLE.pack_into(self._map, self._slot_at(index) + _UNTIL_AT, until_s)

    def helped(self, index: int, until_s: float) -> None:
        """Note that the lease was renewed for a child that did not do it (parent)."""
        _DOUBLE.pack_into(self._map, self._slot_at(index) + _HELPED_AT, until_s)

    def helped_until_s(self, index: int) -> float:
        """Return until when the parent renewed the lease; 0 where it did not have to."""
        if index < 0:
            return 0.0
        return float(_DOUBLE.unpack_from(self._map, self._slot_at(index) + _HELPED_AT)[0])

    def ask_to_end(self, slot: Slot) -> None:
        """Ask for the end of a job (parent). Another one in its place is not meant by the mark."""
        at = self._slot_at(slot.place) + _ASKED_TO_END_AT
        _MARK.pack_into(self._map, at, _mark(slot.id, slot.token))

    def is_asked_to_end(self, index: int, job_id: str, token: int) -> bool:
        """Tell whether somebody wants this job to end."""
        if index < 0:
            return False
        (asked,) = _MARK.unpack_from(self._map, self._slot_at(index) + _ASKED_TO_END_AT)
        return bool(asked and asked == _mark(job_id, token))

    def drop(self, index: int) -> None:
        """Empty a slot."""
        if index >= 0:
            self._map[self._slot_at(index)] = State.FREE
            self._free.append(index)

    def slots(self) -> list[Slot]:
        """Return the slots in use (parent)."""
        used = int(_NUMBER.unpack_from(self._map, self._at + _USED_AT)[0])
        return [slot for index in range(min(used, self._slots)) for slot in self._read(index)]

    def connected(self, number: int) -> None:
        """Note the server's number of a new connection."""
        self._swap(0, number)

    def disconnected(self, number: int) -> None:
        """Forget a connection that was closed."""
        self._swap(number, 0)

    def connections(self) -> list[int]:
        """Return the numbers of open connections (parent)."""
        raw = self._map[self._connections_at : self._connections_at + 8 * _CONNECTIONS]
        return [number for (number,) in _NUMBER.iter_unpack(raw) if number]

    def _swap(self, old: int, new: int) -> None:
        with self._lock:
            for at in range(self._connections_at, self._slots_at, 8):
                if _NUMBER.unpack_from(self._map, at)[0] == old:
                    _NUMBER.pack_into(self._map, at, new)
                    return

    def _slot_at(self, index: int) -> int:
        return self._slots_at + SLOT_BYTES * index

    def _read(self, index: int) -> Iterator[Slot]:
        at = self._slot_at(index)
        raw = self._map[at : at + SLOT_BYTES]
        if raw[0] == State.FREE or raw[0] > State.SETTLING:
            return
        (
            state, tries, queue, size, lease_ms, token, began_s, until_s, deadline_s, helped_s,
            most, pause_ms,
        ) = _SLOT.unpack_from(raw)  # fmt: skip
        job_id = id_text(raw[_ID_AT : _ID_AT + size])
        until_s = max(until_s, helped_s)
        yield Slot(
            index, State(state), queue, job_id, token, tries, lease_ms, began_s, until_s,
            deadline_s, most - 1 if most else None, pause_ms,
            self.is_asked_to_end(index, job_id, token),
        )  # fmt: skip


def _mark(job_id: str, token: int) -> int:
    """Return a number that stands for one run of one job; never 0."""
    return zlib.crc32(b"%d:%s" % (token, id_bytes(job_id))) | 1
