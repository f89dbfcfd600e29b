"""`manage.py emq_health`: a probe. Reads a few figures and ends with 0, 1 or 2."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from emq_django.operating.command import OperatorCommand, seconds
from emq_django.operating.health import Limits, judge
from emq_django.operating.survey import survey
from emq_django.operating.text import counted


class Command(OperatorCommand):
    """Judge whether jobs get done."""

    help = "Tells whether jobs get done. A server that is silent is waited for 3 s at most."
    epilog = (
        "Exit codes: 0 healthy, also where jobs wait for a worker for less than --max-unserved;"
        " 1 unhealthy; 2 unknown: something could not be read."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("queues", nargs="*", metavar="QUEUE", help="only these")
        add("--max-pending", type=seconds(), default=600, metavar="S",
            help="age of the oldest job that waits, unless its queue is paused (600)")  # fmt: skip
        add("--max-expired", type=seconds(), default=60, metavar="S",
            help="for how long a lease may be over until its job comes back (60)")  # fmt: skip
        add("--max-unserved", type=seconds(), default=30, metavar="S",
            help="age of the oldest job of a queue that no worker serves (30)")  # fmt: skip
        add("--no-workers", action="store_true", help="do not ask for workers: others do the work")
        add("--json", action="store_true", help="one line of JSON")

    def run(self, **options: Any) -> None:
        limits = Limits(
            pending_ms=round(options["max_pending"] * 1_000),
            expired_ms=round(options["max_expired"] * 1_000),
            unserved_ms=None if options["no_workers"] else round(options["max_unserved"] * 1_000),
        )
        seen = survey(options["queues"])
        health = judge(seen, limits)
        if options["json"]:
            self.write_json(health.as_json(seen))
        else:
            self.stdout.write("\n".join([health.status, *(one.text for one in health.findings)]))
            alive = sum(not line.gone for line in seen.workers)
            self.stdout.write(f"{counted(len(seen.queues), 'queue')}, {counted(alive, 'worker')}")
        if health.exit_code:
            sys.exit(health.exit_code)
