"""Periodic tasks: what is enqueued when, once however many workers run.

::

    slots.py    when a schedule is due, pure: cron with time zones, intervals, what was missed
    walls.py    cron expressions against the clocks of a zone, and where those change
    entries.py  the entries: EMQ["PERIODIC"] and the decorator
    keeper.py   fires what is due; every worker has one
    operate.py  what operators do: list, pause, resume, fire now

What the server remembers is in ``protocol.periodic``.
"""

from __future__ import annotations
