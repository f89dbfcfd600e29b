"""What is told once the server knows of a job's end, by whoever asked ``job.when_ended``.

It runs on the slot that ran the job, like one more job as the hooks see it, when nothing is left
that it could change.
"""

from __future__ import annotations

import os
import threading
from functools import partial

from emq_django.worker import log
from emq_django.worker.hooks import Hooks
from emq_django.worker.leases import Lease
from emq_django.worker.outcomes import Completed, Failed
from emq_django.worker.run import end_if_forked_since


def tell_of_end(hooks: Hooks, lease: Lease, ended: Completed | Failed) -> None:
    """Tell how a job ended. What that raises is logged, whatever it is."""
    pid = os.getpid()
    for job, tell in lease.tells:
        try:
            hooks.around(job, partial(tell, ended))
        except BaseException as exc:  # sys.exit() in a listener must not end the worker
            if is_ctrl_c(exc):
                raise
            log.not_told(lease, exc)
        finally:
            end_if_forked_since(pid)


def is_ctrl_c(exc: BaseException) -> bool:
    """Whether somebody at a keyboard wants an end: workers run jobs on other threads."""
    main = threading.main_thread()
    return isinstance(exc, KeyboardInterrupt) and threading.current_thread() is main
