"""System checks on the settings alone. They connect to nothing.

What only a running server can tell is asked under ``check --deploy``, in ``server_checks``. Every
message is listed in docs/reference/checks.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004 - Django's name
from django.utils.module_loading import import_string

from emq_django import server_checks
from emq_django.addresses import addresses_of, is_url, resolve
from emq_django.conf import Conf, QueueConf, SettingsError, conf
from emq_django.errors import BackportMissing, ConfigError, InvalidInput
from emq_django.targets import Address, Route

TAG = "emq"


def register_all() -> None:
    """Register every check. Called once, by the app's ``ready``."""
    register(check_settings, TAG)
    register(check_tasks, TAG)
    register(check_database, TAG)
    register(check_pools, TAG)
    register(check_leases, TAG)
    register(check_handlers, TAG)
    register(check_periodic, TAG)
    register(check_database_for_deployment, TAG, deploy=True)
    register(server_checks.check_servers, TAG, deploy=True)


def check_settings(**_: object) -> list[CheckMessage]:
    """E001, E002, E003: the settings, the connection's name, and what it names."""
    try:
        connection = conf().connection
    except SettingsError as exc:
        return [_error("E001", str(exc), "docs/reference/settings.md lists every setting.")]
    try:
        resolve(connection)
    except SettingsError as exc:
        if is_url(connection) or connection not in settings.CACHES:
            hint = "Name an alias of CACHES, or give a URL such as 'redis://127.0.0.1:6379/1'."
            return [_error("E002", str(exc), hint)]
        hint = (
            "Add an alias with a Redis or Valkey server to CACHES and name it in"
            ' EMQ["CONNECTION"]; an alias that only caches can stay as it is.'
        )
        return [_error("E003", str(exc), hint)]
    return []


def check_tasks(**_: object) -> list[CheckMessage]:
    """E024: tasks on a Django that has none."""
    backends = (getattr(settings, "TASKS", None) or {}).values()
    if not any(str(params.get("BACKEND", "")).startswith("emq_django.") for params in backends):
        return []
    try:
        from emq_django.task_backend import compat  # noqa: F401
    except BackportMissing as exc:
        return [_error("E024", f"TASKS names a backend of this package. {exc}.", _BACKPORT)]
    return []


def check_database(**_: object) -> list[CheckMessage]:
    """W001: a cache whose clear() would delete the jobs."""
    return [
        Warning(_shares(alias, address), hint=_OWN_DATABASE, id="emq.W001")
        for alias, address in _shared_with()
    ]


def check_periodic(**_: object) -> list[CheckMessage]:
    """E010: a periodic task that can't be fired."""
    if _ready() is None or not conf().periodic:
        return []  # what modules declare was checked when they were imported
    from emq_django.timetable import entries

    messages: list[CheckMessage] = []
    try:
        for entry in entries.entries().values():
            try:
                entry.check()
            except (ConfigError, InvalidInput) as exc:
                messages.append(_error("E010", str(exc), _PERIODIC))
    except ConfigError as exc:
        messages.append(_error("E010", str(exc), _PERIODIC))
    return messages


def check_database_for_deployment(**_: object) -> list[CheckMessage]:
    """E004: the same, which no deployment should have."""
    return [_error("E004", _shares(*shared), _OWN_DATABASE) for shared in _shared_with()]


def check_pools(**_: object) -> list[CheckMessage]:
    """W002: django-redis gives all aliases with one URL the pool of the first that connects."""
    if (ready := _ready()) is None:
        return []
    queue_alias = ready[0].connection
    mine = settings.CACHES.get(queue_alias, {})
    return [
        Warning(
            f"cache aliases {queue_alias!r} and {alias!r} have the same LOCATION and different"
            " OPTIONS, but share one connection pool: whichever connects first decides for both.",
            hint="Queues are not affected, they have connections of their own; but give the"
            " aliases URLs that differ (another database number does) so that each cache gets"
            " its own options.",
            id="emq.W002",
        )
        for alias, other in settings.CACHES.items()
        if alias != queue_alias and _same_pool(mine, other)
    ]


