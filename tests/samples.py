"""A queue with something of everything, and sample Calls of every builder that act on it.

A new builder gets a line in `SAMPLES`; the tests of headers and of bad data then cover it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from emq_django.protocol import (
    browse,
    claim,
    enqueue,
    lanes,
    notes,
    operate,
    read,
    recover,
    registry,
    repeats,
    results,
    settle,
    upkeep,
)
from emq_django.protocol.calls import Call
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.records import ClaimedJob, JobSet
from tests.queue_state import READ_LUA, QueueState, state_of
from tests.samples_operating import OPERATING_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Mapping

LANE: Final = "USR0KHTOWnGLuC"
OTHER_LANE: Final = "USR0NgWEfAEJfs"  # named by settings only, nothing waits there
PENDING, PENDING_TOO = "JOB00000000010", "JOB00000000011"
IN_LANE, IN_LANE_TOO = "JOB00000000020", "JOB00000000021"
ACTIVE, ACTIVE_IN_LANE = "JOB00000000030", "JOB00000000031"
EXPIRED, EXPIRED_IN_LANE = "JOB00000000040", "JOB00000000041"
DUE, DUE_IN_LANE, NOT_DUE = "JOB00000000050", "JOB00000000051", "JOB00000000052"
DEAD, DEAD_IN_LANE = "JOB00000000060", "JOB00000000061"
NEW, NEW_TOO = "JOB00000000070", "JOB00000000071"
SIEVE: Final = browse.Sieve(attempts=1, lane=LANE, task=b"pay", texts=(b"x",), died_until_ms=1)
KEPT: Final = results.Kept(60_000, 100, 10, b"{}", (("value", b"1"),))
LATER_MS: Final = 2**42  # in the year 2109


def _commands() -> list[tuple[str, str, tuple[str, ...]]]:
    """Return (command, key as it follows the root, arguments) for the whole sample state."""
    lane, commands = f"g:{LANE}:pending", []

    def put(command: str, key: str, *arguments: object) -> None:
        commands.append((command, key, tuple(map(str, arguments))))

    def job(job_id: str, place: str, score: int, **fields: str) -> None:
        row = {"payload": f"payload of {job_id}", **fields}
        put("HSET", f"job:{job_id}", *(part for pair in row.items() for part in pair))
        put("ZADD", place, score, job_id)

    in_lane = {"group": LANE}
    job(PENDING, "pending", 0, state="pending", attempts="0", unique="k")
    job(PENDING_TOO, "pending", 0, state="pending", attempts="0")
    for job_id in (IN_LANE, IN_LANE_TOO):
        job(job_id, lane, 0, state="pending", attempts="2", failures="1", **in_lane)
    job(ACTIVE, "active", LATER_MS, state="active", attempts="3", worker="w:3", failures="2")
    job(ACTIVE_IN_LANE, "active", LATER_MS, state="active", attempts="1", **in_lane)
    job(EXPIRED, "active", 1, state="active", attempts="1", worker="w:1")
    job(EXPIRED_IN_LANE, "active", 2, state="active", attempts="1", stalled="1", **in_lane)
    job(DUE, "schedule", 1, state="scheduled", attempts="0")
    job(DUE_IN_LANE, "schedule", 2, state="scheduled", attempts="0", **in_lane)
    job(NOT_DUE, "schedule", LATER_MS, state="scheduled", attempts="0")
    job(DEAD, "dead", 0, state="dead", attempts="5", last_error="boom")
    job(DEAD_IN_LANE, "dead", 0, state="dead", attempts="5", last_error="boom", **in_lane)
    put("RPUSH", "ring", LANE)
    put("SADD", "paused", OTHER_LANE)
    put("HSET", "glimit", LANE, 9, OTHER_LANE, 2)
    put("HSET", "gactive", LANE, 2)
    put("HSET", "gweight", LANE, 2)
    put("LPUSH", "wake", 1)
    put("HSET", "meta", "concurrency", 100, "max", 100, "window_ms", 60_000)
    put("SET", "limiter", 1, "PX", 60_000)
    put("HSET", "dj:turns", LANE, 1)
    put("HSET", "dj:unique", "k", PENDING)
    put("HSET", "dj:periodic", "slot:nightly", 1, "id:nightly", PENDING)
    put("SET", "de:d", PENDING)
    put("HSET", "metrics:completed", "count", 7)
    put("HSET", "metrics:failed", "count", 1)
    put("ZADD", "repeat", 1, "tick")
    put("HSET", "repeat:tick", "every_ms", 60_000, "template", "tock")
    put("RPUSH", f"job:{ACTIVE}:logs", "line")
    return commands


Command = tuple[str | bytes, ...]  # name, key as it follows the root, arguments

_FILL_LUA = """
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do redis.call('DEL', key) end
local at = 2
while ARGV[at] do
  local count = tonumber(ARGV[at])
  redis.call(ARGV[at + 1], ARGV[1] .. ARGV[at + 2], unpack(ARGV, at + 3, at + count))
  at = at + count + 1
