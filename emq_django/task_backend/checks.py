"""What the system checks say about the task backend. Pure: no server is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from django.core.checks import CheckMessage, Error, Warning  # noqa: A004 - Django's name

from emq_django.conf import conf, keys
from emq_django.errors import ConfigError, InvalidQueueName
from emq_django.protocol.keyspace import valid_new_queue

if TYPE_CHECKING:
    from emq_django.task_backend.backend import EmqBackend


def check_backend(backend: EmqBackend, **_: Any) -> Iterator[CheckMessage]:
    """Look at one backend's ``QUEUES`` beside ``EMQ``."""
    try:
        settings = conf()
    except ConfigError:
        return  # emq.E001 says it
    for name in sorted(backend.queues, key=str):
        try:
            valid_new_queue(keys(name))
        except InvalidQueueName as exc:
            yield Error(f"TASKS[{backend.alias!r}]['QUEUES']: {exc}.", id="emq.E021")
            continue
        if settings.queue(name).handler:
            yield Error(
                f"TASKS[{backend.alias!r}]['QUEUES'] names {name!r}, whose jobs go to the HANDLER"
                " in EMQ['QUEUES']: no task of it would run.",
                hint="Give the raw handler and the tasks a queue each.",
                id="emq.E022",
            )
    if backend.options:
        yield Warning(
            f"TASKS[{backend.alias!r}]['OPTIONS'] has no effect: {sorted(backend.options)}.",
            hint="The settings of this package are in EMQ.",
            id="emq.W023",
        )
