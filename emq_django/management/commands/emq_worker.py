"""`manage.py emq_worker`: run jobs until told to stop, or until nothing is left."""

from __future__ import annotations

import logging
import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from emq_django.errors import ConfigError, InvalidInput
from emq_django.operating.command import UNABLE
from emq_django.operating.logs import show_log
from emq_django.operating.rights import check_rights
from emq_django.reloading import run_with_reloader
from emq_django.worker.ending import Ended
from emq_django.worker.options import MAX_CONCURRENCY, TreeOptions
from emq_django.workers import options_for, tree_for, worker_for

_WORKER = ("order", "concurrency", "lease_ms", "grace_s", "burst", "poll_ms", "max_jobs")
_TREE = ("processes", "max_memory_mb", "stuck_s", "health_file")


class Command(BaseCommand):
    """Serve queues. The exit code is that of the tree, or of ``Ended``."""

    help = (
        "Runs the jobs of these queues; without names, of every queue that has a HANDLER or tasks."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("queues", nargs="*", metavar="QUEUE", help="only these, the most urgent first")
        add("--processes", type=int, default=1, help="children (1); 0: all in this process")
        add("--concurrency", type=int, default=4, help="jobs at a time in each, on threads (4)")
        add("--order", choices=("strict", "round-robin"), default="strict",
            help="later queues wait for earlier ones, or take turns (strict)")  # fmt: skip
        add("--lease-ms", type=int, help="instead of each queue's LEASE_MS")
        add("--grace-s", type=float, default=30.0, help="to finish running jobs at a stop (30)")
        add("--burst", action="store_true", help="end when nothing is claimable or due")
        add("--reload", action="store_true", help="start again when code changes (implies 0)")
        add("--max-jobs", type=int, default=0,
            help="replace a child after so many, or end without children (0: never)")  # fmt: skip
        add("--max-memory-mb", type=int, default=0, help="replace a larger child (0: never)")
        add("--stuck-s", type=float, default=300.0, help="kill a child that stands still (300)")
        add("--health-file", default="", help="rewritten every second while all is well")
        add("--log-json", action="store_true", help="log a line of JSON per change of a job")
        add("--poll-ms", type=int, default=100, help="first pause where servers only answer (100)")

    def handle(self, *args: Any, **options: Any) -> None:
        _refuse_contradictions(options)
        show_log(options["verbosity"], as_json=options["log_json"])
        of_each = {name: options[name] for name in _WORKER}
        try:
            tree = _tree_options(options)
            check_rights([one.keys for one in options_for(options["queues"], **of_each).queues])
            if tree is None:
                worker = worker_for(options["queues"], **of_each)
                _leave(run_with_reloader(worker) if options["reload"] else worker.run())
            else:
                _exit(tree_for(tree, options["queues"], **of_each).run())
        except (ConfigError, InvalidInput) as exc:
            raise CommandError(str(exc), returncode=UNABLE) from exc


def _tree_options(options: dict[str, Any]) -> TreeOptions | None:
    """Return how the tree is; None for a single process. Raises ConfigError."""
    processes = options["processes"]
    if not 0 <= processes <= MAX_CONCURRENCY:
        raise ConfigError(
            f"processes={processes}: give a whole number from 0 to {MAX_CONCURRENCY}."
        )
    if options["reload"] or not processes:
        return None
    return TreeOptions(**{name: options[name] for name in _TREE})


def _refuse_contradictions(options: dict[str, Any]) -> None:
    if options["reload"] and options["burst"]:
        raise CommandError(
            "--burst ends and --reload starts again: give one of them", returncode=UNABLE
        )
    path = options["health_file"]
    if not path:
        return
    if options["reload"] or not options["processes"]:
        raise CommandError(
            "--health-file is written by the parent of children: there is none", returncode=UNABLE
        )
    if not Path(path).absolute().parent.is_dir():
        raise CommandError(f"--health-file {path!r}: there is no such folder", returncode=UNABLE)


def _leave(ended: Ended) -> None:
    if ended.running:
        # Their jobs are handed back: nothing may wait for these threads, and none may go on.
        logging.shutdown()
        os._exit(ended.exit_code)
    _exit(ended.exit_code)


def _exit(code: int) -> None:
    if code:
        sys.exit(code)
