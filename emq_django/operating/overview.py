"""The tables of queues, of workers, and of what the workers counted in the last hour."""

from __future__ import annotations

from typing import Any, Final

from emq_django.conf import conf, keys
from emq_django.connections import admin_wire_for
from emq_django.errors import EmqError, Unreachable
from emq_django.operating.command import sentence
from emq_django.operating.survey import QueueSeen, Survey, ask
from emq_django.operating.tables import Cell, Column, Row, table
from emq_django.operating.terminal import Terminal
from emq_django.operating.text import in_number, number, safe, span
from emq_django.protocol import metrics

_HEAD = (
    Column(title="queue", right=False),
    Column(title="state", right=False, rank=1),
    Column(title="pending"),
    Column(title="in lanes", rank=7),
    Column(title="active", rank=1),
    Column(title="expired", rank=4),
    Column(title="scheduled", rank=2),
    Column(title="dead", rank=1),
    Column(title="lanes", rank=8),
    Column(title="oldest", rank=3),
    Column(title="completed", rank=5),
    Column(title="failed", rank=6),
    Column(title="workers", rank=3),
)
_WORKERS = (
    Column(title="host", right=False),
    Column(title="pid"),
    Column(title="state", right=False),
    Column(title="last beat"),
    Column(title="processes", rank=2),
    Column(title="busy"),
    Column(title="version", rank=3),
    Column(title="queues", right=False, rank=1),
)
_FIGURES_HEAD = (
    Column(title="queue, last hour", right=False),
    Column(title="started", rank=1),
    Column(title="completed"),
    Column(title="retried", rank=1),
    Column(title="died", rank=1),
    Column(title="lost", rank=1),
    Column(title="run p50", rank=3),
    Column(title="run p95", rank=2),
    Column(title="wait p50", rank=3),
    Column(title="wait p95", rank=2),
)
_FIGURES = (
    "pending", "lane_pending", "active", "expired", "scheduled", "dead", "lanes", "completed",
    "failed", "next_due_ms", "oldest_expired_ms", "now_ms",
)  # fmt: skip


def lines_of(seen: Survey, terminal: Terminal) -> list[str]:
    """Return the table of all queues, and below it what could not be read."""
    rows = [_row(one) for one in seen.queues if _is_there(one)]
    lines = table(_HEAD, rows, terminal) if rows or not seen.queues else []
    if not seen.queues and not seen.errors:
        lines.append("no queue yet: name some in EMQ['QUEUES'], or enqueue a job")
    return lines + _missing_from(seen, terminal)


def _missing_from(seen: Survey, terminal: Terminal) -> list[str]:
    """Return what every table says below it: what could not be read, and what is not there."""
    lines = [terminal.paint(sentence(error), "bad") for error in seen.errors]
    told = set(map(id, seen.errors))
    lines += [
        terminal.paint(f"{safe(one.name)}: {sentence(one.error)}", "bad")
        for one in seen.queues
        if one.error is not None and id(one.error) not in told
    ]
    lines += [one.stranger for one in seen.queues if one.stranger]
    if seen.left_out:
        out = in_number(seen.left_out, "1 queue is left out", "{} queues are left out")
        lines.append(f"{out}; name those you want to see")
    return lines


def workers_of(seen: Survey, terminal: Terminal) -> list[str]:
    """Return the table of all workers, those that are gone last."""
    rows: list[Row] = [
        [
            safe(line.seen.host, 64),
            str(line.seen.pid),
            Cell("gone", "bad") if line.gone else Cell("alive"),
            span(line.age_ms),
            f"{line.seen.processes} x {line.seen.concurrency}",
            f"{line.seen.busy_count}",
            safe(line.seen.version, 20),
            safe(", ".join(line.seen.queues), 60),
        ]
        for line in seen.workers
    ]
    lines = table(_WORKERS, rows, terminal) if rows else []
    if not rows and not seen.errors:  # a server that can't be asked may know of some
        lines.append("no worker has been seen")
    return lines + _missing_from(seen, terminal)


