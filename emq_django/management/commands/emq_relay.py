"""`manage.py emq_relay`: send what waits in the outbox, until told to stop or once."""

from __future__ import annotations

import contextlib
import signal
import threading
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseFailure
from django.db import close_old_connections

from emq_django.errors import WireError
from emq_django.operating.command import NO, UNABLE, seconds, sentence
from emq_django.operating.text import safe
from emq_django.worker.log import Quiet


class Command(BaseCommand):
    """Workers do the same beside their jobs: this is for sites whose workers can't."""

    help = "Sends the jobs that wait in the outbox."

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._quiet = Quiet()  # of a database or a server that is away for long

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="send what is there, then end")
        parser.add_argument("--database", help="only the outbox of this alias")
        parser.add_argument(
            "--interval-s", type=seconds(0.1), default=1.0, help="seconds between looks (1)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        from emq_django.outbox.relaying import databases

        wanted = options["database"]
        try:
            known = databases()
        except DatabaseFailure as exc:
            raise CommandError(_away(exc), returncode=UNABLE) from exc
        if not known:
            raise CommandError(
                'there is no outbox: add "emq_django.outbox" to INSTALLED_APPS and run migrate.',
                returncode=UNABLE,
            )
        if wanted is not None and wanted not in known:
            raise CommandError(
                f"--database {safe(repr(wanted))}: there is no outbox; give {' or '.join(known)}",
                returncode=UNABLE,
            )
        with _ended_by_signals() as end:
            while True:
                left, code = self._round(wanted)
                if options["once"]:
                    if left:
                        raise CommandError(left, returncode=code)
                    return
                close_old_connections()
                if end.wait(options["interval_s"]):
                    return

    def _round(self, wanted: str | None) -> tuple[str, int]:
        """Send what is there; return why something is left and the exit code that says so."""
        from emq_django.outbox.relaying import relay

        try:
            done = relay(wanted)
        except DatabaseFailure as exc:  # the next round has a new connection
            if self._quiet.may_log(type(exc)):
                self.stderr.write(_away(exc))
            return "nobody knows what is left in the outbox", UNABLE
        # What was done is said each time; that the rest waits only now and then.
        told = done.error if done.error and self._quiet.may_log(type(done.error)) else None
        if done.sent or done.refused or told:
            self.stdout.write(_text(done, told))
        return ("some jobs are still in the outbox", NO) if done.error or done.refused else ("", 0)


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


def _away(exc: DatabaseFailure) -> str:
    return f"the outbox can't be read: {type(exc).__name__}: {safe(exc)}"


def _text(done: Any, error: WireError | None) -> str:
    text = f"sent {done.sent}"
    text += f", refused {done.refused}" if done.refused else ""
    return text + (f", the rest waits: {sentence(error)}" if error else "")
