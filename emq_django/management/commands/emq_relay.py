"""`manage.py emq_relay`: send what waits in the outbox, until told to stop or once."""

from __future__ import annotations

import contextlib
import signal
import threading
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import close_old_connections

from emq_django.operating.command import seconds
from emq_django.operating.text import safe


class Command(BaseCommand):
    """Workers do the same beside their jobs: this is for sites whose workers can't."""

    help = "Sends the jobs that wait in the outbox."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="send what is there, then end")
        parser.add_argument("--database", help="only the outbox of this alias")
        parser.add_argument(
            "--interval-s", type=seconds(0.1), default=1.0, help="seconds between looks (1)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        from emq_django.outbox.relaying import databases, relay

        known, wanted = databases(), options["database"]
        if not known:
            raise CommandError(
                'there is no outbox: add "emq_django.outbox" to INSTALLED_APPS and run migrate.'
            )
        if wanted is not None and wanted not in known:
            raise CommandError(
                f"--database {safe(repr(wanted))}: there is no outbox; give {' or '.join(known)}"
            )
        with _ended_by_signals() as end:
            while True:
                done = relay(wanted)
                if done.sent or done.refused or done.error:
                    self.stdout.write(_text(done))
                if options["once"]:
                    if done.error or done.refused:
                        raise CommandError("some jobs are still in the outbox")
                    return
                close_old_connections()
                if end.wait(options["interval_s"]):
                    return


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[threading.Event]:
    end = threading.Event()
    before = {}
    if threading.current_thread() is threading.main_thread():
        for signum in (signal.SIGINT, signal.SIGTERM):
            before[signum] = signal.signal(signum, lambda *_: end.set())
    try:
        yield end
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _text(done: Any) -> str:
    text = f"sent {done.sent}"
    text += f", refused {done.refused}" if done.refused else ""
    return text + (f", waiting for the server: {done.error}" if done.error else "")
