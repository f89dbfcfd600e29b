"""For the tests of a project: its own queues, jobs run in the test, and what was enqueued.

Everything goes over the real wire to a real server, and a job runs by the worker's own code: what
is tested is what will happen. Nothing here knows a transition of its own.

::

    isolation.py  isolated(), IsolatedQueues: queues of this test alone; override_emq()
    running.py    run_pending(): run what waits, in this thread; immediate(): when it is enqueued
    looking.py    enqueued(), assert_enqueued(), assert_not_enqueued()
    clock.py      Clock: delayed jobs fall due, periodic tasks are enqueued

``emq_django.pytest_plugin`` offers the same as a fixture.
"""

from __future__ import annotations

from emq_django.testing.clock import Clock
from emq_django.testing.isolation import IsolatedQueues, isolated, override_emq
from emq_django.testing.looking import (
    ANY,
    EnqueuedJob,
    aenqueued,
    assert_enqueued,
    assert_not_enqueued,
    enqueued,
)
from emq_django.testing.running import Ran, arun_pending, immediate, run_pending

__all__ = [
    "ANY", "Clock", "EnqueuedJob", "IsolatedQueues", "Ran", "aenqueued", "arun_pending",
    "assert_enqueued", "assert_not_enqueued", "enqueued", "immediate", "isolated", "override_emq",
    "run_pending",
]  # fmt: skip
