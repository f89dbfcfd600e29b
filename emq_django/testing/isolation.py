"""Queues of one test alone, and settings of its own."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from django.conf import settings
from django.test import override_settings

from emq_django.conf import conf, keys
from emq_django.connections import wire_for
from emq_django.protocol import operate, registry


def override_emq(**changes: Any) -> override_settings:
    """Return ``override_settings`` with other values in ``EMQ``; the rest of it stays.

    As Django's, it is a context manager and a decorator.
    """
    return override_settings(EMQ={**(getattr(settings, "EMQ", None) or {}), **changes})


@contextlib.contextmanager
def isolated() -> Iterator[str]:
    """Give the block queues that nobody else uses, and remove them; yields their prefix.

    Only what stands under that prefix is touched: the server may be a developer's own.
    """
    prefix = f"{conf().queue_prefix}test-{uuid.uuid4().hex[:12]}-"
    with override_emq(QUEUE_PREFIX=prefix):
        try:
            yield prefix
        finally:
            _remove_all()


class IsolatedQueues:
    """For a TestCase or TransactionTestCase: each test has queues of its own.

    ``class OrderTests(IsolatedQueues, TestCase): ...``
    """

    def setUp(self) -> None:
        """Isolate the queues until the test ends."""
        super().setUp()  # type: ignore[misc] # the next class has one
        self.enterContext(isolated())  # type: ignore[attr-defined]


def _remove_all() -> None:
    for name in known_queues():
        queue = keys(name)
        wire = wire_for(queue)
        wire.run(operate.pause(queue))
        while wire.run(operate.obliterate(queue, force=True)) is operate.Obliterated.MORE:
            pass
        wire.run(registry.unregister(queue.wire_name))


def known_queues() -> list[str]:
    """Return the queues of the settings, and those under their prefix that were enqueued to."""
    prefix = conf().queue_prefix
    found = dict.fromkeys(_with_bands(conf().queues))
    if getattr(settings, "TASKS", None):
        from emq_django.task_backend import queues

        found |= dict.fromkeys(_with_bands(queues.served()))
    somewhere = keys("default")
    for wire_name in wire_for(somewhere).run(registry.registered()).names:
        if prefix and wire_name.startswith(prefix):
            found[wire_name.removeprefix(prefix)] = None
    return list(found)


def _with_bands(names: Iterable[str]) -> list[str]:
    return [band for name in names for band in conf().bands(name)]


def is_for_tasks(name: str) -> bool:
    """Tell whether a queue is one of the project's task queues."""
    if not getattr(settings, "TASKS", None):
        return False
    from emq_django.task_backend import queues

    return queues.alias_of(name) is not None