end
"""


def _flat(commands: Iterable[Command]) -> list[str | bytes]:
    return [part for command in commands for part in (str(len(command)), *command)]


_SAMPLE = _flat((name, key, *arguments) for name, key, arguments in _commands())
# What one script needs on top: obliterate works on a paused queue.
_MORE: Mapping[str, Command] = {"obliterate": ("HSET", "meta", "paused", "1")}


def fill(client: Any, q: Queue, script: str = "", damage: Sequence[Command] = ()) -> QueueState:
    """Put the queue into its sample state by plain commands, as any speaker could have.

    What `damage` does comes on top. Returns the state.
    """
    more = [_MORE[script]] if script in _MORE else []
    commands = [*_SAMPLE, *_flat([*more, *damage])]
    return state_of(client.eval(_FILL_LUA + READ_LUA, 0, q.base, *commands), q)


def held(job_id: str, attempts: int, q: Queue) -> ClaimedJob:
    """Return the record that the holder of a sample's active job has."""
    return ClaimedJob(job_id, f"payload of {job_id}".encode(), attempts, q.name)


# Every key of the registry that a queue can have, as it follows the root, and its type.
KEYS: Mapping[bytes, bytes] = {
    b"": b"none",
    b"pending": b"zset",
    b"active": b"zset",
    b"schedule": b"zset",
    b"dead": b"zset",
    b"g:" + LANE.encode() + b":pending": b"zset",
    b"ring": b"list",
    b"paused": b"set",
    b"glimit": b"hash",
    b"gactive": b"hash",
    b"gweight": b"hash",
    b"wake": b"list",
    b"meta": b"hash",
    b"metrics:completed": b"hash",
    b"metrics:failed": b"hash",
    b"limiter": b"string",
    b"dj:turns": b"hash",
    b"dj:unique": b"hash",
    b"dj:periodic": b"hash",
    b"dj:finished": b"none",
    b"de:d": b"string",
    b"repeat": b"zset",
    b"repeat:tick": b"hash",
    b"job:" + ACTIVE.encode() + b":logs": b"list",
    b"job:" + ACTIVE.encode() + b":lock": b"none",
    b"job:" + ACTIVE.encode() + b":done": b"none",
}

Sample = Callable[[Queue], Call[Any]]

