"""Asks before something that can't be undone: by typing the queue's name."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError

from emq_django.operating.text import safe


def confirm(stdin: Any, stdout: Any, queue: str, what: str, *, yes: bool) -> None:
    """Return once the queue's name was typed, or at once with ``yes``.

    Raises CommandError: another text was typed (exit code 1), or nobody is there to ask (2).
    """
    if yes:
        return
    if not stdin.isatty():
        raise CommandError(
            f"{what}. This can't be undone, and there is no terminal to ask on: say --yes",
            returncode=2,
        )
    stdout.write(f"{what}. This can't be undone.")
    stdout.write(f"Type the queue's name ({safe(queue)}) to go on: ", ending="")
    stdout.flush()
    if stdin.readline().rstrip("\r\n") != queue:
        raise CommandError("that is not its name: nothing was done", returncode=1)
