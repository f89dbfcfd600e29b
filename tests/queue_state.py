"""All of a queue's keys at one moment, and the laws that hold between them.

The reads are the test's own: nothing here uses the scripts that are under test.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue

FLAT_SETS = {b"pending": b"pending", b"active": b"active", b"schedule": b"scheduled"}
FLAT_SETS[b"dead"] = b"dead"
_MARKS = (b":done", b":relayed", b":result", b":logs", b":lock")


@dataclass(frozen=True)
class QueueState:
    """`keys`: what stands behind `emq:{q}:` -> (type, value). Equal states: equal to the byte."""

    keys: dict[bytes, tuple[bytes, Any]]

    def value(self, name: bytes, kind: bytes) -> Any:
        """Return the value of a key of this type; empty when it has another type or is missing."""
        found, value = self.keys.get(name, (b"none", None))
        if found == kind:
            return value
        return {b"zset": {}, b"hash": {}, b"list": [], b"set": set()}[kind]

    @property
    def lanes(self) -> dict[bytes, dict[bytes, float]]:
        """The waiting jobs of each lane."""
        return {
            name[2:-8]: value
            for name, (kind, value) in self.keys.items()
            if kind == b"zset" and name.startswith(b"g:") and name.endswith(b":pending")
        }

    @property
    def places(self) -> dict[bytes, list[bytes]]:
        """Which sets hold an id: `pending`, `active`, `schedule`, `dead`, `g:<lane>:pending`."""
        found: dict[bytes, list[bytes]] = defaultdict(list)
        names = [*FLAT_SETS, *(b"g:%b:pending" % lane for lane in self.lanes)]
        for name in names:
            for member in self.value(name, b"zset"):
                found[member].append(name)
        return dict(found)

    @property
    def rows(self) -> dict[bytes, dict[bytes, bytes] | None]:
        """The row of each id; None for a key of another type."""
        return {
            name[4:]: value if kind == b"hash" else None
            for name, (kind, value) in self.keys.items()
            if name.startswith(b"job:") and not name.endswith(_MARKS)
        }

    def row(self, job_id: str) -> dict[bytes, bytes]:
        row = self.rows.get(job_id.encode())
        return {} if row is None else row

    def place(self, job_id: str) -> list[str]:
        return [name.decode() for name in self.places.get(job_id.encode(), [])]


READ_LUA = """
local glob = string.gsub(ARGV[1], '[%*%?%[%]\\\\^]', '\\\\%0') .. '*'
local names, answer = redis.call('KEYS', glob), {}
local READERS = {
  string = {'GET'}, hash = {'HGETALL'}, list = {'LRANGE', 0, -1}, set = {'SMEMBERS'},
  zset = {'ZRANGE', 0, -1, 'WITHSCORES'}, stream = {'XRANGE', '-', '+'},
}
table.sort(names)
for i, name in ipairs(names) do
  local kind = redis.call('TYPE', name).ok
  local read = READERS[kind]
  answer[i] = {name, kind, redis.call(read[1], name, unpack(read, 2))}
end
return answer
"""
_VALUES: dict[bytes, Callable[[Any], Any]] = {
    b"hash": lambda flat: dict(zip(flat[::2], flat[1::2], strict=True)),
    b"zset": lambda flat: dict(zip(flat[::2], map(float, flat[1::2]), strict=True)),
    b"set": set,
}


def read_state(client: Any, queue: Queue) -> QueueState:
    """Read every key of a queue at one moment."""
    return state_of(client.eval(READ_LUA, 0, queue.base), queue)


def state_of(answer: Any, queue: Queue) -> QueueState:
    """Return what READ_LUA answered as a state."""
    return QueueState(
        {
            name[len(queue.base) :]: (kind, _VALUES.get(kind, _same)(value))
            for name, kind, value in answer
        }
    )


def _same(value: Any) -> Any:
    return value


def _glob(text: bytes) -> bytes:
    return b"".join(b"\\" + bytes([c]) if c in b"*?[]\\^" else bytes([c]) for c in text)


def remove_queue(client: Any, queue: Queue) -> None:
    if names := client.keys(_glob(queue.base) + b"*"):
        client.delete(*names)


def broken_laws(state: QueueState) -> list[str]:
    """Return what is wrong with a queue that nobody has damaged; nothing when all is well."""
    return [*_broken_jobs(state), *_broken_lanes(state)]


def check_invariants(client: Any, queue: Queue) -> QueueState:
    """Assert that all laws hold and return the state."""
    state = read_state(client, queue)
    wrong = broken_laws(state)
    assert not wrong, "\n".join(wrong)
    return state


def _broken_jobs(state: QueueState) -> list[str]:
    wrong = []
    rows, places = state.rows, state.places
    for job_id, held_by in places.items():
        if len(held_by) > 1:
            wrong.append(f"{job_id!r} is in {held_by}")
        row = rows.get(job_id)
        if not row:
            wrong.append(f"{job_id!r} in {held_by} has no row")
            continue
        if b"payload" not in row or not row.get(b"attempts", b"").isdigit():
            wrong.append(f"{job_id!r} has the row {row}")
        expected = FLAT_SETS.get(held_by[0], b"pending")
        if row.get(b"state") != expected:
            wrong.append(f"{job_id!r} is in {held_by} but its row says {row.get(b'state')!r}")
        if held_by[0].startswith(b"g:") and row.get(b"group") != held_by[0][2:-8]:
            wrong.append(f"{job_id!r} is in {held_by} but its row says {row.get(b'group')!r}")
        if held_by[0] != b"active" and b"worker" in row:
            wrong.append(f"{job_id!r} is in {held_by} with a mark {row[b'worker']!r}")
    wrong += [f"{job_id!r} has a row and is in no set" for job_id in rows if job_id not in places]
    for name in (b"pending", b"dead", *(b"g:%b:pending" % lane for lane in state.lanes)):
        scores = set(state.value(name, b"zset").values())
        if scores - {0.0}:
            wrong.append(f"{name!r} has the scores {scores}")
    return wrong


def _broken_lanes(state: QueueState) -> list[str]:
    wrong = []
    in_flight = Counter(
        row[b"group"]
        for job_id, held_by in state.places.items()
        if b"active" in held_by and (row := state.rows.get(job_id)) and b"group" in row
    )
    counted = {lane: int(number) for lane, number in state.value(b"gactive", b"hash").items()}
    if counted != in_flight:
        wrong.append(f"gactive says {counted}, in flight are {dict(in_flight)}")
    ring = state.value(b"ring", b"list")
    paused, limits = state.value(b"paused", b"set"), state.value(b"glimit", b"hash")
    servable = {
        lane
        for lane, waiting in state.lanes.items()
        if waiting
        and lane not in paused
        and (not limits.get(lane, b"").isdigit() or in_flight[lane] < int(limits[lane]))
    }
    if sorted(ring) != sorted(servable):
        wrong.append(f"the ring holds {ring}, servable are {servable}")
    if len(state.value(b"wake", b"list")) > 64:
        wrong.append("wake holds more than 64 tokens")
    return wrong
