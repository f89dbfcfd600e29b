"""A list's tabs, orders, windows and filter form, as links and fields; and a filter in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from emq_django.admin import bands, render
from emq_django.admin.asking import (
    DEATHS,
    PAST,
    WINDOW_PARAMETERS,
    Ask,
    Order,
    Tab,
    default_order,
    local_text,
)
from emq_django.protocol.records import Counts

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as Text

    from emq_django.admin.lists import Part, QueueRead

TABS = {
    Tab.PENDING: gettext_lazy("Pending"),
    Tab.ACTIVE: gettext_lazy("Active"),
    Tab.SCHEDULE: gettext_lazy("Scheduled"),
    Tab.DEAD: gettext_lazy("Dead"),
    Tab.FINISHED: gettext_lazy("Finished"),
    Tab.LANES: gettext_lazy("Lanes"),
}
_BY_MINT = (gettext_lazy("oldest first"), gettext_lazy("newest first"))
_ORDERS = {
    Tab.PENDING: _BY_MINT,
    Tab.ACTIVE: (gettext_lazy("ends first"), gettext_lazy("ends last")),
    Tab.SCHEDULE: (gettext_lazy("due first"), gettext_lazy("due last")),
    Tab.DEAD: _BY_MINT,
    Tab.FINISHED: (gettext_lazy("ended first"), gettext_lazy("ended last")),
}
_WINDOWS: dict[str, Text] = {
    "1m": gettext_lazy("1 min"),
    "15m": gettext_lazy("15 min"),
    "1h": gettext_lazy("1 h"),
    "24h": gettext_lazy("24 h"),
    "7d": gettext_lazy("7 days"),
}
_PASTS = {Tab.ACTIVE: gettext_lazy("expired"), Tab.SCHEDULE: gettext_lazy("overdue")}
_WINDOW_LABELS = {
    Tab.PENDING: gettext_lazy("Minted within:"),
    Tab.DEAD: gettext_lazy("Minted within:"),
    Tab.ACTIVE: gettext_lazy("Lease ends within:"),
    Tab.SCHEDULE: gettext_lazy("Due within:"),
    Tab.FINISHED: gettext_lazy("Ended within:"),
}
_TIMES = {
    Tab.PENDING: (gettext_lazy("Minted from"), gettext_lazy("Minted until")),
    Tab.DEAD: (gettext_lazy("Minted from"), gettext_lazy("Minted until")),
    Tab.ACTIVE: (gettext_lazy("Lease ends from"), gettext_lazy("Lease ends until")),
    Tab.SCHEDULE: (gettext_lazy("Due from"), gettext_lazy("Due until")),
    Tab.FINISHED: (gettext_lazy("Ended from"), gettext_lazy("Ended until")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of several lists to go to."""

    label: Text | str
    url: str
    current: bool
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One input of the filter form."""

    name: str
    label: Text | str
    value: str
    kind: str = "text"
    hint: str = ""
    code: bool = False  # ids and paths are written from left to right


def _sizes(counts: Counts | None, finished: int | None) -> dict[Tab, int | None]:
    return {
        Tab.PENDING: counts.pending if counts else None,
        Tab.ACTIVE: counts.active if counts else None,
        Tab.SCHEDULE: counts.scheduled if counts else None,
        Tab.DEAD: counts.dead if counts else None,
        Tab.FINISHED: finished,
        Tab.LANES: counts.lanes if counts else None,
    }


def tabs(ask: Ask, counts: Counts | None, finished: int | None) -> list[Choice]:
    """Return a queue's lists with their sizes, as far as they are known."""
    sizes = _sizes(counts, finished)
    return [
        Choice(
            label=label,
            url=Ask(tab=tab, order=default_order(tab), band=ask.band).url(),
            count=sizes[tab],
            current=tab is ask.tab,
        )
        for tab, label in TABS.items()
    ]


def orders(ask: Ask) -> list[Choice]:
    """Return both orders of a list."""
    return [
        Choice(label=label, url=ask.start().url(order=order), current=order is ask.order)
        for order, label in zip(Order, _ORDERS.get(ask.tab, ()), strict=False)
    ]


def bands_of(ask: Ask, parts: Mapping[str, Part]) -> list[Choice]:
    """Return the bands of a queue with priorities, with the size of the list in each."""
    if len(parts) < 2:
        return []
    found = [Choice(label=_("all"), url=ask.start().url(band=""), current=not ask.band)]
    for name, part in parts.items():
        band = bands.band_of(name)
        found.append(
            Choice(
                label=bands.LABELS[band],
                url=ask.start().url(band=band),
                count=_sizes(part.counts, part.finished)[ask.tab],
                current=band == ask.band,
            )
        )
    return found


