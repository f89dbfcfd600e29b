"""Slots fired by hand, past any keeper."""

from __future__ import annotations

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import periodic
from emq_django.protocol.ids import mint


def fire(queue: str, slot_ms: int, job_id: str = "", **more: object) -> periodic.Firing:
    named = keys(queue)
    job_id = job_id or mint.one()
    call = periodic.fire(named, "nightly", slot_ms, job_id, b"payload", **more)  # type: ignore[arg-type]
    return wire_for(named).run(call)


def now_ms(queue: str) -> int:
    return wire_for(keys(queue)).run(periodic.look(keys(queue), [])).now_ms
