"""Records of the wire as the rows and facts of a page: safe text, words, links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext as _

from emq_django.admin import bands, render, words
from emq_django.admin.asking import Ask, Tab
from emq_django.admin.bands import Hit
from emq_django.admin.links import Links
from emq_django.admin.lists import minted_of
from emq_django.admin.render import Contents, Shown
from emq_django.admin.tokens import cursor_token
from emq_django.admin.words import Moment
from emq_django.conf import conf
from emq_django.protocol import read
from emq_django.protocol.ids import is_branded
from emq_django.protocol.lanes import Lane
from emq_django.protocol.notes import Log
from emq_django.protocol.records import Blob, Entry, JobSet, Row

# Fields that say where a job is and who has it. All others are contents and need the permission.
_PLAIN_FIELDS: Final = (
    "state", "attempts", "group", "failures", "stalled", "worker", "taken", "finished", "died",
    "cancel",
)  # fmt: skip
_FIRST_CONTENTS: Final = ("payload", "last_error")
_LONGEST_FACT_BYTES = 256
_LONGEST_LOG_LINE = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job in a list."""

    id: str
    url: str | None
    token: str  # value of its checkbox; empty where the id is too long for one
    ghost: bool
    band: str  # in words; empty for a queue without bands
    minted: Moment | None
    attempts: str
    worker: str
    lane: str
    lane_url: str | None
    moment: Moment | None  # end of the lease, due time, or when it ended
    died: Moment | None  # of a dead one, where this package buried it
    ran: str  # how long, of a finished one
    retry: bool
    size: str
    task: str
    payload: Shown
    error: Shown
    folded: str  # what a narrow screen shows below instead of columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One line of the job page's table; a moment or text."""

    label: str
    text: str = ""
    moment: Moment | None = None
    url: str | None = None
    code: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """One field whose value needs the permission to see contents."""

    name: str
    size: str
    shown: Shown


def job_rows(
    ask: Ask, now_ms: int, hits: list[Hit], contents: Contents, links: Links
) -> list[JobRow]:
    """Return the rows of a list."""
    most_chars = conf().admin.preview_chars
    moment_of = _MOMENTS.get(ask.tab)
    back = ask.url()
    back = "" if back == Ask().url() else back
    band_of = {queue: bands.band_of(queue) for queue in {hit.queue for hit in hits}}
    return [
        _job_row(
            hit, band_of[hit.queue], ask.tab, now_ms, moment_of, contents, links, most_chars, back
        )
        for hit in hits
    ]


_OF_A_CLAIM: Final = {Tab.ACTIVE, Tab.SCHEDULE, Tab.DEAD}
_MOMENTS: Final = {
    Tab.ACTIVE: words.lease,
    Tab.SCHEDULE: words.due,
    Tab.FINISHED: words.ended,
}


def token_of(job_id: str, attempts: str | None, tab: Tab | None) -> str:
    """Return the value of a job's checkbox, good for what was shown: a lease, a death, a wait."""
    token = cursor_token(job_id) or ""
    if tab not in _OF_A_CLAIM or not (token and attempts and attempts.isalnum()):
        return token
    return f"{token}.{attempts}"


def _job_row(
    hit: Hit,
    band: str,
    tab: Tab,
    now_ms: int,
    moment_of: Callable[[float, int], Moment] | None,
    contents: Contents,
    links: Links,
    most_chars: int,
    back: str,
) -> JobRow:
    queue, entry = hit
    attempts, lane = render.name(entry.attempts) or "-", render.name(entry.lane)
    size = words.size(entry.payload.size)
    line = contents.line(entry, most_chars)
    folded = [_("Attempts %(count)s") % {"count": attempts}, size]
    if line.task:
        folded.insert(0, line.task)
    shown_band = bands.in_words(band)
    if band:
        folded.append(shown_band)
    if lane:
        folded.append(_("Lane %(lane)s") % {"lane": lane})
    if moment_of and line.error.text:
        folded.append(line.error.text)
    died = words.ended(entry.died_ms, now_ms) if tab is Tab.DEAD and entry.died_ms else None
    if died:
        folded.insert(0, _("Died %(when)s") % {"when": died.words})
    return JobRow(
        id=render.name(entry.id),
        url=links.job(queue, entry.id, back),
        token=bands.token(band, token_of(entry.id, entry.attempts, tab)),
        band=shown_band,
        ghost=not entry.exists,
        minted=minted_of(entry.id, now_ms),
        attempts=attempts,
        worker=render.name(entry.worker) or "-",
        lane=lane,
        lane_url=links.lane(queue, entry.lane),
        moment=moment_of(entry.score, now_ms) if moment_of else None,
        died=died,
        ran=_ran(entry) if tab is Tab.FINISHED else "",
        retry=_is_retry(entry),
        size=size,
        task=line.task,
        payload=line.payload,
        error=line.error,
        folded=" · ".join(folded),
    )


def _ran(entry: Entry) -> str:
    taken = entry.taken or ""
    known = taken.isdecimal() and len(taken) < 16
    return words.exact_span(entry.score - int(taken)) if known else "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRow:
    """One lane."""

    name: str
    url: str | None
    token: str
    band: str  # in words; empty for a queue without bands
    lane: Lane


