"""Which Task a payload names: one that the process has already, never one it would import for it.

A payload comes from a server that others may write to. So a path is looked up among the modules
that this process imported of its own accord: the ``tasks`` modules of the installed apps and what
``EMQ["TASK_MODULES"]`` names (``discover``), and whatever the project imported besides.
"""

from __future__ import annotations

import importlib
import logging
import sys
import threading
from typing import Any, Final

from django.apps import apps
from django.core.signals import setting_changed
from django.utils.module_loading import module_has_submodule

from emq_django.conf import conf
from emq_django.errors import ConfigError
from emq_django.task_backend.compat import InvalidTask, Task

logger = logging.getLogger("emq_django.tasks")

# Another process has another script under these names, or none; a shell may give no name at all.
_MAIN: Final = frozenset({"__main__", "__mp_main__", "builtins", None})

_lock = threading.Lock()
_discovered = False


def find(path: str) -> Task[..., Any] | None:
    """Return the Task at an import path, or None when there is none in this process."""
    module_name, _, name = path.rpartition(".")
    names = [name]
    while (module := sys.modules.get(module_name)) is None:
        module_name, _, name = module_name.rpartition(".")
        if not module_name:
            return None
        names.insert(0, name)
    found: Any = module
    for name in names:
        found = getattr(found, name, None)
    return found if isinstance(found, Task) else None


def refuse_unreachable(task: Task[..., Any]) -> None:
    """Raise InvalidTask for a task that no worker could find by its import path.

    Asked for each call and not by the decorator: while that runs, no name stands for its task yet.
    """
    path = task.module_path
    if task.func.__module__ in _MAIN:
        raise InvalidTask(
            f"{path} is in the script or the shell that this process was started with, and a worker"
            f" is another process: keep {task.name} in a module of an app, such as its tasks.py,"
            " and import it from there."
        )
    if find(path) is None:
        raise InvalidTask(
            f"there is no task at {path}, where a worker looks for it: decorate the function where"
            " it is defined, under its own name, in a module that can be imported."
        )


def find_or_discover(path: str) -> Task[..., Any] | None:
    """Return the Task at an import path, after importing the project's task modules if need be."""
    task = find(path)
    if task is None and not _discovered:
        discover()
        task = find(path)
    return task


def discover() -> None:
    """Import the modules in which the project keeps its tasks, once.

    A name without a dot is looked for in every installed app. A module that fails to import
    raises: a worker without a part of its tasks would put good jobs aside. ConfigError where it
    imports what is not there.
    """
    global _discovered
    with _lock:
        if _discovered:
            return
        for name in conf().task_modules:
            if "." in name:
                _import(name)
            else:
                for app in apps.get_app_configs():
                    if app.module is not None and module_has_submodule(app.module, name):
                        _import(f"{app.name}.{name}")
        _discovered = True


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except ImportError as exc:
        remedy = "mend it, or see EMQ['TASK_MODULES']"
        if exc.name == "django.tasks":
            remedy = "this Django has none: write `from emq_django import task`"
        raise ConfigError(f"the tasks in {name} can't be imported: {exc}; {remedy}.") from exc


def _reset(*, setting: str, **_: object) -> None:
    global _discovered
    if setting in {"EMQ", "INSTALLED_APPS"}:
        _discovered = False


setting_changed.connect(_reset, dispatch_uid="emq_django.task_backend.registry")
