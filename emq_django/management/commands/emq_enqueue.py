"""`manage.py emq_enqueue QUEUE [PAYLOAD]`: enqueue jobs from a shell."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from django.core.management.base import CommandError

from emq_django.conf import conf
from emq_django.errors import PartlyEnqueued
from emq_django.operating.command import NO, OperatorCommand
from emq_django.operating.submit import payload_of, submit
from emq_django.operating.text import counted
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
            self._say_all(submit(options["queue"], payload, **how), options)
        except PartlyEnqueued as exc:
            self._say_all([one for one in exc.outcomes if isinstance(one, Receipt)], options)
            raise CommandError(f"not all were enqueued: {exc}", returncode=NO) from exc

    def _say_all(self, receipts: Iterable[Receipt], options: dict[str, Any]) -> None:
        """Say the ids; what else there is to say about them goes to standard error, once."""
        others: dict[Verdict, list[str]] = {}
        try:
            for receipt in receipts:
                if receipt.verdict is not Verdict.ENQUEUED and not options["json"]:
                    others.setdefault(receipt.verdict, []).append(receipt.id)
                try:
                    self._say(receipt, options)
                except BrokenPipeError:  # the jobs are wanted, whoever reads their ids
                    self.stop_writing()
        finally:
            for verdict, ids in others.items():
                who = ids[0] if len(ids) == 1 else counted(len(ids), "job")
                self.stderr.write(f"{who} {verdict.value}", style_func=str)

    def _say(self, receipt: Receipt, options: dict[str, Any]) -> None:
        if options["json"]:
            verdict = receipt.verdict.value
            self.write_json({"queue": options["queue"], "id": receipt.id, "verdict": verdict})
        else:
            self.stdout.write(receipt.id)
