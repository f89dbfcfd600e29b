"""Notes queues that the settings don't name on the server, so that the admin can list them.

Once per process and queue, after an enqueue that worked. It is a courtesy: an enqueue is never
failed by it.
"""

from __future__ import annotations

import logging
from typing import Final

from django.core.signals import setting_changed

from emq_django.conf import conf
from emq_django.connections import async_wire_for, wire_for
from emq_django.errors import EmqError
from emq_django.protocol import registry
from emq_django.protocol.keyspace import Queue

logger = logging.getLogger("emq_django.enqueue")

_TIMEOUT_S: Final = 1.0  # the job is in already: its caller is not kept waiting for a courtesy

_noted: set[str] = set()


def note_queue(queue: Queue) -> None:
    """Note a queue, once."""
    if queue.wire_name in _noted or _needs_no_note(queue):
        return
    try:
        wire_for(queue).run(registry.register(queue.wire_name), _TIMEOUT_S)
    except EmqError:
        logger.debug("queue %s could not be noted", queue.name, exc_info=True)


async def anote_queue(queue: Queue) -> None:
    """Note a queue, once; the async twin of ``note_queue``."""
    if queue.wire_name in _noted or _needs_no_note(queue):
        return
    try:
        await async_wire_for(queue).run(registry.register(queue.wire_name), _TIMEOUT_S)
    except EmqError:
        logger.debug("queue %s could not be noted", queue.name, exc_info=True)


def _needs_no_note(queue: Queue) -> bool:
    _noted.add(queue.wire_name)
    return queue.name in conf().queues


def _reset(*, setting: str, **_: object) -> None:
    if setting in {"EMQ", "CACHES"}:
        _noted.clear()


setting_changed.connect(_reset, dispatch_uid="emq_django.noting")
