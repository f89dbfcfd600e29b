"""`manage.py emq_doctor`: what is wrong with settings, servers, rights and data."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from emq_django.conf import keys
from emq_django.operating import doctor
from emq_django.operating.command import NO, STOPPED, OperatorCommand
from emq_django.operating.interrupt import stoppable
from emq_django.operating.progress import Progress
from emq_django.operating.survey import survey
from emq_django.operating.terminal import terminal_of


class Command(OperatorCommand):
    """Examine everything; put right what can be."""

    help = "Looks for what is wrong. Without --fix nothing is written."
    epilog = (
        "Exit codes: 0 nothing is (any more) or there are remarks only, such as jobs without a"
        " worker; 1 something is wrong; 2 it could not be asked."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("queues", nargs="*", metavar="QUEUE", help="only the data of these")
        add("--fix", action="store_true", help="put right ids without a row and rows in no set")
        add("--json", action="store_true", help="one line of JSON")

    def run(self, **options: Any) -> None:
        found = doctor.settings_and_servers()
        seen = survey(options["queues"])
        names = [one.name for one in seen.queues]
        found += doctor.rights_on([keys(name) for name in names or ["default"]])
        found += [
            doctor.Finding(area="data", text=one.stranger, serious=False)
            for one in seen.queues
            if one.stranger
        ]
        found += doctor.deafness([keys(name) for name in names or ["default"]])
        found += doctor.work_left(seen)
        if not seen.errors:
            found += self._examine(names, options)
        if options["json"]:
            self.write_json([one.as_json() for one in found])
        else:
            ends_with_error = seen.errors and not doctor.is_ill(found)
            told = doctor.but_for(seen.errors[0], found) if ends_with_error else found
            self.stdout.write("\n".join(doctor.lines_of(told, self.terminal(options))))
        if doctor.is_ill(found):
            sys.exit(NO)
        if seen.errors:
            raise seen.errors[0]

    def _examine(self, names: list[str], options: dict[str, Any]) -> list[doctor.Finding]:
        progress = Progress(self.stderr, terminal_of(self.stderr), "looked at")
        found: list[doctor.Finding] = []
        with stoppable() as stop:

            def show(seen: doctor.Examined) -> None:
                progress.show(seen.looked, None)
                if stop.asked:
                    raise CommandError(doctor.STOPPED_TEXT, returncode=STOPPED)

            for name in names:
                found += doctor.examine(name, fix=options["fix"], show=show)
        progress.end()
        return found