def figures_of(seen: Survey, terminal: Terminal) -> list[str]:
    """Return the table of what workers counted in the last hour."""
    rows: list[Row] = []
    for one in filter(_is_there, seen.queues):
        # Asking a server that is away again would only wait once more.
        total = None if isinstance(one.error, Unreachable) else _total_of(one.name)
        if total is None:
            rows.append([safe(one.name, 128), *["-"] * (len(_FIGURES_HEAD) - 1)])
            continue
        counts = (total.started, total.completed, total.retried, total.failed, total.lost)
        times = [
            durations.percentile_ms(share)
            for durations in (total.run, total.wait)
            for share in (0.5, 0.95)
        ]
        spans = ["-" if ms is None else span(ms) for ms in times]
        rows.append([safe(one.name, 128), *map(number, counts), *spans])
    lines = table(_FIGURES_HEAD, rows, terminal) if rows or not seen.queues else []
    return lines + _missing_from(seen, terminal)


def _total_of(name: str) -> metrics.Figures | None:
    """Return what was counted in a queue and its bands; None where it can't be read."""
    total = metrics.Figures()
    for queue in map(keys, conf().bands(name)):
        (history,) = ask(admin_wire_for(queue), [metrics.history(queue, "minute", 60)])
        if isinstance(history, EmqError):
            return None
        total.merge(history.total())
    return total


SHOWN: Final = {"queues": lines_of, "workers": workers_of, "figures": figures_of}


def as_json(seen: Survey) -> dict[str, Any]:
    """Return the same for programs; times in ms, figures as numbers."""
    return {
        "queues": [_json_of(one) for one in seen.queues],
        "workers": [
            {
                "incarnation": line.seen.incarnation,
                "host": line.seen.host,
                "pid": line.seen.pid,
                "version": line.seen.version,
                "queues": line.seen.queues,
                "concurrency": line.seen.concurrency,
                "processes": line.seen.processes,
                "busy": [{"queue": one.queue, "id": one.id} for one in line.seen.busy],
                "busy_count": line.seen.busy_count,
                "started_ms": line.seen.started_ms,
                "beat_age_ms": line.age_ms,
                "gone": line.gone,
            }
            for line in seen.workers
        ],
        "errors": [sentence(error) for error in seen.errors],
        "left_out": seen.left_out,
    }


def _is_there(one: QueueSeen) -> bool:
    """Whether a queue has a row: a name that nobody knows has none, unless it was paused."""
    return not one.stranger or (one.counts is not None and one.counts.paused)


def _row(one: QueueSeen) -> Row:
    name = safe(one.name, 128)
    counts = one.counts
    if counts is None:
        return [name, Cell("unreadable", "bad"), *["-"] * (len(_HEAD) - 2)]
    oldest = one.oldest_ms
    idle = one.waiting > 0 and not one.workers
    return [
        name,
        Cell("paused", "warn") if counts.paused else Cell("running"),
        number(counts.pending),
        number(counts.lane_pending),
        number(counts.active),
        Cell(number(counts.expired), "bad" if counts.expired else None),
        number(counts.scheduled),
        Cell(number(counts.dead), "warn" if counts.dead else None),
        number(counts.lanes),
        "-" if oldest is None else span(oldest),
        number(counts.completed),
        number(counts.failed),
        Cell(number(one.workers), "bad" if idle else None),
    ]


def _json_of(one: QueueSeen) -> dict[str, Any]:
    said: dict[str, Any] = {"name": one.name, "workers": one.workers, "error": None}
    if one.counts is None:
        return {**said, "error": sentence(one.error) if one.error else "unknown"}
    if not _is_there(one):
        return {**said, "error": one.stranger}
    figures = {name: getattr(one.counts, name) for name in _FIGURES}
    state = "paused" if one.counts.paused else "running"
    return {**said, "state": state, **figures, "oldest_pending_age_ms": one.oldest_ms}
