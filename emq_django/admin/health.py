"""One line on whether the server keeps what it is given, and whether somebody works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from emq_django.server_checks import parse_info

if TYPE_CHECKING:
    from emq_django.wire.sync import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What a server tells of itself; empty where it does not."""

    policy: str = ""
    append_only: str = ""  # "1" or "0"
    full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One part of the line."""

    text: str
    bad: bool = False


def ask(wire: Wire, key: bytes) -> Server:
    """Read what a server tells; a user who may not ask learns nothing, and no page fails."""
    try:
        replies = wire.client.execute_many([("INFO", "memory"), ("INFO", "persistence")], key)
    except Exception:  # noqa: BLE001 - the figures beside it say what is wrong
        return Server()
    info: dict[str, str] = {}
    for reply in replies:
        info |= parse_info(reply) if isinstance(reply, bytes) else {}
    used, most = _number(info, "used_memory"), _number(info, "maxmemory")
    return Server(
        policy=info.get("maxmemory_policy", ""),
        append_only=info.get("aof_enabled", ""),
        full=most > 0 and used >= 0.9 * most,
    )


def _number(info: dict[str, str], name: str) -> int:
    text = info.get(name, "")
    return int(text) if text.isdecimal() else 0


def notes(servers: list[Server], expired: int | None, workers: int | None) -> list[Note]:
    """Return the line's parts: eviction, persistence, expired leases, workers."""
    found: list[Note] = []
    for server in dict.fromkeys(servers):
        found += _server_notes(server)
    if expired is not None:
        text = ngettext("%d expired lease", "%d expired leases", expired) % expired
        found.append(Note(text=text, bad=expired > 0))
    if workers is not None:
        text = ngettext("%d worker seen", "%d workers seen", workers) % workers
        found.append(Note(text=text, bad=not workers))
    return found


def _server_notes(server: Server) -> list[Note]:
    found = []
    if server.policy == "noeviction":
        found.append(Note(text=_("a full server refuses jobs (noeviction)")))
    elif server.policy:
        found.append(
            Note(text=_("a full server deletes keys, jobs too (%s)") % server.policy, bad=True)
        )
    if server.append_only == "1":
        found.append(Note(text=_("append-only file on")))
    elif server.append_only == "0":
        found.append(Note(text=_("append-only file off: a crash loses jobs"), bad=True))
    if server.full:
        found.append(Note(text=_("over 90 % of its memory limit is used"), bad=True))
    if not found:
        found.append(Note(text=_("the server does not tell how it keeps jobs")))
    return found
