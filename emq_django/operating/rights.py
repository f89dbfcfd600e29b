"""What the server's user may not do, in words: asked when a worker starts, and by the doctor."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from emq_django.connections import admin_wire_for, wire_for
from emq_django.errors import AccessRefused, ConfigError, EmqError, LoginRefused
from emq_django.operating.command import sentence
from emq_django.operating.text import safe
from emq_django.protocol import rights
from emq_django.protocol.keyspace import Queue

logger = logging.getLogger("emq_django.worker")


def missing(queue: Queue, *, patient: bool = False) -> tuple[str, str]:
    """Return what is needed and refused, and what is only wished for; empty texts for nothing.

    Raises EmqError where the server could not be asked: LoginRefused where it does not know the
    user, or the password is wrong.
    """
    wire = wire_for(queue) if patient else admin_wire_for(queue)
    try:
        names = wire.run(rights.refused(queue))
    except LoginRefused:
        raise
    except AccessRefused as exc:  # EVALSHA, SCRIPT LOAD or the connection itself
        return f"refused: {safe(exc, 300)}", ""
    needed = rights.needed(names)
    wished = [name for name in names if name not in needed]
    return (f"may not run {', '.join(needed)}" if needed else "", ", ".join(wished))


def check_rights(queues: Sequence[Queue]) -> None:
    """Raise ConfigError for a refused login and rights that are needed; log those wished for.

    A server that is away is no answer: the worker waits for it.
    """
    wished = set()
    for queue in one_per_server(queues):
        try:
            needed, only_wished = missing(queue)
        except LoginRefused as exc:
            raise ConfigError(sentence(exc)) from exc
        except EmqError:
            continue
        if needed:
            raise ConfigError(
                f"the server's user {needed} on keys of queue {safe(queue.name)}, so no job could"
                " be run: give it the rights that docs/reference/wire.md lists"
            )
        wished.add(only_wished)
    for names in sorted(wished - {""}):
        logger.warning("the server's user may not run %s: nobody hears of events", names)


def one_per_server(queues: Sequence[Queue]) -> list[Queue]:
    """Return one of the queues for each server that they are on."""
    return list({id(admin_wire_for(queue)): queue for queue in queues}.values())
