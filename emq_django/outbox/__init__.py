"""Jobs written in the transaction of the data they belong to, and sent after it committed.

An app of its own (``"emq_django.outbox"`` in INSTALLED_APPS) with one table.

::

    writing.py  enqueue(), enqueue_in(), enqueue_at(), enqueue_task(): a row in the transaction
    relaying.py rows to jobs: by the process that wrote, by workers, by ``manage.py emq_relay``
    holding.py  which rows a relay may take, so that two relays keep the order
    models.py   the table

What it promises, and where that ends, is in docs/how-to/use-the-outbox.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emq_django.outbox.relaying import relay
    from emq_django.outbox.writing import enqueue, enqueue_at, enqueue_in, enqueue_task

__all__ = ["enqueue", "enqueue_at", "enqueue_in", "enqueue_task", "relay"]

_HOME_OF = {"relay": "relaying"}


def __getattr__(name: str) -> Any:
    # Late: Django imports this package as an app, before there may be models.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME_OF.get(name, 'writing')}"), name)
