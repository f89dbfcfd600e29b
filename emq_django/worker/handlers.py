"""Which function runs a queue's jobs: found by its dotted path when the worker starts."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import cast

from emq_django.errors import ConfigError
from emq_django.worker.job import Job

Handler = Callable[[Job], object]


def load(dotted_path: str, queue: str) -> Handler:
    """Return the function that ``EMQ["QUEUES"][queue]["HANDLER"]`` names.

    Raises:
        ConfigError: there is no such module or name, or it can't be called with a job.
    """
    setting = f'EMQ["QUEUES"][{queue!r}]["HANDLER"] = {dotted_path!r}'
    module_path, _, name = dotted_path.rpartition(".")
    if not module_path or not name:
        raise ConfigError(f"{setting}: give a dotted path such as 'app.handlers.on_job'.")
    try:
        module = importlib.import_module(module_path)
    except ImportError as exc:
        raise ConfigError(f"{setting}: {module_path} can't be imported: {exc}") from exc
    try:
        handler = getattr(module, name)
    except AttributeError as exc:
        raise ConfigError(f"{setting}: {module_path} has no {name!r}.") from exc
    if not callable(handler):
        raise ConfigError(f"{setting}: that is {type(handler).__name__}, not a function.")
    if inspect.iscoroutinefunction(handler):
        raise ConfigError(
            f"{setting}: that is an async function; raw handlers run on threads, so give a plain"
            " one (asgiref's async_to_sync wraps it)."
        )
    return cast("Handler", handler)
