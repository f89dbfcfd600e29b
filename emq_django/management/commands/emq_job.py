"""`manage.py emq_job ID`: what is known of one job, and what can be done to it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from emq_django.operating import jobs
from emq_django.operating.command import NO, UNABLE, OperatorCommand
from emq_django.operating.text import safe
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.records import Row
from emq_django.protocol.results import Left

_ACTIONS = {
    "cancel": jobs.cancel,
    "retry": jobs.retry,
    "remove": jobs.remove,
    "release": jobs.release,
}


class Command(OperatorCommand):
    """Show a job, or act on it."""

    help = "Shows one job. Contents pass the redaction that the admin uses."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("id", metavar="ID", help="the job's id, or QUEUE:ID as a task's result has it")
        add("--queue", help="where it is; without it every known queue is asked")
        add("--json", action="store_true", help="one line of JSON")
        act = parser.add_mutually_exclusive_group().add_argument
        act("--raw", action="store_true", help="the payload's bytes and nothing else, unredacted")
        act(
            "--cancel",
            action="store_true",
            help="remove it, or ask its worker to end it",
        )
        act("--retry", action="store_true", help="give it another life if it is dead")
        act("--remove", action="store_true", help="take it off the queue unless it runs")
        act("--release", action="store_true", help="take it out of its worker's hands")

    def run(self, **options: Any) -> None:
        if not options["id"].strip():
            raise CommandError(
                "the ID is empty: give a job's id, or QUEUE:ID of a task's result",
                returncode=UNABLE,
            )
        found = jobs.find(options["id"], options["queue"])
        action = next((name for name in _ACTIONS if options[name]), "")
        left = None
        if found is None or found[1].finished:
            left = jobs.find_left(options["id"], options["queue"])
        if left is not None:
            self._show_left(left, options, action)
        elif found is None:
            where = f"in {safe(options['queue'])}" if options["queue"] else "in any known queue"
            raise CommandError(f"{safe(options['id'])} is not {where}", returncode=NO)
        elif action:
            self._act(action, found, options)
        elif options["raw"]:
            payload = jobs.raw_payload(found[0], found[1].id)
            if payload is None:
                why = jobs.without_payload(found[1])
                raise CommandError(f"{safe(found[1].id)}: {why}", returncode=NO)
            sys.stdout.buffer.write(payload)
        elif options["json"]:
            self.write_json(jobs.as_json(*found))
        else:
            self.stdout.write("\n".join(jobs.lines_of(*found)))

    def _act(self, action: str, found: tuple[Queue, Row], options: dict[str, Any]) -> None:
        done = _ACTIONS[action](*found)
        if not done.ok:
            raise CommandError(f"{safe(found[1].id)}: {done.text}", returncode=NO)
        if options["json"]:
            self.write_json({"id": found[1].id, "did": action, "verdict": done.verdict})
        else:
            self.stdout.write(f"{safe(found[1].id)}: {done.text}")

    def _show_left(
        self, left: tuple[Queue, str, Left], options: dict[str, Any], action: str
    ) -> None:
        """Show what a finished job left; there is nothing to be done to it any more."""
        if action:
            why = "it has finished and only its result is left: nothing was done"
            raise CommandError(f"{safe(left[1])}: {why}", returncode=NO)
        if options["raw"]:
            payload = left[2].fields["payload"]
            if payload is None:
                why = "it has finished, and its payload was too large to be kept with its result"
                raise CommandError(f"{safe(left[1])}: {why}", returncode=NO)
            sys.stdout.buffer.write(payload)
        elif options["json"]:
            self.write_json(jobs.left_as_json(*left))
        else:
            self.stdout.write("\n".join(jobs.lines_of_left(*left)))
