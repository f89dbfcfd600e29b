"""Makes docs/reference/commands.md from the commands: `python -m tests.operating.commands_page`."""

from __future__ import annotations

import argparse
from pathlib import Path

from django.core.management import load_command_class
from django.core.management.base import BaseCommand

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "commands.md"
COMMANDS = (
    "emq_worker", "emq_queues", "emq_queue", "emq_job", "emq_enqueue", "emq_periodic", "emq_health",
    "emq_doctor", "emq_relay",
)  # fmt: skip
INTRODUCTION = """\
# Commands

What `manage.py <command> --help` says, in one place. What Django adds to every command
(`--verbosity`, `--settings`, `--no-color` and so on) is left out. How they go together is told in
[Operate queues](../how-to/operate.md); `emq_server` has [a page of its own](server.md).

The commands that look and act share these exit codes:

| exit code | meaning |
| --- | --- |
| 0 | done, or all is well |
| 1 | the answer is no: unhealthy, not found, not done; the text says why |
| 2 | it could not be asked or done: arguments, settings, or a server that is away |
| 130 | stopped by Ctrl-C; what was done is whole, and the same command does the rest |

An error is one line on standard error that says what to do; an exception in a project's own module,
other than an import that fails, shows its traceback. On a terminal tables fit the window and
colours mark what is wrong (`NO_COLOR` turns them off); through a pipe there are neither colours nor
cuts. `--json` is one line of ASCII per answer, times in ms.
"""
# Where a command does not stick to the table above.
EXIT_CODES = {
    "emq_worker": "0; 1 where a burst gave up on its server, or Django's system checks"
    " found an error; 2 where arguments or settings can't work; 128 + the signal that"
    " forced the end.",
    "emq_relay": "0; 1 where `--once` left jobs in the outbox; 2 where there is no outbox, or"
    " its database can't be asked.",
}


def page() -> str:
    """Return the page."""
    return "\n".join([INTRODUCTION, *(_section(name) for name in COMMANDS)])


def _section(name: str) -> str:
    command = load_command_class("emq_django", name)
    parser = command.create_parser("manage.py", name)
    shared = _shared()
    actions = [one for one in parser._actions if not shared.intersection(one.option_strings)]
    actions = [one for one in actions if one.dest not in {"help", "version"}]
    lines = [f"## `{name}`", "", command.help, ""]
    lines += ["| argument | meaning |", "| --- | --- |"]
    lines += [f"| {_spelling(one)} | {_meaning(one)} |" for one in actions]
    codes = EXIT_CODES.get(name) or getattr(command, "epilog", "").removeprefix("Exit codes: ")
    return "\n".join([*lines, "", f"Exit codes: {codes}", ""])


def _shared() -> set[str]:
    parser = BaseCommand().create_parser("manage.py", "any")
    return {option for action in parser._actions for option in action.option_strings}


def _spelling(action: argparse.Action) -> str:
    value = action.metavar or (None if action.nargs == 0 else action.dest.upper())
    if isinstance(value, tuple):
        value = " ".join(value)
    if action.choices and not action.metavar:
        value = "{" + ",".join(action.choices) + "}"
    if not action.option_strings:
        many = {"*": f"[{value} …]", "?": f"[{value}]"}.get(str(action.nargs), value)
        return f"`{many}`"
    name = action.option_strings[-1]
    if action.nargs == 0:
        return f"`{name}`"
    return f"`{name} [{value}]`" if action.nargs == "?" else f"`{name} {value}`"


def _meaning(action: argparse.Action) -> str:
    if action.help:
        return action.help
    return f"default {action.default}" if action.default not in (None, [], False) else ""


def main() -> None:
    """Write the page."""
    import django

    django.setup()
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
