"""`manage.py emq_queues`: all queues in one table, once or again and again."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.core.management.base import CommandError

from emq_django.operating.command import NO, STOPPED, UNABLE, OperatorCommand, seconds
from emq_django.operating.overview import SHOWN, as_json
from emq_django.operating.survey import Survey, survey
from emq_django.operating.terminal import Terminal
from emq_django.operating.text import safe

_LEAST_S = 0.1  # between two looks


class Command(OperatorCommand):
    """Show the queues. Writes nothing."""

    help = "Shows every queue that the settings or the server name, and who works for it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("queues", nargs="*", metavar="QUEUE", help="only these")
        add("--show", choices=tuple(SHOWN), default="queues",
            help="another table: workers, or what they counted in the last hour")  # fmt: skip
        add("--watch", nargs="?", type=seconds(_LEAST_S), const=2.0, metavar="S",
            help="again each S s (2), until Ctrl-C")  # fmt: skip
        add("--json", action="store_true", help="one line of JSON each time")

    def run(self, **options: Any) -> None:
        terminal = self.terminal(options)
        seen = survey(options["queues"])
        self._show(seen, terminal, options)
        if options["watch"] is None:
            if any(one.counts is None for one in seen.queues) or seen.errors:
                raise CommandError("not all could be read", returncode=UNABLE)
            strange = [safe(one.name) for one in seen.queues if one.stranger]
            if strange:
                raise CommandError(f"not found: {', '.join(strange)}", returncode=NO)
            return
        try:
            while True:
                time.sleep(options["watch"])
                self._show(survey(options["queues"]), terminal, options)
        except KeyboardInterrupt:
            sys.exit(STOPPED)  # the usual end, nothing to tell

    def _show(self, seen: Survey, terminal: Terminal, options: dict[str, Any]) -> None:
        if options["json"]:
            self.write_json(as_json(seen))
            return
        lines = SHOWN[options["show"]](seen, terminal)
        if options["watch"] is not None:
            lines.insert(0, f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S}")
        if options["watch"] is not None and terminal.live:
            lines = lines[: (terminal.height or 24) - 1]
            self.stdout.write("\x1b[H" + "\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J")
        else:
            self.stdout.write("\n".join(lines))
        self.stdout.flush()