def check_leases(**_: object) -> list[CheckMessage]:
    """W003: a lease that can end while its renewal still waits for an answer."""
    if (ready := _ready()) is None:
        return []
    read, route = ready
    slowest_ms = max(
        int(1_000 * (target.options["socket_connect_timeout"] + target.options["socket_timeout"]))
        for target in route.targets
    )
    return [
        Warning(
            f'EMQ["QUEUES"]["{queue.name}"]["LEASE_MS"] is {queue.lease_ms}: renewed after a third,'
            f" it leaves {queue.lease_ms * 2 // 3} ms for a renewal, which may wait {slowest_ms} ms"
            " for its connection and its answer. One slow answer and the job runs twice.",
            hint=f"Give a lease of at least {slowest_ms * 3 // 2 + 1} ms, or shorter timeouts"
            " (SOCKET_TIMEOUT, SOCKET_CONNECT_TIMEOUT) in the OPTIONS of the alias.",
            id="emq.W003",
        )
        for queue in read.queues.values()
        if queue.lease_ms * 2 // 3 < slowest_ms
    ]


def check_handlers(**_: object) -> list[CheckMessage]:
    """E005: a handler that a worker could not call."""
    if (ready := _ready()) is None:
        return []
    found = ((queue, _handler_fault(queue)) for queue in ready[0].queues.values())
    return [
        _error(
            "E005",
            f'EMQ["QUEUES"]["{queue.name}"]["HANDLER"] is {queue.handler!r}: {fault}.',
            "Give the dotted path of a function that takes one argument, the job.",
        )
        for queue, fault in found
        if fault
    ]


_OWN_DATABASE = (
    "Clearing a cache deletes everything in its database, jobs included. Give the queues an alias"
    " of their own on another database number (redis://host:6379/1) and name it in"
    ' EMQ["CONNECTION"]; in a cluster, which has one database, give the cache a server of its own'
    " or a user without the right to FLUSHDB."
)


_BACKPORT = "pip install 'emq-django[backport]', or Django 6.0 or later."

_PERIODIC = "docs/how-to/run-periodic-tasks.md shows what an entry may say."


def _shares(alias: str, address: Address) -> str:
    return (
        f"the queues are in the database of cache alias {alias!r} ({address.label}):"
        f" caches[{alias!r}].clear() deletes every job."
    )


def _shared_with() -> Iterator[tuple[str, Address]]:
    """Yield the caches in the queues' database. An alias that only queues use is none."""
    if (ready := _ready()) is None:
        return
    read, route = ready
    mine = {target.address.place for target in route.targets}
    used_as_cache = {"default", settings.CACHE_MIDDLEWARE_ALIAS, settings.SESSION_CACHE_ALIAS}
    for alias in settings.CACHES:
        if alias == read.connection and alias not in used_as_cache:
            continue
        try:
            addresses = addresses_of(alias)
        except SettingsError:
            continue  # keeps nothing on a server of this kind, or is told by its own back end
        shared = next((one for one in addresses if one.place in mine), None)
        if shared is not None:
            yield alias, shared


def _same_pool(mine: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    family = "django_redis."
    both = (mine, other)
    return (
        all(str(one.get("BACKEND", "")).startswith(family) for one in both)
        and mine.get("LOCATION") == other.get("LOCATION")
        and (mine.get("OPTIONS") or {}) != (other.get("OPTIONS") or {})
    )


def _handler_fault(queue: QueueConf) -> str:
    if queue.handler is None:
        return ""
    try:
        handler = import_string(queue.handler)
    except Exception as exc:  # noqa: BLE001 - importing runs the project's own code
        return f"importing it raised {type(exc).__name__}: {exc}"
    return "" if callable(handler) else f"it is {handler!r}, which can't be called"


def _ready() -> tuple[Conf, Route] | None:
    """Return the settings and their route; None while check_settings has something to say."""
    try:
        read = conf()
        return read, resolve(read.connection)
    except SettingsError:
        return None


def _error(number: str, message: str, hint: str) -> Error:
    return Error(message, hint=hint, id=f"emq.{number}")
