"""Brings admissions to the server against one deadline, and finds out what a lost reply meant.

The rules are generators over steps and know neither sockets nor asyncio: ``drive`` and ``adrive``
run the same ones. They hold:

* An admission is sent again after a lost connection or a server that is busy, failing over or not
  replicated, until ``EMQ["ENQUEUE_DEADLINE_S"]`` is over; a refused connection gives up after a
  second. No attempt may take longer than what is left.
* A command whose reply was lost may have run. From then on ``readmit`` is sent, which tells a job
  that is already there, or already done, from one that never arrived; and when that finds out
  nothing either, the error is ``ReplyLost``, whatever the last attempt ended with.
* An id of our own that meets another job's row is minted again; a caller's id is a duplicate.
* While a server is known to be down, a call tries once for a second, so that a web site whose
  queue is away stays quick.

One job is brought in by ``single``, many by ``bulk``, and by ``distinct`` where each has its own
lane, due time or unique key; when there is another attempt is decided in ``patience``.
"""

from __future__ import annotations

from emq_django.delivery.bulk import bulk
from emq_django.delivery.distinct import Distinct, distinct
from emq_django.delivery.drivers import adrive, drive
from emq_django.delivery.patience import Patience
from emq_django.delivery.single import Admission, admission
from emq_django.delivery.steps import Flush, Pause, Run, Steps

__all__ = [
    "Admission", "Distinct", "Flush", "Patience", "Pause", "Run", "Steps", "admission", "adrive",
    "bulk", "distinct", "drive",
]  # fmt: skip
