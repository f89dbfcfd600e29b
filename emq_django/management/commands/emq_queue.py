"""`manage.py emq_queue NAME VERB`: pause, resume, drain, retry the dead, obliterate."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from emq_django.operating import acting
from emq_django.operating.command import UNABLE, OperatorCommand
from emq_django.operating.progress import Progress
from emq_django.operating.survey import survey
from emq_django.operating.terminal import terminal_of


class Command(OperatorCommand):
    """Act on one queue, in bounded steps that Ctrl-C may end at any time."""

    help = "Acts on one queue. Long work goes in bounded steps; Ctrl-C stops between two of them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("queue", metavar="NAME")
        verbs = "; ".join(f"{name}: {verb.help}" for name, verb in acting.VERBS.items())
        add("verb", choices=sorted(acting.VERBS), metavar="VERB", help=verbs)
        add("--yes", action="store_true", help="do not ask")
        add("--force", action="store_true", help="obliterate: also jobs that workers hold")
        add("--also", action="append", choices=("scheduled", "dead"), default=[],
            help="drain: these jobs too")  # fmt: skip

    def run(self, **options: Any) -> None:
        for option, verb in (("also", "drain"), ("force", "obliterate")):
            if options[option] and options["verb"] != verb:
                raise CommandError(
                    f"--{option} is for {verb}, not for {options['verb']}: nothing was done",
                    returncode=UNABLE,
                )
        live = terminal_of(self.stderr, no_colour=options["no_color"])
        label = f"{options['verb']} {options['queue']}"
        strange = [one.stranger for one in survey([options["queue"]]).queues if one.stranger]
        self.stdout.write(acting.act(self, options, Progress(self.stderr, live, label)))
        if strange:
            self.stderr.write(f"note: {strange[0]}", style_func=str)
