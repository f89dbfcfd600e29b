"""What a worker does beside its jobs: a thread that fires periodic tasks, and one that relays.

A chore is a function that returns how many seconds it wants to rest. What it raises is logged and
it is called again; it is never a reason for the worker to stop.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence

from django.apps import apps
from django.db import close_old_connections
from django.db import connections as django_connections

from emq_django import connections
from emq_django.dead import Undertaker
from emq_django.worker.options import WorkerOptions

logger = logging.getLogger("emq_django.worker")

Chore = Callable[[], float]

_AFTER_ERROR_S = 5.0
_END_S = 1.0


@contextlib.contextmanager
def beside(options: WorkerOptions) -> Iterator[None]:
    """Do the chores of a worker's queues while the block runs. A burst has none."""
    chores = [] if options.burst else chores_for([queue.keys.name for queue in options.queues])
    end = threading.Event()
    threads = [
        threading.Thread(target=_repeat, args=(chore, end), name="emq-chore", daemon=True)
        for chore in chores
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        end.set()
        for thread in threads:
            thread.join(_END_S)


def chores_for(queues: Sequence[str]) -> list[Chore]:
    """Return what there is to do for these queues."""
    from emq_django.timetable.entries import may_have_entries

    chores: list[Chore] = [Undertaker(queues, connections.wire_for).tick]
    if may_have_entries():
        from emq_django.timetable.keeper import keeper_for

        if (keeper := keeper_for(queues, connections.wire_for)) is not None:
            chores.append(keeper.tick)
    if apps.is_installed("emq_django.outbox"):
        from emq_django.outbox import relaying

        chores.append(relaying.chore)
    return chores


def _repeat(chore: Chore, end: threading.Event) -> None:
    try:
        while not end.is_set():
            try:
                rest_s = chore()
            except Exception:  # a chore is never a reason to stop
                logger.exception("a chore of this worker failed, it is tried again")
                rest_s = _AFTER_ERROR_S
            close_old_connections()  # a task's lane or key may have asked the database
            end.wait(rest_s)
    finally:
        django_connections.close_all()