SAMPLES: Mapping[str, tuple[Sample, ...]] = {
    # enqueue.py
    "enqueue": (lambda q: enqueue.enqueue(q, NEW, b"new"),),
    "enqueue_lane": (lambda q: enqueue.enqueue_lane(q, NEW, b"new", LANE),),
    "enqueue_many": (
        lambda q: enqueue.enqueue_many(q, [(NEW, b"new"), (NEW_TOO, b"new")]),
        lambda q: enqueue.enqueue_many(q, [(NEW, b"new"), (NEW_TOO, b"new")], LANE),
    ),
    "schedule": (
        lambda q: enqueue.enqueue_at(q, NEW, b"new", LATER_MS),
        lambda q: enqueue.enqueue_in(q, NEW, b"new", 1_000, LANE),
    ),
    "readmit": (
        lambda q: enqueue.readmit(q, NEW, b"new"),
        lambda q: enqueue.readmit(q, NEW, b"new", LANE, unique="other"),
        lambda q: enqueue.readmit(q, NEW, b"new", LANE, "in", 1_000, unique="k"),
        lambda q: enqueue.readmit(q, NEW, b"new", mark_ms=60_000),
    ),
    # claim.py
    "claim": (lambda q: claim.claim(q, 30_000),),
    "take": (
        lambda q: claim.take(q, "w", 30_000, 10),
        lambda q: claim.take(q, "w", 30_000, 1, ring_first=True),
        lambda q: claim.take(q, "w", 30_000, 10, suspects_alone=True),
        lambda q: claim.take(q, "w", 30_000, 10, max_stalled=1, events=True),
    ),
    # settle.py
    "complete": (
        lambda q: settle.complete(q, held(ACTIVE, 3, q), 60_000),
        lambda q: settle.complete(q, held(ACTIVE_IN_LANE, 1, q), events=True),
        lambda q: settle.complete(q, held(ACTIVE, 3, q), kept=KEPT),
    ),
    "complete_many": (
        lambda q: settle.complete_many(
            q,
            [
                settle.Finished(held(ACTIVE, 3, q)),
                settle.Finished(held(ACTIVE_IN_LANE, 1, q), 60_000),
            ],
        ),
        lambda q: settle.complete_many(
            q,
            [
                settle.Finished(held(ACTIVE, 3, q)),
                settle.Finished(held(ACTIVE_IN_LANE, 1, q), 60_000, KEPT),
            ],
        ),
    ),
    "retry": (
        lambda q: settle.retry(q, held(ACTIVE, 3, q), "boom", 1_000, 9),
        lambda q: settle.retry(q, held(ACTIVE_IN_LANE, 1, q), "boom", 1_000, 1, events=True),
        lambda q: settle.retry(q, held(ACTIVE, 3, q), "boom", 1_000, 9, record=b"{}"),
    ),
    "park": (
        lambda q: settle.park(q, held(ACTIVE, 3, q), 1_000, 60_000, "unknown"),
        lambda q: settle.park(q, held(ACTIVE_IN_LANE, 1, q), 1_000, 0, "unknown"),
    ),
    "release": (
        lambda q: settle.release(q, held(ACTIVE, 3, q)),
        lambda q: settle.release(q, held(ACTIVE_IN_LANE, 1, q)),
    ),
    "delay": (
        lambda q: settle.delay(q, held(ACTIVE, 3, q), "at", LATER_MS),
        lambda q: settle.delay(q, held(ACTIVE_IN_LANE, 1, q), "in", 1_000, events=True),
    ),
    "extend": (lambda q: settle.extend(q, held(ACTIVE, 3, q), 30_000),),
    "extend_many": (
        lambda q: settle.extend_many(q, [held(ACTIVE, 3, q), held(EXPIRED, 1, q)], 30_000),
    ),
    "cancelled": (lambda q: settle.cancelled(q, [held(ACTIVE, 3, q), held(EXPIRED, 1, q)]),),
    # upkeep.py
    "promote": (lambda q: upkeep.promote(q), lambda q: upkeep.promote(q, events=True)),
    "reap": (
        lambda q: upkeep.reap(q),
        lambda q: upkeep.reap(q, max_stalled=1, events=True),
        lambda q: upkeep.reap(q, pause_ms=1_000),
    ),
    "trim_dead": (
        lambda q: upkeep.trim_dead(q, 1, 0),
        lambda q: upkeep.trim_dead(q, 2**31, LATER_MS, offset=1, batch=10),
    ),
    # recover.py
    "marked": (lambda q: recover.marked(q, "w"),),
    "hand_back": (
        lambda q: recover.hand_back(
            q,
            [
                recover.Held(ACTIVE, 3),
                recover.Held(ACTIVE_IN_LANE, 1, lost=True),
                recover.Held(EXPIRED_IN_LANE, 2),
            ],
        ),
        lambda q: recover.hand_back(q, [recover.Held(EXPIRED_IN_LANE, 1, lost=True)], 2, 1_000),
        lambda q: recover.hand_back(q, [recover.Held(ACTIVE, 3, lost=True)], 1, events=True),
    ),
    # operate.py
    "pause": (operate.pause,),
    "resume": (operate.resume,),
    "limit_queue": (lambda q: operate.limit_queue(q, 3, 7), lambda q: operate.limit_queue(q)),
    "reprocess": (
        lambda q: operate.reprocess(q, [DEAD, DEAD_IN_LANE, PENDING]),
        lambda q: operate.reprocess(q, [DEAD, DEAD_IN_LANE], ["1", "0"]),
    ),
    "remove": (
        lambda q: operate.remove(q, [PENDING, IN_LANE, ACTIVE], dedup_id="d"),
        lambda q: operate.remove(q, [ACTIVE, ACTIVE_IN_LANE], also_active=True),
    ),
    "cancel": (lambda q: operate.cancel(q, [PENDING, IN_LANE, ACTIVE, ACTIVE_IN_LANE, DEAD]),),
    "update_payload": (lambda q: operate.update_payload(q, PENDING, b"payload of another"),),
    "drain": (
        lambda q: operate.drain(q, JobSet.PENDING),
        lambda q: operate.drain(q, LANE, 1),
    ),
    "hasten": (
        lambda q: operate.hasten(q, [NOT_DUE, PENDING]),
        lambda q: operate.hasten(q, [NOT_DUE, PENDING], ["1", ""]),
    ),
    "lapse": (lambda q: operate.lapse(q, [ACTIVE, ACTIVE_IN_LANE, PENDING], ["3", "", ""]),),
    "once": (lambda q: operate.once(q, "send", 60_000),),
    "drop_ghosts": (
        lambda q: operate.drop_ghosts(q, [NEW, PENDING]),
        lambda q: operate.drop_ghosts(q, [NEW, IN_LANE], LANE),
    ),
    "obliterate": (
        lambda q: operate.obliterate(q, force=True, batch=2),
        lambda q: operate.obliterate(q, force=True),
    ),
    # lanes.py
    "lane_pause": (lambda q: lanes.pause_lane(q, LANE),),
    "lane_resume": (lambda q: lanes.resume_lane(q, OTHER_LANE),),
    "lane_limit": (lambda q: lanes.limit_lane(q, LANE, 1), lambda q: lanes.limit_lane(q, LANE, 0)),
    "lane_weight": (lambda q: lanes.weigh_lane(q, LANE, 3), lambda q: lanes.weigh_lane(q, LANE, 1)),
    "lane_depths": (
        lambda q: lanes.lane_depths(q),
        lambda q: lanes.lane_depths(q, [LANE, OTHER_LANE]),
    ),
    "reassign": (lambda q: lanes.reassign(q, IN_LANE, OTHER_LANE),),
    # notes.py
    "progress": (lambda q: notes.progress(q, ACTIVE, "half"),),
    "add_log": (lambda q: notes.add_log(q, ACTIVE, "another line"),),
    "logs": (lambda q: notes.logs(q, ACTIVE),),
    # repeats.py
    "repeat_register": (
        lambda q: repeats.register_repeat(q, "new", 1_000, b"template"),
        lambda q: repeats.register_repeat(q, "new", 1_000, b"template", LATER_MS),
    ),
    "repeat_cancel": (lambda q: repeats.cancel_repeat(q, "tick"),),
    "repeat_due": (lambda q: repeats.due_repeats(q),),
    "repeat_fire": (lambda q: repeats.fire(q, repeats.Due("tick", "1"), NEW),),
    # read.py
    "counts": (read.counts,),
    "page": (
        lambda q: read.page(q, JobSet.PENDING),
        lambda q: read.page(q, JobSet.ACTIVE, cursor=EXPIRED, cursor_score=1.0, reverse=True),
        lambda q: read.page(q, LANE),
        lambda q: browse.finished(q),
    ),
    "sift": (
        lambda q: browse.sift(q, JobSet.DEAD, 100, browse.Place(), browse.Sieve()),
        lambda q: browse.sift(q, JobSet.ACTIVE, 100, browse.Place(score=5.0), SIEVE),
    ),
    "tally": (
        lambda q: browse.tally(q, JobSet.DEAD, low=DEAD),
        lambda q: browse.tally(q, JobSet.SCHEDULE, high=5.0),
    ),
    "payload": (lambda q: browse.payload(q, PENDING, 1_000),),
    "look": (read.look,),
    "row": (
        lambda q: read.row(q, ACTIVE),
        lambda q: read.row(q, IN_LANE),
        lambda q: browse.result_row(q, ACTIVE),
    ),
    "state": (lambda q: read.state(q, ACTIVE), lambda q: read.state(q, IN_LANE)),
    # results.py
    "result": (lambda q: results.result(q, ACTIVE), lambda q: results.result(q, NEW)),
    # registry.py
    "register": (lambda q: registry.register(q.wire_name),),
    "registered": (lambda q: registry.registered(),),
    **OPERATING_SAMPLES,
}
