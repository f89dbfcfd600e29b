"""What the application does around a job. The worker itself imports no framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from emq_django.worker.job import Job


class Hooks(Protocol):
    """Called on the thread that runs the job."""

    def around(self, job: Job, run: Callable[[], None]) -> None:
        """Call ``run`` once. Whatever comes out, from it or from here, is the job's failure."""

    def thread_ends(self) -> None:
        """Close what belongs to this thread: it runs no further job."""


class NoHooks:
    """Runs the job and nothing else."""

    def around(self, job: Job, run: Callable[[], None]) -> None:
        """Call ``run``."""
        run()

    def thread_ends(self) -> None:
        """Close nothing."""
