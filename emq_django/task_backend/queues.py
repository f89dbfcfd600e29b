"""Which queues the backends in ``TASKS`` serve, and the bands of a queue with priorities.

A queue with ``EMQ["QUEUES"][name]["PRIORITIES"]`` is three on the wire: ``<name>.high``, ``<name>``
and ``<name>.low``. (Never scores: pending stays in id order, for paging and for other speakers.)
"""

from __future__ import annotations

from functools import cache, lru_cache

from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from emq_django.conf import HIGH, LOW, conf
from emq_django.task_backend.compat import DEFAULT_TASK_QUEUE_NAME, task_backends


def band(queue: str, priority: int) -> str:
    """Return the queue that takes jobs of this priority."""
    if not priority:
        return queue
    return queue + (HIGH if priority > 0 else LOW)


@cache
def served() -> dict[str, str]:
    """Return the queues of all backends of this package, each with its backend's alias.

    A queue with a raw HANDLER is not among them: it is no task queue. An empty ``QUEUES`` allows
    any queue; workers then serve ``default`` and what ``EMQ["QUEUES"]`` names.
    """
    found: dict[str, str] = {}
    for alias, named in _backends().items():
        for name in named or (DEFAULT_TASK_QUEUE_NAME, *conf().queues):
            if not conf().queue(name).handler:
                found.setdefault(name, alias)
    return found


@lru_cache(maxsize=1_024)
def alias_of(queue: str) -> str | None:
    """Return the alias of the backend that a queue or its band belongs to, None for none."""
    base = conf().base_of(queue)
    if conf().queue(base).handler:
        return None
    anywhere = next((alias for alias, named in _backends().items() if not named), None)
    return served().get(base, anywhere)


@cache
def kind_of(alias: str) -> type:
    """Return the class of a backend. Django makes one for each thread, and looks it up slowly."""
    return type(task_backends[alias])


@cache
def _backends() -> dict[str, tuple[str, ...]]:
    """Return the ``QUEUES`` of each backend of this package, by alias."""
    from emq_django.task_backend.backend import EmqBackend

    found = {}
    for alias, params in task_backends.settings.items():
        try:
            kind = import_string(params["BACKEND"])
        except ImportError:
            continue  # an alias that can't be had is an error where it is used
        if isinstance(kind, type) and issubclass(kind, EmqBackend):
            found[alias] = tuple(params.get("QUEUES", [DEFAULT_TASK_QUEUE_NAME]))
    return found


def _reset(*, setting: str, **_: object) -> None:
    if setting in {"EMQ", "TASKS"}:
        served.cache_clear()
        alias_of.cache_clear()
        _backends.cache_clear()
        kind_of.cache_clear()


setting_changed.connect(_reset, dispatch_uid="emq_django.task_backend.queues")
