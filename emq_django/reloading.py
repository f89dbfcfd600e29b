"""A worker in development that starts again when code changes, by Django's own reloader.

The reloader runs the worker on a thread, where Python allows no signal handlers, and ends the
process when a file changes. So the worker is stopped here first: it gets a moment to finish what
runs, and hands back what does not end in time. After Ctrl-C nothing is waited for, because the
reloader's parent kills this process a quarter of a second later.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from typing import Any, Final

from django.utils import autoreload

from emq_django.worker.children import die_with
from emq_django.worker.ending import Ended
from emq_django.worker.loop import Worker

_WATCHER: Final = "EMQ_RELOADER"  # the process that starts the worker's again and again
_FINISH_S: Final = 5.0
_HAND_BACK_S: Final = 2.0


def run_with_reloader(worker: Worker) -> Ended:
    """Run a worker under the reloader. In the process that watches, this does not return."""
    end = _End(worker)
    if os.environ.get(autoreload.DJANGO_AUTORELOAD_ENV) == "true":
        die_with(int(os.environ[_WATCHER]), signal.SIGTERM)
    else:
        os.environ[_WATCHER] = str(os.getpid())
    autoreload.file_changed.connect(end.on_change)
    autoreload.run_with_reloader(end.run)
    return Ended()


class _End:
    """Stops the worker before its process ends."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._ended = threading.Event()

    def run(self) -> None:
        """Run the worker, on the reloader's thread."""
        atexit.register(self.now)
        try:
            self._worker.run()
        finally:
            self._ended.set()

    def on_change(self, **_: Any) -> None:
        """Let running jobs finish for a moment before the code is loaded anew."""
        self._worker.stop.ask()
        if not self._ended.wait(_FINISH_S):
            self.now()

    def now(self) -> None:
        """Hand everything back."""
        if not self._ended.is_set():
            self._worker.stop.ask()
            self._worker.stop.ask()
            self._ended.wait(_HAND_BACK_S)
