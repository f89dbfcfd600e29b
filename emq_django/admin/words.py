"""Times, sizes and failures in words of the reader's language."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from emq_django import errors
from emq_django.admin.render import one_line
from emq_django.errors import EmqError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_DETAIL = 300
# The server adds where its script stopped; that says nothing to an operator.
_SCRIPT_PLACE = re.compile(r"\s*script: [0-9a-f]{40}, on @user_script:\d+\.?$")


@dataclass(frozen=True, slots=True)
class Moment:
    """A time of the server's clock: how far from now in words, and the full stamp twice."""

    words: str
    iso: str = ""  # UTC, for machines
    local: str = ""  # the reader's zone, to the second
    late: bool = False  # it went by and something should have happened


@dataclass(frozen=True, slots=True)
class Problem:
    """Why there are no figures: what is wrong in words, and the text behind it."""

    headline: str
    detail: str


def span(ms: float) -> str:
    """Return a length of time in its two largest units."""
    seconds = int(abs(ms)) // 1000
    if not seconds:
        return _("under 1 s")
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return _("%(days)s d %(hours)s h") % {"days": days, "hours": hours}
    if hours:
        return _("%(hours)s h %(minutes)s min") % {"hours": hours, "minutes": minutes}
    if minutes:
        return _("%(minutes)s min %(seconds)s s") % {"minutes": minutes, "seconds": seconds}
    return _("%(seconds)s s") % {"seconds": seconds}


def exact_span(ms: float) -> str:
    """Return a length of time that may be short: how long a job ran."""
    if ms < 1_000:
        return _("%(ms)d ms") % {"ms": max(round(ms), 0)}
    if ms < 10_000:
        return _("%(seconds)s s") % {"seconds": _tenths(ms / 1_000)}
    return span(ms)


def ended(at_ms: float, now_ms: int) -> Moment:
    """Return how long ago something was over."""
    return _moment(_("%(span)s ago") % {"span": _far(at_ms, now_ms)}, at_ms)


def minted(at_ms: int, now_ms: int) -> Moment:
    """Return how long ago an id was minted, by its producer's clock."""
    if at_ms > now_ms + 1_000:
        words = _("%(span)s ahead of the server's clock") % {"span": span(at_ms - now_ms)}
    else:
        words = span(now_ms - at_ms)
    return _moment(words, at_ms)


def lease(end_ms: float, now_ms: int) -> Moment:
    """Return how much of a lease is left."""
    if end_ms <= now_ms:
        return _moment(
            _("expired %(span)s ago") % {"span": _far(end_ms, now_ms)}, end_ms, late=True
        )
    return _moment(_("%(span)s left") % {"span": _far(end_ms, now_ms)}, end_ms)


def due(at_ms: float, now_ms: int) -> Moment:
    """Return when a scheduled job falls due."""
    if at_ms <= now_ms:
        return _moment(_("due since %(span)s") % {"span": _far(at_ms, now_ms)}, at_ms, late=True)
    return _moment(_("in %(span)s") % {"span": _far(at_ms, now_ms)}, at_ms)


def stamp(at_ms: float) -> Moment:
    """Return a time whose words are its stamp in the reader's zone."""
    moment = _moment("", at_ms)
    return Moment(moment.local or repr(at_ms), moment.iso, moment.local)


def _far(at_ms: float, now_ms: int) -> str:
    # A score is whatever somebody wrote: infinity is one.
    return span(at_ms - now_ms) if math.isfinite(at_ms) else "∞"


def _moment(words: str, at_ms: float, *, late: bool = False) -> Moment:
    try:
        at = _EPOCH + timedelta(milliseconds=at_ms)
        local = timezone.localtime(at)
    except (OverflowError, ValueError):
        return Moment(words, late=late)
    return Moment(
        words,
        iso=at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        local=local.strftime("%Y-%m-%d %H:%M:%S %Z"),
        late=late,
    )


def size(count: int) -> str:
    """Return a size in bytes, kilobytes or megabytes."""
    if count < 1_000:
        return ngettext("%(count)d byte", "%(count)d bytes", count) % {"count": count}
    if count < 1_000_000:
        return _("%(number)s kB") % {"number": _tenths(count / 1_000)}
    return _("%(number)s MB") % {"number": _tenths(count / 1_000_000)}


def _tenths(number: float) -> str:
    # As a decimal: Django cuts a float off where it should round it.
    return number_format(Decimal(f"{number:.1f}"), 1)


def problem(error: BaseException) -> Problem:
    """Return what went wrong with a read of the server, in words."""
    return Problem(_headline(error), one_line(_SCRIPT_PLACE.sub("", str(error)), _LONGEST_DETAIL))


def _headline(error: BaseException) -> str:
    # The nearest class of the tree in errors.py that has words of its own.
    headlines: dict[type, str] = {
        errors.ConfigError: _("The settings of the queue server can't work."),
        errors.InvalidInput: _("This can't be asked for."),
        errors.WrongType: _("A key of this queue holds another type of value."),
        errors.ProtocolError: _("The server refused to read this."),
        errors.Unreachable: _("The server did not answer."),
        errors.WrongAddress: _("What answers is not the queue server."),
        errors.TooManyClients: _("The server has no connection left."),
        errors.ServerBusy: _("The server is not ready: it loads its data, fails over or is busy."),
        errors.ServerReadOnly: _("The server that answered is a replica."),
        errors.ServerFull: _("The server is at its memory limit."),
        errors.AccessRefused: _("The server refused the user or the command."),
        EmqError: _("The server could not be read."),
    }
    kind = next(kind for kind in type(error).__mro__ if kind in headlines or kind is object)
    return headlines.get(kind, _("The server's answer could not be understood."))
