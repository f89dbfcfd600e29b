"""Delivers the one call that ends a run, through lost replies, restarts and full servers.

It may be sent again, because the token fences it: a second send of a call that got through
finds nothing to do. It is sent until the lease would be over; then the reaper owns the job.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from emq_django.errors import EmqError, ProtocolError, ReplyLost, WireError
from emq_django.protocol.calls import Call
from emq_django.protocol.records import Verdict
from emq_django.worker.leases import Lease
from emq_django.worker.pauses import Pauses

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0
_SHORTEST_TIMEOUT_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Delivered:
    """The server's answer. ``resent``: an earlier send of the same call may have got through."""

    verdict: Verdict
    resent: bool


def deliver(
    lease: Lease,
    call: Call[Verdict],
    *,
    resent: bool = False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Delivered | EmqError:
    """Send ``call`` until it is answered or the lease is over; return the answer or the error.

    ``resent``: what it does was asked for before, and perhaps done.
    """
    pauses = Pauses(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, spread=0.5)
    while True:
        try:
            left_s = max(lease.until_s - clock(), _SHORTEST_TIMEOUT_S)
            return Delivered(lease.source.link.run(call, left_s), resent)
        except ProtocolError as exc:
            return exc  # the script ran and refused: it would refuse again
        except WireError as exc:
            resent = resent or isinstance(exc, ReplyLost)
            pause_s = pauses.next_s()
            if lease.lost or lease.handed_back or clock() + pause_s >= lease.until_s:
                return exc
        sleep(pause_s)
