"""What only the server can tell, asked under ``check --deploy`` with short timeouts.

A server that can't be asked is a warning, so that a build machine without one can still check.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from django.core.checks import CheckMessage, Error, Warning  # noqa: A004 - Django's name

from emq_django.addresses import resolve
from emq_django.conf import SettingsError, conf
from emq_django.dialing import client_of
from emq_django.targets import Target
from emq_django.wire.client import Client
from emq_django.wire.replies import error_for

_CONNECT_S: Final = 1.0
_READ_S: Final = 2.0
_KEY: Final = b"emq:{checks}:"  # names the node to ask in a cluster; never written

OLDEST: Final = {"Redis": (6, 2), "Valkey": (8, 0)}

Info = Mapping[str, str]


def check_servers(**_: object) -> list[CheckMessage]:
    """E006, E007, W004 to W007, for each server behind ``EMQ["CONNECTION"]``."""
    try:
        targets = resolve(conf().connection).targets
    except SettingsError:
        return []  # check_settings tells
    return [message for target in targets for message in _check(target)]


def _check(target: Target) -> Iterator[CheckMessage]:
    label = target.address.label
    client = client_of(target.within(_CONNECT_S, _READ_S))
    try:
        info = parse_info(client.execute(("INFO",), _KEY))
        spare = _min_replicas(client) if target.sentinels else None
    except Exception as exc:  # noqa: BLE001 - any failure is the same finding
        yield Warning(
            f"the server {label} could not be asked: {error_for(exc)}",
            hint="Run this check where the server can be reached, as a user who may use INFO."
            " Eviction policy, persistence and version are unknown until then.",
            id="emq.W004",
        )
        return
    finally:
        client.close()
    yield from eviction(info, label)
    yield from persistence(info, label)
    yield from version(info, label)
    if spare == 0:
        yield Warning(
            f"the master of {label} takes writes without a replica (min-replicas-to-write 0): after"
            " a failover, jobs that only the old master had are gone.",
            hint="Set min-replicas-to-write 1 and min-replicas-max-lag 2 on every server of the"
            " service. Enqueue then waits for a replica to come back instead of losing jobs.",
            id="emq.W007",
        )


def _min_replicas(client: Client) -> int | None:
    """Return the setting, None for a user who may not read it."""
    ask = ("CONFIG", "GET", "min-replicas-to-write")
    reply = client.execute_many([ask], _KEY)[0]
    return int(reply[1]) if isinstance(reply, list) and len(reply) > 1 else None


def parse_info(reply: bytes) -> Info:
    """Return the fields of an INFO reply."""
    lines = (line.partition(":") for line in reply.decode("utf-8", "replace").splitlines())
    return {name: value for name, colon, value in lines if colon}


def eviction(info: Info, label: str) -> Iterator[CheckMessage]:
    """A policy that makes room by deleting keys deletes jobs."""
    policy = info.get("maxmemory_policy", "")
    hint = "Set maxmemory-policy noeviction: a full server then refuses an enqueue, which says so."
    if policy.startswith("allkeys"):
        yield Error(
            f"the server {label} has maxmemory-policy {policy}: when its memory is full it deletes"
            " jobs, pending ones included, without a word.",
            hint=hint,
            id="emq.E006",
        )
    elif policy.startswith("volatile"):
        yield Warning(
            f"the server {label} has maxmemory-policy {policy}: when its memory is full it deletes"
            " the marks of finished jobs before their time, so an enqueue that is sent again may"
            " run a job twice.",
            hint=hint,
            id="emq.W005",
        )


def persistence(info: Info, label: str) -> Iterator[CheckMessage]:
    """Without an append-only file a crash takes jobs that were acknowledged."""
    if info.get("aof_enabled") == "0":
        yield Warning(
            f"the server {label} keeps no append-only file: when it ends without a word, the jobs"
            " since its last snapshot are gone, and all of them when it makes none.",
            hint="Set appendonly yes with appendfsync everysec, unless jobs may be lost.",
            id="emq.W006",
        )


def version(info: Info, label: str) -> Iterator[CheckMessage]:
    """Valkey answers the Redis version that it is compatible with beside its own."""
    name = "Valkey" if "valkey_version" in info else "Redis"
    text = info.get(f"{name.lower()}_version", "")
    numbers = tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
    if numbers and numbers < OLDEST[name]:
        oldest = ".".join(str(number) for number in OLDEST[name])
        yield Error(
            f"the server {label} is {name} {text}: queues need {name} {oldest} or later.",
            hint="Update the server; Redis 6.2 and later and Valkey 8 and later are tested.",
            id="emq.E007",
        )
