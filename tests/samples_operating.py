"""Sample Calls of what operators read and mend; `samples` takes them in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from emq_django.protocol import mend, metrics, periodic, registry, rights, workers
from emq_django.protocol.calls import Call
from emq_django.protocol.keyspace import Queue

FACTS: Final = workers.Facts(
    incarnation="w", prefix="p", host="h", pid=1, version="1", queues=("a", "b"), concurrency=4
)
FIGURES: Final = metrics.Figures(started=3, completed=2, retried=1)
_PENDING, _IN_LANE, _ACTIVE, _NEW = (
    b"JOB00000000010", b"JOB00000000020", b"JOB00000000030", b"JOB00000000070",
)  # fmt: skip
_LANE: Final = b"USR0KHTOWnGLuC"

OPERATING_SAMPLES: Final[Mapping[str, tuple[Callable[[Queue], Call[Any]], ...]]] = {
    # mend.py
    "mend": (
        lambda q: mend.mend(q, [_PENDING, _IN_LANE, _ACTIVE, _NEW], fix=True),
        lambda q: mend.mend(q, [_IN_LANE, _NEW], _LANE, fix=True),
        lambda q: mend.mend(q, [_PENDING]),
    ),
    # metrics.py
    "metrics_flush": (lambda q: metrics.flush(q, FIGURES),),
    "depth_note": (lambda q: metrics.note_depth(q),),
    "metrics_read": (
        lambda q: metrics.history(q),
        lambda q: metrics.depths(q, "hour", 24),
        lambda q: metrics.history(q, "hour", 336),
    ),
    # periodic.py
    "periodic_fire": (
        lambda q: periodic.fire(q, "nightly", 2, _NEW.decode(), b"x", None, "free", 1),
        lambda q: periodic.fire(q, "nightly", 2, _NEW.decode(), b"x", _LANE.decode()),
        lambda q: periodic.fire(q, "nightly", 2, _NEW.decode(), b"x", None, "k"),
        lambda q: periodic.pass_over(q, "nightly", 2),
    ),
    "periodic_look": (lambda q: periodic.look(q, ["nightly", "other"]),),
    "periodic_pause": (
        lambda q: periodic.pause(q, "nightly"),
        lambda q: periodic.resume(q, "nightly"),
    ),
    # registry.py
    "unregister": (lambda q: registry.unregister(q.wire_name),),
    # rights.py
    "rights": (lambda q: rights.refused(q),),
    # workers.py
    "worker_beat": (lambda q: workers.beat(FACTS, [workers.Busy("a", "JOB1")], 1_000),),
    "worker_gone": (lambda q: workers.gone("w"),),
    "workers": (lambda q: workers.workers("p"),),
}