def windows(ask: Ask) -> list[Choice]:
    """Return the windows of time that a list has."""
    if ask.tab is Tab.LANES:
        return []
    _name, known = WINDOW_PARAMETERS[ask.tab]
    return _spans(ask, "window", known)


def deaths(ask: Ask) -> list[Choice]:
    """Return the windows of time in which dead jobs may have died."""
    if ask.tab is not Tab.DEAD:
        return []
    return _spans(ask, "died", DEATHS)


def _spans(ask: Ask, field: str, known: Sequence[str]) -> list[Choice]:
    """Return the choices of a field that holds a window of time, the first of them any time."""
    return [
        Choice(
            label=_window(ask.tab, value),
            url=ask.start().url(**{field: value}),
            current=value == getattr(ask, field),
        )
        for value in ("", *known)
    ]


def window_label(ask: Ask) -> Text | str:
    """Return what the windows of a list are about."""
    return _WINDOW_LABELS.get(ask.tab, "")


def _window(tab: Tab, value: str) -> Text | str:
    if value == PAST:
        return _PASTS[tab]
    return _WINDOWS[value] if value else _("any time")


def fields(ask: Ask, *, sees_payload: bool) -> list[Field]:
    """Return the further inputs of a list's filter form."""
    if ask.tab is Tab.LANES:
        return []
    zone = timezone.get_current_timezone_name()
    since, until = _TIMES[ask.tab]
    found = [
        Field(
            name="from",
            label=since,
            value=local_text(ask.since_ms),
            kind="datetime-local",
            hint=zone,
        ),
        Field(
            name="to", label=until, value=local_text(ask.until_ms), kind="datetime-local", hint=zone
        ),
        Field(name="lane", label=_("Lane"), value=ask.lane, code=True),
        Field(
            name="attempts",
            label=_("Attempts at least"),
            value=str(ask.attempts or ""),
            kind="number",
        ),
    ]
    if ask.tab is Tab.DEAD:
        found[2:2] = [
            Field(
                name=name,
                label=label,
                value=local_text(at_ms),
                kind="datetime-local",
                hint=zone,
            )
            for name, label, at_ms in (
                ("died_from", _("Died from"), ask.died_since_ms),
                ("died_to", _("Died until"), ask.died_until_ms),
            )
        ]
    if sees_payload:
        found += [
            Field(
                name="task", label=_("Task"), value=ask.task, code=True, hint=_("its whole path")
            ),
            Field(name="text", label=_("Text in payload or error"), value=ask.text),
        ]
    return found


def described(ask: Ask) -> list[str]:
    """Return a filter in words, one part each; nothing where the list is whole."""
    parts = []
    if ask.band:
        parts.append(bands.in_words(ask.band))
    if ask.prefix:
        parts.append(_("Id begins with %s") % ask.prefix)
    if ask.window:
        parts.append(f"{window_label(ask)} {_window(ask.tab, ask.window)}")
    if ask.died:
        parts.append(f"{_('Died within:')} {_window(ask.tab, ask.died)}")
    parts += _times_in_words(ask)
    if ask.lane:
        parts.append(_("Lane %(lane)s") % {"lane": ask.lane})
    if ask.attempts:
        parts.append(_("Attempts at least %d") % ask.attempts)
    if ask.task:
        parts.append(_("Task %s") % render.one_line(ask.task, 128))
    if ask.text:
        parts.append(_("Text “%s”") % render.one_line(ask.text, 128))
    return parts


def _times_in_words(ask: Ask) -> list[str]:
    since, until = _TIMES.get(ask.tab, ("", ""))
    zone = timezone.get_current_timezone_name()
    times: list[tuple[Text | str, int | None]] = [(since, ask.since_ms), (until, ask.until_ms)]
    times += [(_("Died from"), ask.died_since_ms), (_("Died until"), ask.died_until_ms)]
    return [
        f"{label} {local_text(at_ms).replace('T', ' ')} {zone}"
        for label, at_ms in times
        if at_ms is not None
    ]


def context(ask: Ask, found: QueueRead | None, *, sees_payload: bool) -> dict[str, Any]:
    """Return what the templates of a list need of all this."""
    extra = fields(ask, sees_payload=sees_payload)
    return {
        "tabs": tabs(ask, found.counts if found else None, found.finished if found else None),
        "bands": bands_of(ask, found.parts if found else {}),
        "orders": orders(ask),
        "windows": windows(ask),
        "window_label": window_label(ask),
        "deaths": deaths(ask),
        "fields": extra,
        "fields_open": any(field.value for field in extra),
        "described": described(replace(ask, band="")),  # the band is one of the choices
        "start": ask.start().url(),
        "clear": Ask(tab=ask.tab, order=ask.order, band=ask.band).url(),
    }
