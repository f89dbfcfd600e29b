"""Django around one job: what a request would get from its handler, a job gets from here.

| around each job | so that |
| --- | --- |
| a fresh context (``contextvars``) | language, time zone and other context of one job never reach the next |
| old database connections closed, before and after | a connection that the database dropped is not used |
| a transaction left open: rolled back, the job failed | the next job's writes don't land in a transaction nobody commits |
| a running loop that a library left behind: taken off the thread | the next job may use the ORM |
| caches closed | as at the end of a request |

Runs no job and settles none: that is the worker's.
"""  # noqa: E501 - a table

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from django.conf import settings
from django.core.cache import caches
from django.core.cache.backends.base import BaseCache
from django.db import connections

from emq_django.worker.job import Job

logger = logging.getLogger("emq_django.worker")

_FRESH_S: Final = 0.01  # for so long nothing but the worker's own code ran since the last look


class TransactionLeftOpen(RuntimeError):
    """The job ended inside a transaction that it had begun. What it wrote there is rolled back."""


class DjangoHooks:
    """The worker's hooks for a Django project."""

    def __init__(self) -> None:
        self._local = threading.local()

    def around(self, job: Job, run: Callable[[], None]) -> None:
        """Run a job as Django runs a request."""
        thread = self._this_thread()
        open_before = thread.open_before()
        context = thread.base.copy()
        loop = asyncio._get_running_loop()  # noqa: SLF001 - for who runs loops
        try:
            context.run(run)
        except BaseException:
            thread.has_failed = True
            raise
        finally:
            # A library may leave a loop running on this thread, and with it no job after this one
            # could use the ORM.
            asyncio._set_running_loop(loop)  # noqa: SLF001
            left_open = thread.look() - open_before
            for alias in left_open:
                _drop(alias)
            thread.open -= left_open
            context.run(thread.close_caches)
        if left_open:
            raise TransactionLeftOpen(_left_open_text(left_open))

    def thread_ends(self) -> None:
        """Close this thread's database connections."""
        connections.close_all()

    def _this_thread(self) -> _Thread:
        thread: _Thread | None = getattr(self._local, "thread", None)
        if thread is None:
            thread = self._local.thread = _Thread()
        return thread


class _Thread:
    """What a thread keeps from one job to the next.

    Attributes:
        base: what each job's own context is a copy of: nothing is in it but the thread's caches.
            Django keeps cache clients in the context: in an empty one each job would build new
            clients, and with them new connections.
        close_caches: closes them as the end of a request does.
        open: aliases that were in a transaction when this thread last looked, and before its job.
        has_failed: whether the last job did: policies are asked then, which are a project's code.
    """

    __slots__ = ("_looked_s", "base", "close_caches", "has_failed", "open")

    def __init__(self) -> None:
        self.base = contextvars.Context()
        self.close_caches = self.base.run(_build_caches)
        self.open: frozenset[str] = frozenset()
        self.has_failed = False
        self._looked_s = -math.inf

    def open_before(self) -> frozenset[str]:
        """Return which aliases are in a transaction before a job, old connections being closed.

        Where one job follows the other, the look behind the first is the one before the second.
        """
        is_fresh = time.monotonic() - self._looked_s < _FRESH_S and not self.has_failed
        self.has_failed = False
        return self.open if is_fresh else self.look()

    def look(self) -> frozenset[str]:
        """Close old connections; return which aliases are in a transaction."""
        self.open = _without_old_connections()
        self._looked_s = time.monotonic()
        return self.open


def _build_caches() -> Callable[[], None]:
    """Build the thread's cache clients; return what closes them as the end of a request does.

    Few have anything to close, and to look for them after each job costs more than the job.
    """
    built = []
    for alias in settings.CACHES:
        try:
            built.append(caches[alias])
        except Exception:  # an alias that can't be built fails where it is used
            logger.debug("cache alias %r can't be built", alias, exc_info=True)
    if len(built) < len(settings.CACHES):
        return caches.close_all
    closes = [cache.close for cache in built if type(cache).close is not BaseCache.close]
    return lambda: _call_all(closes)


def _call_all(functions: Iterable[Callable[[], None]]) -> None:
    for function in functions:
        function()


def _without_old_connections() -> frozenset[str]:
    """Close what Django closes around a request; return the aliases that are in a transaction.

    One look at all of them for both: each look costs as much as a short job does.
    """
    in_transaction = set()
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:  # Django's function would close one that is in autocommit
            in_transaction.add(connection.alias)
            continue
        if connection.errors_occurred and connection.vendor == "sqlite":
            connection.close()  # Django takes every SQLite connection for usable, a closed one too
        connection.close_if_unusable_or_obsolete()
    return frozenset(in_transaction)


def _drop(alias: str) -> None:
    """Close a connection that is inside a transaction and forget it.

    Inside an atomic block close() leaves the wrapper unusable until the block ends, which this
    one never does; the next use of the alias makes a new wrapper.
    """
    connections[alias].close()
    del connections[alias]


def _left_open_text(aliases: frozenset[str]) -> str:
    names = ", ".join(sorted(aliases))
    return (
        f"the job left a transaction open on {names}; it was rolled back. Use atomic() as a"
        " context manager or a decorator, so that it ends with the block."
    )
