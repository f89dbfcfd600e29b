"""What the operator's commands have in common: their errors, their exit codes, their JSON.

| exit code | meaning |
| --- | --- |
| 0 | done, or all is well |
| 1 | the answer is no: unhealthy, not found, not done; the text says why |
| 2 | it could not be asked or done: arguments, settings, server |
| 130 | stopped by Ctrl-C; what was done is whole |
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.core.management.color import no_style

from emq_django import errors
from emq_django.conf import conf
from emq_django.connections import address_of
from emq_django.errors import EmqError
from emq_django.operating.terminal import Terminal, print_any_text, terminal_of
from emq_django.operating.text import safe

NO: Final = 1
UNABLE: Final = 2
STOPPED: Final = 130
_LONGEST_S: Final = 1_000_000_000  # a timer takes no more


class OperatorCommand(BaseCommand):
    """A command whose errors are one line each. Subclasses have ``run``."""

    requires_system_checks = ()
    requires_migrations_checks = False
    epilog = "Exit codes: 0 done or well, 1 the answer is no, 2 it could not be asked."

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        """Put the exit codes below the options."""
        return super().create_parser(prog_name, subcommand, epilog=self.epilog, **kwargs)

    def handle(self, *args: Any, **options: Any) -> None:
        """Run; whatever goes wrong with the server is one line that says what to do."""
        if self._is_command_line():
            print_any_text()
        if os.environ.get("NO_COLOR"):  # Django's own paint for errors does not ask
            self.style, self.stderr.style_func = no_style(), None
        try:
            self.run(**options)
        except EmqError as exc:
            raise CommandError(sentence(exc), returncode=UNABLE) from exc
        except BrokenPipeError:
            self.stop_writing()
        except KeyboardInterrupt:
            raise CommandError("stopped", returncode=STOPPED) from None

    def run(self, **options: Any) -> None:
        """Do what the command is for."""
        raise NotImplementedError

    def stop_writing(self) -> None:
        """Write to nobody: whoever read this has seen enough. Nothing may fail at exit either."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def terminal(self, options: dict[str, Any]) -> Terminal:
        """Return what standard output can do."""
        return terminal_of(self.stdout, no_colour=options["no_color"])

    def write_json(self, value: Any) -> None:
        """Write one value as a line of JSON, in ASCII."""
        self.stdout.write(json.dumps(value, default=str))
        self.stdout.flush()

    def _is_command_line(self) -> bool:
        return bool(getattr(self, "_called_from_command_line", False))


def seconds(least: float = 0.0) -> Callable[[str], float]:
    """Return the type of an argument in seconds, ``least`` or more; a parser says what is wrong."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not least <= value <= _LONGEST_S:  # NaN neither
            raise ArgumentTypeError(f"{text!r}: give seconds, {least:g} or more")
        return value

    return read


def sentence(exc: EmqError) -> str:
    """Return an error as one line: which server, what is wrong, what to do."""
    said = safe(exc, 300)
    if not isinstance(exc, errors.WireError | errors.WrongType):
        return said
    return f"the server {server()}: {said}{f' - {exc.remedy}' if exc.remedy else ''}"


def server() -> str:
    """Return where the queues are, without user and password."""
    return safe(address_of(conf().connection).label)
