"""A queue with priorities: three on the wire, its bands, and one to people.

A page is about the queue. Each row knows the band that holds it, which is what an action and the
page of a job go to; ``Ask.band`` narrows a list to one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from emq_django.conf import conf

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as Text

    from emq_django.protocol.records import Entry

LABELS: Final[dict[str, Text]] = {
    "high": gettext_lazy("high"),
    "normal": gettext_lazy("normal"),
    "low": gettext_lazy("low"),
}
NAMES: Final = tuple(LABELS)  # in the order of Conf.bands, the most urgent first


class Hit(NamedTuple):
    """A job in a list, and the queue on the wire that holds it."""

    queue: str
    entry: Entry


def queues_of(name: str, band: str = "") -> tuple[str, ...]:
    """Return the queues on the wire that stand for one, or the one of a band."""
    found = conf().bands(name)
    return (found[NAMES.index(band)],) if band and len(found) > 1 else found


def split(name: str) -> tuple[str, str]:
    """Return the queue of which this one on the wire is a part, and which band; "" for none."""
    base = conf().base_of(name)
    return base, band_of(name)


def band_of(name: str) -> str:
    """Return which band of its queue this one on the wire is; "" for a queue without them."""
    found = conf().bands(conf().base_of(name))
    return NAMES[found.index(name)] if len(found) > 1 else ""


def in_words(band: str) -> str:
    """Return a band as a page says it; nothing for none."""
    return _("Priority %(band)s") % {"band": LABELS[band]} if band else ""


def token(band: str, target: str) -> str:
    """Return the value of a checkbox: what is selected, and in which band.

    >>> target_of(token("high", "JOB0KHTOWnGLuC"))
    ('high', 'JOB0KHTOWnGLuC')
    """
    return f"{band}:{target}" if band and target else target


def target_of(value: str) -> tuple[str, str]:
    """Return the band and the rest of a checkbox's value."""
    band, _colon, target = value.rpartition(":")
    return band, target
