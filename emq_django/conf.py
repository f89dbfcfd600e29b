"""The ``EMQ`` setting as frozen records, checked once and rebuilt when a test overrides it.

Only reads and checks; what an alias or a URL stands for is decided in ``addresses``. Nothing is
read at import. ``None`` means the default of a setting; 0 means 0.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from emq_django.errors import ConfigError, InvalidQueueName
from emq_django.protocol import keyspace
from emq_django.protocol.numbers import LARGEST_MS
from emq_django.protocol.records import MOST_DEAD

if TYPE_CHECKING:
    from collections.abc import Iterable

_LARGEST_PAYLOAD_BYTES: Final = 512 * 1024 * 1024  # a server's limit for one value
_VERSION: Final = re.compile(r"echomq:3\.\d+\.\d+", re.ASCII)
HIGH: Final = ".high"
LOW: Final = ".low"
_DOTTED: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")

_Check = Callable[[str, object], object]


class SettingsError(ConfigError, ImproperlyConfigured):
    """A setting can't work as it is; also caught as Django's ImproperlyConfigured."""


def _number(kind: type, what: str, least: float, most: float) -> _Check:
    def check(path: str, value: object) -> object:
        right = isinstance(value, int | kind) and not isinstance(value, bool)
        if not right or not least <= value <= most:  # type: ignore[operator]
            raise SettingsError(f"{path} is {value!r}: give {what} from {least} to {most}.")
        return value

    return check


def _whole(least: int, most: int) -> _Check:
    return _number(int, "a whole number", least, most)


def _seconds(least: float, most: float) -> _Check:
    numeric = _number(float, "seconds", least, most)

    def check(path: str, value: object) -> object:
        if isinstance(value, float) and not math.isfinite(value):
            raise SettingsError(f"{path} is {value!r}: give seconds from {least} to {most}.")
        return float(numeric(path, value))  # type: ignore[arg-type]

    return check


def _text(path: str, value: object) -> object:
    if not isinstance(value, str) or not value:
        raise SettingsError(f"{path} is {value!r}: give the name of a cache alias or a URL.")
    return value


def _prefix(path: str, value: object) -> object:
    if not isinstance(value, str):
        raise SettingsError(f"{path} is {value!r}: give text.")
    try:
        keyspace.valid_new_queue(keyspace.queue("q", value))
    except InvalidQueueName as exc:
        raise SettingsError(f"{path} is {value!r}: {exc}.") from exc
    return value


def _dotted(path: str, value: object) -> object:
    if not isinstance(value, str) or not _DOTTED.fullmatch(value):
        raise SettingsError(
            f"{path} is {value!r}: give the dotted path of a function as text, such as"
            " 'app.handlers.on_job'."
        )
    return value


def _wire(path: str, value: object) -> object:
    if isinstance(value, bool) or value not in (4, 6):
        raise SettingsError(f"{path} is {value!r}: give 4 (scripts) or 6 (the server's module).")
    return value


def _flag(path: str, value: object) -> object:
    if not isinstance(value, bool):
        raise SettingsError(f"{path} is {value!r}: give True or False.")
    return value


def _modules(path: str, value: object) -> object:
    names = value if isinstance(value, list | tuple) else (None,)
    for name in names:
        if not isinstance(name, str) or not all(map(str.isidentifier, name.split("."))):
            raise SettingsError(
                f"{path} is {value!r}: give a list of module names, such as ['tasks', 'shop.jobs']."
            )
    return tuple(names)


def _dotted_task(path: str, value: object) -> object:
    if not isinstance(value, str) or not _DOTTED.fullmatch(value):
        raise SettingsError(
            f"{path} is {value!r}: give the dotted path of a task as text, such as"
            " 'shop.tasks.sweep'."
        )
    return value


def _any(path: str, value: object) -> object:
    del path
    return value


def _list(path: str, value: object) -> object:
    if not isinstance(value, list | tuple):
        raise SettingsError(f"{path} is {value!r}: give a list.")
    return tuple(value)


def _dict(path: str, value: object) -> object:
    return dict(_mapping(path, value))


def _version(path: str, value: object) -> object:
    if not isinstance(value, str) or not _VERSION.fullmatch(value):
        raise SettingsError(
            f"{path} is {value!r}: give a version of this package's wire, such as 'echomq:3.0.0'."
        )
    return value


def _setting(check: _Check, default: Any) -> Any:
    return field(default=default, metadata={"check": check})


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueConf:
    """``EMQ["QUEUES"][name]``: how a worker runs the jobs of one queue."""

    name: str
    handler: str | None = _setting(_dotted, None)
    lease_ms: int = _setting(_whole(1, LARGEST_MS), 30_000)
    max_attempts: int = _setting(_whole(0, LARGEST_MS), 5)
    backoff_base_ms: int = _setting(_whole(0, LARGEST_MS), 1_000)
    backoff_cap_ms: int = _setting(_whole(0, LARGEST_MS), 600_000)
    hard_limit_s: float = _setting(_seconds(0, 31_536_000), 0.0)
    priorities: bool = _setting(_flag, default=False)
    events: bool = _setting(_flag, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicConf:
    """``EMQ["PERIODIC"][name]``: a task that workers enqueue again and again.

    What a schedule may say is checked in ``timetable``.
    """

    name: str
    task: str | None = _setting(_dotted_task, None)
    cron: str | None = _setting(_any, None)
    every_s: float | None = _setting(_any, None)
    tz: str | None = _setting(_any, None)
    args: tuple[Any, ...] = _setting(_list, ())
    kwargs: Mapping[str, Any] | None = _setting(_dict, None)
    queue: str | None = _setting(_any, None)
    catch_up: str = _setting(_any, "skip")
    catch_up_max: int = _setting(_any, 100)
    late_s: float = _setting(_any, 30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConf:
    """``EMQ["ADMIN"]``: how long the admin waits, how much it shows, and the project's hooks."""

    connect_timeout_s: float = _setting(_seconds(0.01, 60), 1.0)
    read_timeout_s: float = _setting(_seconds(0.01, 60), 2.0)
    page_size: int = _setting(_whole(1, 500), 50)
    preview_chars: int = _setting(_whole(0, 10_000), 200)
    preview_max_bytes: int = _setting(_whole(0, 1_048_576), 4_096)
    payload_max_bytes: int = _setting(_whole(0, 16_777_216), 65_536)
    max_queues: int = _setting(_whole(1, 10_000), 500)
    redact: str | None = _setting(_dotted, None)
    can: str | None = _setting(_dotted, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceConf:
    """``EMQ["FENCE"]``: what happens with a database whose protocol version nobody has set."""

    claim: str | None = _setting(_version, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conf:
    """The whole ``EMQ`` setting. ``queues`` keeps the order of the settings."""

    connection: str = _setting(_text, "default")
    queue_prefix: str = _setting(_prefix, "")
    wire: Literal[4, 6] = _setting(_wire, 4)
    enqueue_deadline_s: float = _setting(_seconds(0, 3_600), 5.0)
    max_payload_bytes: int = _setting(_whole(0, _LARGEST_PAYLOAD_BYTES), 1_048_576)
    sign_payloads: bool = _setting(_flag, default=False)
    task_modules: tuple[str, ...] = _setting(_modules, ("tasks",))
    unknown_task_grace_s: float = _setting(_seconds(0, 31_536_000), 3_600.0)
    result_ttl_s: float = _setting(_seconds(0, 31_536_000), 86_400.0)
    result_max_bytes: int = _setting(_whole(0, _LARGEST_PAYLOAD_BYTES), 65_536)
    finished_kept: int = _setting(_whole(0, 100_000), 1_000)
    dead_kept: int = _setting(_whole(1, MOST_DEAD), 100_000)
    dead_ttl_s: float = _setting(_seconds(60, 315_360_000), 15_552_000.0)
    queues: Mapping[str, QueueConf] = field(default_factory=lambda: MappingProxyType({}))
    periodic: Mapping[str, PeriodicConf] = field(default_factory=lambda: MappingProxyType({}))
    admin: AdminConf = field(default_factory=AdminConf)
    fence: FenceConf = field(default_factory=FenceConf)

    def queue(self, name: str) -> QueueConf:
        """Return the settings of a queue; all defaults for one that the settings don't name."""
        return self.queues.get(name) or QueueConf(name=name)

    def bands(self, name: str) -> tuple[str, ...]:
        """Return the queues that stand for one on the wire, the most urgent first.

        One with ``PRIORITIES`` is three: ``<name>.high``, ``<name>`` and ``<name>.low``.
        """
        return (name + HIGH, name, name + LOW) if self.queue(name).priorities else (name,)

    def base_of(self, name: str) -> str:
        """Return the queue of which ``name`` may be a band."""
        for suffix in (HIGH, LOW):
            base = name.removesuffix(suffix)
            if base != name and self.queue(base).priorities:
                return base
        return name


@cache
def conf() -> Conf:
    """Return the checked settings. Raises SettingsError (a ConfigError) on the first fault."""
    raw = _mapping("EMQ", getattr(settings, "EMQ", None))
    values = _checked(Conf, "EMQ", raw, also=("QUEUES", "PERIODIC", "ADMIN", "FENCE"))
    prefix = values.get("queue_prefix", "")
    queues = _mapping('EMQ["QUEUES"]', raw.get("QUEUES"))
    periodic = _mapping('EMQ["PERIODIC"]', raw.get("PERIODIC"))
    admin = _mapping('EMQ["ADMIN"]', raw.get("ADMIN"))
    fence = _mapping('EMQ["FENCE"]', raw.get("FENCE"))
    made = Conf(
        **values,
        fence=FenceConf(**_checked(FenceConf, 'EMQ["FENCE"]', fence)),
        queues=MappingProxyType({name: _queue(name, queues[name], prefix) for name in queues}),
        periodic=MappingProxyType({name: _periodic(name, periodic[name]) for name in periodic}),
        admin=AdminConf(**_checked(AdminConf, 'EMQ["ADMIN"]', admin)),
    )
    for name in queues:
        if (base := made.base_of(name)) != name:
            raise SettingsError(
                f'EMQ["QUEUES"] names {name!r}, which is a band of {base!r} with its PRIORITIES:'
                " choose another name."
            )
    return made


def keys(name: str) -> keyspace.Queue:
    """Return the keys of a queue under ``EMQ["QUEUE_PREFIX"]``. Raises InvalidQueueName."""
    if not isinstance(name, str):
        raise InvalidQueueName(f"{name!r} is not a queue name: give text")
    return _keys(name)


@lru_cache(maxsize=4096)
def _keys(name: str) -> keyspace.Queue:
    its = conf()
    return keyspace.queue(name, its.queue_prefix, events=its.queue(its.base_of(name)).events)


def defaults() -> dict[str, dict[str, object]]:
    """Return every setting and its default by its place; the reference page is held against it."""
    places: dict[str, type] = {
        "EMQ": Conf,
        'EMQ["QUEUES"][name]': QueueConf,
        'EMQ["PERIODIC"][name]': PeriodicConf,
        'EMQ["ADMIN"]': AdminConf,
        'EMQ["FENCE"]': FenceConf,
    }
    return {
        place: {entry.name.upper(): entry.default for entry in fields(kind) if _is_setting(entry)}
        for place, kind in places.items()
    }


def nearest(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean …?" for a name close to a known one, else an empty text."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def reset(*, setting: str, **_: object) -> None:
    """Forget what was read when a test overrides a setting (receiver of setting_changed)."""
    if setting in {"EMQ", "CACHES", "TASKS"}:
        conf.cache_clear()
        _keys.cache_clear()


def _queue(name: str, raw: object, prefix: str) -> QueueConf:
    try:
        keyspace.valid_new_queue(keyspace.queue(name, prefix))
    except InvalidQueueName as exc:
        raise SettingsError(f'EMQ["QUEUES"]: {exc}.') from exc
    place = f'EMQ["QUEUES"]["{name}"]'
    conf_of_queue = QueueConf(name=name, **_checked(QueueConf, place, _mapping(place, raw)))
    base_ms, cap_ms = conf_of_queue.backoff_base_ms, conf_of_queue.backoff_cap_ms
    if cap_ms < base_ms:
        raise SettingsError(
            f'{place}["BACKOFF_CAP_MS"] is {cap_ms}: give at least its BACKOFF_BASE_MS, {base_ms}.'
        )
    return conf_of_queue


def _periodic(name: str, raw: object) -> PeriodicConf:
    place = f'EMQ["PERIODIC"]["{name}"]'
    return PeriodicConf(name=name, **_checked(PeriodicConf, place, _mapping(place, raw)))


def _mapping(place: str, raw: object) -> Mapping[str, object]:
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise SettingsError(f"{place} is {raw!r}: give a dict.")
    return raw


def _checked(
    kind: type, place: str, raw: Mapping[str, object], also: tuple[str, ...] = ()
) -> dict[str, Any]:
    checks = {
        entry.name.upper(): entry.metadata["check"]
        for entry in fields(kind)
        if "check" in entry.metadata
    }
    for name in raw:
        if name not in checks and name not in also:
            known = sorted((*checks, *also))
            hint = nearest(str(name).upper(), known) or f" Known names: {', '.join(known)}."
            raise SettingsError(f"{place} has no setting {name!r}.{hint}")
    return {
        name.lower(): check(f'{place}["{name}"]', raw[name])
        for name, check in checks.items()
        if raw.get(name) is not None
    }


def _is_setting(entry: Any) -> bool:
    return "check" in entry.metadata and entry.default is not MISSING
