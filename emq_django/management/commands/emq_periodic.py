"""`manage.py emq_periodic`: the timetable, and pausing, resuming or firing one of its entries."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import CommandError

from emq_django.errors import InvalidInput
from emq_django.operating.command import NO, UNABLE, OperatorCommand
from emq_django.operating.tables import Cell, Column, Row, table
from emq_django.operating.text import safe
from emq_django.timetable import operate
from emq_django.timetable.operate import Standing
from emq_django.timetable.slots import Cron

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HEAD = (
    Column(title="name", right=False),
    Column(title="queue", right=False, rank=1),
    Column(title="schedule", right=False, rank=2),
    Column(title="next", right=False),
    Column(title="last", right=False, rank=3),
    Column(title="job", right=False, rank=4),
    Column(title="state", right=False),
)
_NONE = "no periodic task: declare one with @periodic, or in EMQ['PERIODIC']"


class Command(OperatorCommand):
    """List, pause, resume, fire. Times are those of each entry's zone, in UTC with ``--json``."""

    help = "Shows periodic tasks; or pauses, resumes or fires the one that is named."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("action", nargs="?", choices=("pause", "resume", "fire"),
            help="fire: enqueue its job now; without an action all are shown")  # fmt: skip
        add("name", nargs="?", metavar="NAME")
        add("--json", action="store_true", help="one line of JSON, times in ISO 8601")

    def run(self, **options: Any) -> None:
        action, name = options["action"], options["name"]
        if action and not name:
            raise CommandError(
                f"{action} what? Give the name of a periodic task.", returncode=UNABLE
            )
        if action:
            self._act(action, name, as_json=options["json"])
            return
        standings = operate.standings()
        if options["json"]:
            self.write_json([_facts(one) for one in standings])
        elif standings:
            rows = [_row(one) for one in standings]
            self.stdout.write("\n".join(table(_HEAD, rows, self.terminal(options))))
        else:
            self.stdout.write(_NONE)
        if any(one.trouble for one in standings):
            raise CommandError("not all could be asked: see the state of each", returncode=UNABLE)

    def _act(self, action: str, name: str, *, as_json: bool) -> None:
        try:
            operate.entry_called(name)
        except InvalidInput as exc:
            raise CommandError(safe(exc, 300), returncode=NO) from exc
        if action == "fire":
            facts: dict[str, Any] = {"name": name, "job": operate.fire_now(name)}
            text = f"enqueued {facts['job']}"
        else:
            verb = operate.pause if action == "pause" else operate.resume
            facts = {"name": name, "changed": verb(name), "paused": action == "pause"}
            text = "paused" if facts["paused"] else "running"
            text += "" if facts["changed"] else ", as it was"
        if as_json:
            self.write_json(facts)
        else:
            self.stdout.write(f"{safe(name)}: {text}")


def _row(one: Standing) -> Row:
    state = Cell("paused", "warn") if one.is_paused else Cell("running")
    if one.trouble:
        state = Cell(safe(one.trouble, 300), "bad")
    schedule = one.entry.schedule
    zone = schedule.zone if isinstance(schedule, Cron) else UTC
    times = (
        "-" if ms is None else f"{_moment(ms).astimezone(zone):%Y-%m-%d %H:%M:%S %Z}"
        for ms in (None if one.is_paused else one.next_ms, one.state.fired_ms)
    )
    job_id = safe(one.state.job_id) if one.state.job_id else "-"
    return [safe(one.entry.name, 128), safe(one.queue), safe(schedule), *times, job_id, state]


def _facts(one: Standing) -> dict[str, Any]:
    return {
        "name": one.entry.name,
        "task": one.task,
        "queue": one.queue,
        "schedule": str(one.entry.schedule),
        "catch_up": one.entry.policy.catch_up,
        "next": _iso(one.next_ms),
        "last": _iso(one.state.fired_ms),
        "last_slot": _iso(one.state.last_ms),
        "last_job": one.state.job_id,
        "skipped": one.state.skipped,
        "paused_since": _iso(one.state.paused_ms),
        "trouble": one.trouble,
    }


def _iso(ms: int | None) -> str | None:
    return None if ms is None else _moment(ms).isoformat()


def _moment(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)
