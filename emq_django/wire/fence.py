"""The version fence: which speakers may share a database. Read at every connect, never overwritten.

The steps are a generator of commands, so that the sync and the asyncio client run the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any, Final

from redis.exceptions import MovedError

from emq_django.errors import FenceRefused
from emq_django.protocol.keyspace import VERSION_KEY
from emq_django.wire.client import Command

MAJOR: Final = 3  # the wire this package speaks: any echomq:3.x.y
_VALUE = re.compile(rb"echomq:(\d+)\.\d+\.\d+")


def greeting(claim: str | None) -> Generator[Command, Any, None]:
    """Yield the commands of the fence; raises FenceRefused when this database is not ours to use.

    An absent version is left absent, or claimed with ``claim`` when the settings give a value.
    """
    command: Command = ("GET", VERSION_KEY)
    try:
        found = yield command
        if found is None and claim is not None:
            yield ("SET", VERSION_KEY, claim, "NX")
            found = yield command  # another speaker may have been first
    except MovedError:
        return  # another node of the cluster holds the fence, and is greeted when it is spoken to
    if found is not None:
        check(found)


def check(found: bytes) -> None:
    """Raise FenceRefused unless ``found`` is a version of our major."""
    match = _VALUE.fullmatch(found)
    if match is None or int(match[1]) != MAJOR:
        raise FenceRefused(
            f"the database's {VERSION_KEY.decode()} is {found.decode('utf-8', 'replace')!r} and"
            f" this package speaks echomq:{MAJOR}: use another database or server for it"
        )
