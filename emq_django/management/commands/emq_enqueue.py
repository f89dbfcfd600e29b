"""`manage.py emq_enqueue QUEUE [PAYLOAD]`: enqueue jobs from a shell."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from emq_django.conf import conf
from emq_django.errors import PartlyEnqueued
from emq_django.operating.command import NO, OperatorCommand
from emq_django.operating.submit import payload_of, submit
from emq_django.protocol.records import Receipt, Verdict


class Command(OperatorCommand):
    """Enqueue. Prints the id of each job and nothing else.

    What became of one that is not pending is told on standard error.
    """

    help = "Enqueues jobs and prints their ids. A job with an id that is there already is no error."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("queue", metavar="QUEUE")
        add("payload", nargs="?", metavar="PAYLOAD", help="text; - or nothing: standard input")
        add("--file", metavar="PATH", help="the payload is in this file, byte for byte")
        add("--at", metavar="TIME", help="due time, ISO 8601 with its zone")
        add("--in", dest="delay", metavar="DELAY", help="90, or 5m: ms, s, m, h, d")
        add("--lane", help="a branded id, one per tenant")
        add("--id", dest="job_id", help="the job's id; without it one is minted")
        add("--count", type=int, default=1, metavar="N", help="as many jobs with this payload (1)")
        add("--json", action="store_true", help="one line of JSON per job")

    def run(self, **options: Any) -> None:
        limit = conf().max_payload_bytes
        try:
            payload = payload_of(options["payload"], options["file"], sys.stdin, limit=limit)
            how = {name: options[name] for name in ("count", "job_id", "lane", "at", "delay")}
            for receipt in submit(options["queue"], payload, **how):
                try:
                    self._say(receipt, options)
                except BrokenPipeError:  # the jobs are wanted, whoever reads their ids
                    self.stop_writing()
        except PartlyEnqueued as exc:
            for outcome in exc.outcomes:
                if isinstance(outcome, Receipt):
                    self._say(outcome, options)
            raise CommandError(f"not all were enqueued: {exc}", returncode=NO) from exc

    def _say(self, receipt: Receipt, options: dict[str, Any]) -> None:
        verdict = receipt.verdict
        if options["json"]:
            said = {"queue": options["queue"], "id": receipt.id, "verdict": verdict.value}
            self.write_json(said)
        else:
            self.stdout.write(receipt.id)
            if verdict is not Verdict.ENQUEUED:
                self.stderr.write(f"{receipt.id} {verdict.value}", style_func=str)
