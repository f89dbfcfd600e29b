"""Another speaker of the protocol: the original's transitions as its contract describes them.

Its scripts are in `foreign_scripts`, faults included: its sweeps make ghosts, its extend puts ids
into two sets, its retries read `attempts` as the number of tries. Nothing here is shared with the
package; tests use it as the other party on the same queue.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import redis

from tests.foreign_scripts import RING, SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emq_django.protocol.keyspace import Queue

LEASE_MS = 30_000

Refusal = Literal["stale", "gone", "not_dead", "locked", "kind"]
_REFUSALS: tuple[tuple[str, Refusal], ...] = (
    ("EMQSTALE job gone", "gone"), ("EMQSTALE", "stale"), ("EMQSTATE", "not_dead"),
    ("EMQLOCK", "locked"), ("EMQKIND", "kind"),
)  # fmt: skip


class ForeignJob(NamedTuple):
    """What the original's claims answer. A ghost has no payload."""

    id: str
    payload: bytes | None
    attempts: int
    lane: str | None = None


class Foreign:
    """The original as a client of one queue. Each verb is one call; refusals are words."""

    def __init__(self, client: Any, queue: Queue) -> None:
        self.client = client
        self.queue = queue
        self._scripts = {
            name: client.register_script(RING + text) for name, text in SCRIPTS.items()
        }

    def _run(self, name: str, keys: Sequence[bytes], *args: bytes | str | int) -> Any:
        try:
            return self._scripts[name](keys, args)
        except redis.ResponseError as exc:
            for start, word in _REFUSALS:
                if str(exc).startswith(start):
                    return word
            raise

    def _paused(self) -> bool:
        return self.client.hget(self.queue.meta, "paused") is not None

    @property
    def _wait(self) -> tuple[bytes, bytes, bytes]:
        return self.queue.pending, self.queue.active, self.queue.base

    def enqueue(self, job_id: str, payload: bytes) -> Any:
        return self._run("enqueue", (self.queue.row(job_id), self.queue.pending), job_id, payload)

    def schedule(self, job_id: str, payload: bytes, mode: Literal["at", "in"], number: int) -> Any:
        keys = (self.queue.row(job_id), self.queue.schedule)
        return self._run("schedule", keys, job_id, payload, mode, number)

    def claim(self, lease_ms: int = LEASE_MS, *, guarded: bool = True) -> ForeignJob | None:
        """Claim from the flat set: the specification's form, or the published one."""
        if self._paused():
            return None
        return _job(self._run("claim_guarded" if guarded else "claim", self._wait, lease_ms))

    def claim_batch(self, size: int, lease_ms: int = LEASE_MS) -> list[ForeignJob]:
        if self._paused():
            return []
        return _jobs(self._run("claim_batch", self._wait, lease_ms, size))

    def lane_claim(self, lease_ms: int = LEASE_MS) -> ForeignJob | None:
        if self._paused():
            return None
        keys = (self.queue.ring, self.queue.active)
        return _job(self._run("lane_claim", keys, self.queue.base, lease_ms))

    def weighted_claim(self, lease_ms: int = LEASE_MS) -> list[ForeignJob]:
        if self._paused():
            return []
        keys = (self.queue.ring, self.queue.active)
        return _jobs(self._run("weighted_claim", keys, self.queue.base, lease_ms))

    def complete(self, job_id: str, token: int) -> Any:
        keys = (self.queue.active, self.queue.row(job_id))
        return self._run("complete", keys, job_id, token, self.queue.base)

    def retry(
        self, job_id: str, token: int, delay_ms: int = 0, most: int = 3, error: str = "boom"
    ) -> Any:
        q = self.queue
        keys = (q.active, q.schedule, q.dead, q.row(job_id))
        answer = self._run("retry", keys, job_id, token, delay_ms, most, error, q.base)
        if answer == "gone":
            return "stale"  # the original's host tells no difference
        return answer.decode() if isinstance(answer, bytes) else answer

    def delay(self, job_id: str, token: int, number: int, mode: Literal["at", "in"] = "in") -> Any:
        keys = (self.queue.row(job_id), self.queue.active, self.queue.schedule)
        return self._run("delay", keys, job_id, token, mode, number)

    def promote(self, batch: int = 100) -> int:
        keys = (self.queue.schedule, self.queue.pending)
        return int(self._run("promote", keys, self.queue.base, batch))

    def reap(self) -> int:
        return int(self._run("reap", (self.queue.active, self.queue.pending), self.queue.base))

    def reap_group(self, lane: str, limit: int = 100) -> int:
        keys = (self.queue.active, self.queue.base)
        return int(self._run("reap_group", keys, lane, limit))

    def stalled(self, most: int = 1, limit: int = 100) -> tuple[list[str], list[str]]:
        keys = (self.queue.active, self.queue.pending, self.queue.dead)
        recovered, dead = self._run("stalled", keys, self.queue.base, most, limit)
        return [raw.decode() for raw in recovered], [raw.decode() for raw in dead]

    def extend(self, job_id: str, token: int, lease_ms: int = LEASE_MS) -> Any:
        keys = (self.queue.active, self.queue.row(job_id))
        return self._run("extend", keys, job_id, token, lease_ms)

    def extend_many(self, held: Sequence[tuple[str, int]], lease_ms: int = LEASE_MS) -> Any:
        pairs = [part for pair in held for part in pair]
        return self._run("extend_many", (self.queue.active,), self.queue.base, lease_ms, *pairs)

    def reprocess(self, job_id: str) -> Any:
        keys = (self.queue.row(job_id), self.queue.dead, self.queue.pending)
        return self._run("reprocess", keys, job_id)

    def remove(self, job_id: str) -> Any:
        q = self.queue
        keys = (q.row(job_id), q.pending, q.active, q.schedule, q.dead)
        return self._run("remove", keys, job_id)

    def update_payload(self, job_id: str, payload: bytes) -> Any:
        return self._run("update_payload", (self.queue.row(job_id),), payload)

    def lock(self, job_id: str, token: int, lease_ms: int = LEASE_MS) -> None:
        """Mark a job as held, as the lock plane does on a server without field TTLs."""
        self.client.set(self.queue.row(job_id) + b":lock", token, px=2 * lease_ms)
        self.client.hset(self.queue.row(job_id), "lock", token)

    def drain(self) -> int:
        return int(self._run("drain", (self.queue.base, self.queue.pending)))

    def obliterate(self, *, force: bool = False, budget: int = 1_000) -> Any:
        keys = (self.queue.meta, self.queue.base)
        return self._run("obliterate", keys, "force" if force else "", budget)

    def pause(self) -> None:
        self.client.hset(self.queue.meta, "paused", "1")

    def resume(self) -> None:
        self.client.hdel(self.queue.meta, "paused")

    def lane_enqueue(self, job_id: str, payload: bytes, lane: str) -> Any:
        keys = (self.queue.row(job_id), self.queue.lane(lane), self.queue.base)
        return self._run("lane_enqueue", keys, job_id, payload, lane)

    def lane_pause(self, lane: str) -> None:
        self._run("lane_pause", (self.queue.base,), lane)

    def lane_resume(self, lane: str) -> None:
        self._run("lane_resume", (self.queue.base,), lane)

    def lane_limit(self, lane: str, limit: int) -> None:
        self._run("lane_limit", (self.queue.base,), lane, limit)

    def lane_weight(self, lane: str, weight: int) -> None:
        self.client.hset(self.queue.base + b"gweight", lane, weight)

    def reassign(self, job_id: str, lane: str) -> Any:
        keys = (self.queue.row(job_id), self.queue.lane(lane), self.queue.base)
        return self._run("reassign", keys, job_id, lane)

    def lane_drain(self, lane: str) -> int:
        keys = (self.queue.base, self.queue.lane(lane), self.queue.ring)
        return int(self._run("lane_drain", keys, lane))

    def register_repeat(self, name: str, every_ms: int, template: bytes, first_ms: int) -> Any:
        keys = (self.queue.base + b"repeat", self.queue.base + b"repeat:" + name.encode())
        return self._run("repeat_register", keys, name, every_ms, template, first_ms)

    def due_repeats(self) -> list[str]:
        """Return the names that are due on this client's clock: the first of a pump's steps."""
        raw = self.client.zrange(self.queue.base + b"repeat", "-inf", str(_now_ms()), byscore=True)
        return [name.decode() for name in raw]

    def fire(self, name: str, job_id: str) -> None:
        """Enqueue a due repeat and advance it: a pump's other steps, each on its own."""
        record = self.queue.base + b"repeat:" + name.encode()
        every, template = self.client.hmget(record, "every_ms", "template")
        if every is None or template is None:
            return
        self.enqueue(job_id, template)
        keys = (self.queue.base + b"repeat", record)
        self._run("repeat_advance", keys, name, _now_ms() + int(every))


def _job(reply: list[Any]) -> ForeignJob | None:
    return _jobs([reply])[0] if reply else None


def _jobs(reply: list[list[Any]]) -> list[ForeignJob]:
    return [
        ForeignJob(raw_id.decode(), payload, attempts, lane[0].decode() if lane else None)
        for raw_id, payload, attempts, *lane in reply
    ]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