def lane_rows(found: list[tuple[str, Lane]], links: Links) -> list[LaneRow]:
    """Return the rows of the lanes, those with most work first."""
    ordered = sorted(found, key=lambda one: (-one[1].waiting, -one[1].active, one[1].name))
    band_of = {queue: bands.band_of(queue) for queue in {queue for queue, _lane in found}}
    return [
        LaneRow(
            name=render.name(lane.name),
            url=links.lane(queue, lane.name),
            token=bands.token(band_of[queue], lane.name if is_branded(lane.name) else ""),
            band=bands.in_words(band_of[queue]),
            lane=lane,
        )
        for queue, lane in ordered
    ]


def _is_retry(entry: Entry) -> bool:
    return (entry.attempts or "0") != "0"


def _task(row: Row, contents: Contents) -> str:
    if not contents.allowed:
        return ""
    blob = row.fields.get("payload")
    shown = contents.line_of(row.id, "payload", blob) if blob else ""
    return render.task_of(shown)


def facts(queue: str, row: Row, links: Links, contents: Contents) -> list[Fact]:
    """Return what is known of a job without its contents."""
    found = [Fact(label=_("Where"), text=_place(row))]
    if band := bands.band_of(queue):
        found.append(Fact(label=_("Priority"), text=str(bands.LABELS[band])))
    if task := _task(row, contents):
        found.append(Fact(label=_("Task"), text=task, code=True))
    found += _moments(row)
    labels = {
        "state": _("State in the row"),
        "attempts": _("Attempts (claims so far)"),
        "failures": _("Failed runs"),
        "stalled": _("Lost leases"),
        "worker": _("Worker"),
        "group": _("Lane"),
        "taken": _("Taken by its worker"),
        "cancel": _("Asked to end"),
        "finished": _("Finished"),
    }
    for field, label in labels.items():
        if field in row.fields and field in {"taken", "finished", "cancel"}:
            found += _stamped(label, row.fields[field], row.now_ms)
        elif field in row.fields:
            text, code = _plain(row.fields[field]), field in {"worker", "group"}
            url = links.lane(queue, text) if field == "group" else None
            found.append(Fact(label=label, text=text, url=url, code=code))
    if row.ttl_ms is not None:
        found.append(Fact(label=_("Row is removed in"), text=words.span(row.ttl_ms)))
    return found


def _moments(row: Row) -> list[Fact]:
    """Return when the job is due, free, dead or made, as far as its place and its id tell."""
    found = []
    if row.held_by == JobSet.ACTIVE and row.score is not None:
        found.append(Fact(label=_("Lease"), moment=words.lease(row.score, row.now_ms)))
    if row.held_by == JobSet.SCHEDULE and row.score is not None:
        found.append(Fact(label=_("Due"), moment=words.due(row.score, row.now_ms)))
    if row.held_by == JobSet.DEAD and (died_ms := read.death_ms(*_texts(row, "died", "attempts"))):
        found.append(Fact(label=_("Died"), moment=words.ended(died_ms, row.now_ms)))
    if minted := minted_of(row.id, row.now_ms):
        found.append(Fact(label=_("Minted"), moment=minted))
    return found


def _texts(row: Row, *names: str) -> list[str | None]:
    blobs = [row.fields.get(name) for name in names]
    return [(blob.value or b"").decode("ascii", "replace") if blob else None for blob in blobs]


def _stamped(label: str, blob: Blob, now_ms: int) -> list[Fact]:
    text = (blob.value or b"").decode("ascii", "replace")
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        return []
    return [Fact(label=label, moment=words.ended(int(text), now_ms))]


def _place(row: Row) -> str:
    places = {
        "pending": _("waiting (pending)"),
        "lane": _("waiting in its lane"),
        "active": _("leased by a worker (active)"),
        "schedule": _("waiting for its time (scheduled)"),
        "dead": _("given up (dead)"),
    }
    if row.held_by is None and _is_result(row):
        return _("finished: this is the result it left")
    return places.get(row.held_by or "", _("in no set: nothing will pick it up"))


def _is_result(row: Row) -> bool:
    state = row.fields.get("state")
    return state is not None and state.value == b"completed"


def _plain(blob: Blob) -> str:
    if blob.value is None or blob.size > _LONGEST_FACT_BYTES:
        return words.size(blob.size)
    return render.name(blob.value.decode("utf-8", "surrogateescape"))


def log_lines(job_id: str, log: Log | None, contents: Contents) -> list[str]:
    """Return the last lines of a job's log, as far as they may be read."""
    if log is None or not contents.allowed:
        return []
    raw = [line.encode("utf-8", "replace") for line in log.lines]
    shown = [contents.line_of(job_id, "logs", Blob(len(line), line)) for line in raw]
    return [render.one_line(line, _LONGEST_LOG_LINE) for line in shown]


def contents_of(row: Row, contents: Contents) -> list[Content]:
    """Return the fields that hold contents: payload and error first, then by name."""
    others = sorted(set(row.fields) - {*_PLAIN_FIELDS, *_FIRST_CONTENTS})
    return [
        Content(
            name=render.name(field),
            size=words.size(row.fields[field].size),
            shown=contents.whole(row.id, field, row.fields[field]),
        )
        for field in (*_FIRST_CONTENTS, *others)
        if field in row.fields
    ]
