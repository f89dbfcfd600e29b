"""What operators and running jobs do to a queue, by its name: each verb and its async twin.

``pause(queue)`` and ``await apause(queue)`` run the same Call, which is built, checked and
described in ``protocol``. Ids of jobs are checked here, where a caller's text becomes an id; ids
that other speakers made up are a matter for the builders. Enqueue, claim and the settlements of
one job are in ``api``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from inspect import Parameter, signature
from typing import Any, Concatenate, ParamSpec, TypeVar

from emq_django.arguments import payload_bytes
from emq_django.conf import conf, keys
from emq_django.connections import async_wire_for, wire_for
from emq_django.errors import InvalidInput
from emq_django.protocol import ids, lanes, notes, operate, read, repeats, settle, upkeep
from emq_django.protocol.calls import Call
from emq_django.protocol.keyspace import Queue

__all__ = [
    "aadd_log", "acancel", "acancel_repeat", "acounts", "add_log", "adelay", "adrain",
    "adue_repeats", "aextend_many", "alane_depths", "alimit_lane", "alimit_queue", "alogs",
    "aobliterate", "apage", "apause", "apause_lane", "aprogress", "apromote", "areap",
    "areassign", "aregister_repeat", "aremove", "areprocess", "aresume", "aresume_lane", "arow",
    "astate", "atrim_dead", "aupdate_payload", "aweigh_lane", "cancel", "cancel_repeat",
    "counts", "delay", "drain", "due_repeats", "extend_many", "lane_depths", "limit_lane",
    "limit_queue", "logs", "obliterate", "page", "pause", "pause_lane", "progress", "promote",
    "reap", "reassign", "register_repeat", "remove", "reprocess", "resume", "resume_lane",
    "row", "state", "trim_dead", "update_payload", "weigh_lane",
]  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")
_Pair = tuple[
    Callable[Concatenate[str, P], R], Callable[Concatenate[str, P], Coroutine[Any, Any, R]]
]


def _pair(build: Callable[Concatenate[Queue, P], Call[R]]) -> _Pair[P, R]:
    def verb(queue: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
        named = keys(queue)
        return wire_for(named).run(build(named, *args, **kwargs))

    async def averb(queue: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
        named = keys(queue)
        return await async_wire_for(named).run(build(named, *args, **kwargs))

    _dress(verb, build, "")
    _dress(averb, build, "a")
    return verb, averb


def _bands(queue: str) -> list[Queue]:
    keys(queue)  # what is no name is refused as everywhere
    return [keys(band) for band in conf().bands(queue)]


def _all_bands(build: Callable[[Queue], Call[bool]]) -> _Pair[[], bool]:
    """Make a verb that does the same to each band of a queue with priorities."""

    def verb(queue: str, /) -> bool:
        changed = [wire_for(one).run(build(one)) for one in _bands(queue)]
        return any(changed)

    async def averb(queue: str, /) -> bool:
        changed = [await async_wire_for(one).run(build(one)) for one in _bands(queue)]
        return any(changed)

    _dress(verb, build, "")
    _dress(averb, build, "a")
    return verb, averb


def _dress(verb: Callable[..., Any], build: Callable[..., Any], prefix: str) -> None:
    """Give a verb the name, the text and the parameters of its builder, with a queue's name."""
    shape = signature(build)
    first, *others = shape.parameters.values()
    queue = first.replace(kind=Parameter.POSITIONAL_ONLY, annotation="str")
    verb.__name__ = verb.__qualname__ = prefix + build.__name__
    verb.__doc__ = build.__doc__
    verb.__signature__ = shape.replace(  # type: ignore[attr-defined]
        parameters=[queue, *others],
        return_annotation=str(shape.return_annotation).removeprefix("Call[").removesuffix("]"),
    )


def _job(
    build: Callable[Concatenate[Queue, str, P], Call[R]],
) -> Callable[Concatenate[Queue, str, P], Call[R]]:
    """Check the id that a builder takes."""

    def checked(queue: Queue, job_id: str, /, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        return build(queue, ids.valid_job_id(job_id), *args, **kwargs)

    return _as(build, checked)


def _jobs(
    build: Callable[Concatenate[Queue, Sequence[str], P], Call[R]],
) -> Callable[Concatenate[Queue, Sequence[str], P], Call[R]]:
    """Check the ids that a builder takes."""

    def checked(
        queue: Queue, job_ids: Sequence[str], /, *args: P.args, **kwargs: P.kwargs
    ) -> Call[R]:
        if isinstance(job_ids, str | bytes):
            raise InvalidInput(f"job_ids={job_ids!r}: give a list of ids, also for one")
        return build(queue, [ids.valid_job_id(one) for one in job_ids], *args, **kwargs)

    return _as(build, checked)


def _as(build: Callable[..., Any], checked: Callable[P, R]) -> Callable[P, R]:
    checked.__name__, checked.__doc__ = build.__name__, build.__doc__
    checked.__signature__ = signature(build)  # type: ignore[attr-defined]
    return checked


def _update_payload(
    queue: Queue, job_id: str, payload: bytes, digest: str = ""
) -> Call[operate.Updated]:
    return operate.update_payload(queue, job_id, payload_bytes(payload), digest)


def _register_repeat(
    queue: Queue, name: str, every_ms: int, template: bytes, first_ms: int | None = None
) -> Call[bool]:
    return repeats.register_repeat(queue, name, every_ms, payload_bytes(template), first_ms)


# A queue
pause, apause = _all_bands(operate.pause)
resume, aresume = _all_bands(operate.resume)
limit_queue, alimit_queue = _pair(operate.limit_queue)
drain, adrain = _pair(operate.drain)
obliterate, aobliterate = _pair(operate.obliterate)
counts, acounts = _pair(read.counts)
page, apage = _pair(read.page)
promote, apromote = _pair(upkeep.promote)
reap, areap = _pair(upkeep.reap)
trim_dead, atrim_dead = _pair(upkeep.trim_dead)

# Its jobs
row, arow = _pair(_job(read.row))
state, astate = _pair(_job(read.state))
reprocess, areprocess = _pair(_jobs(operate.reprocess))
remove, aremove = _pair(_jobs(operate.remove))
cancel, acancel = _pair(_jobs(operate.cancel))
update_payload, aupdate_payload = _pair(_job(_as(operate.update_payload, _update_payload)))
progress, aprogress = _pair(_job(notes.progress))
add_log, aadd_log = _pair(_job(notes.add_log))
logs, alogs = _pair(_job(notes.logs))

# Jobs under lease, as a claim handed them over
delay, adelay = _pair(settle.delay)
extend_many, aextend_many = _pair(settle.extend_many)

# Its lanes
pause_lane, apause_lane = _pair(lanes.pause_lane)
resume_lane, aresume_lane = _pair(lanes.resume_lane)
limit_lane, alimit_lane = _pair(lanes.limit_lane)
weigh_lane, aweigh_lane = _pair(lanes.weigh_lane)
reassign, areassign = _pair(_job(lanes.reassign))
lane_depths, alane_depths = _pair(lanes.lane_depths)

# Its repeats
register_repeat, aregister_repeat = _pair(_as(repeats.register_repeat, _register_repeat))
cancel_repeat, acancel_repeat = _pair(repeats.cancel_repeat)
due_repeats, adue_repeats = _pair(repeats.due_repeats)
