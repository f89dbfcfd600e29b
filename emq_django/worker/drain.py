"""The end of a worker: wait for what runs, then hand back the rest by its token.

A hand-back costs the job no try. It is the last thing before the process ends, because the
handler's thread still runs until then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from emq_django.errors import EmqError
from emq_django.protocol import settle
from emq_django.worker import log
from emq_django.worker.leases import Keeper, Lease, by_source
from emq_django.worker.log import logger
from emq_django.worker.shutdown import StopRequest
from emq_django.worker.slots import Slots
from emq_django.worker.wait import Bell

_HAND_BACK_S: Final = 1.0
_REPORTS_S: Final = 0.5
_LOOK_S: Final = 1.0


def wait_for_slots(slots: Slots[Lease], stop: StopRequest, bell: Bell, deadline_s: float) -> None:
    """Return when no slot works, the deadline is over, or a second stop request came."""
    while slots.busy() and not stop.forced():
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            return
        bell.wait(min(left_s, _LOOK_S))


def hand_back(leases: list[Lease]) -> None:
    """Release jobs by their token, within about a second whatever the server does.

    What can't be released comes back when its lease ends. Reports that are on their way are left
    to finish: a release could overtake one, and finished work would run again.
    """
    waiting = [lease for lease in leases if not lease.settling and not lease.lost]
    for lease in waiting:
        lease.handed_back = True
    if not waiting:
        return
    if not within_reason(lambda: _release(waiting)):
        logger.error("%d jobs not handed back in time: their leases must end", len(waiting))


def within_reason(work: Callable[[], None]) -> bool:
    """Do what needs the server, for about a second at most. False: it is not done yet.

    On a thread of its own, because connecting to a server that is away may take longer.
    """
    thread = threading.Thread(target=work, name="emq-hand-back", daemon=True)
    thread.start()
    thread.join(_HAND_BACK_S)
    return not thread.is_alive()


def wait_for_reports(keeper: Keeper, bell: Bell) -> None:
    """Give reports that are on their way a moment to arrive."""
    deadline_s = time.monotonic() + _REPORTS_S
    while any(lease.settling for lease in keeper.held()):
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            return
        bell.wait(left_s)


def _release(leases: list[Lease]) -> None:
    for source, group in by_source(leases):
        calls = [settle.release(source.options.keys, lease.job) for lease in group]
        answers = source.link.run_many(calls, _HAND_BACK_S)
        for lease, answer in zip(group, answers, strict=True):
            if isinstance(answer, EmqError):
                log.settle_failed(lease, 0, f"{type(answer).__name__}: {answer}")
            else:
                log.released(lease)
