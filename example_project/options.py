"""The command line of `python3 -m example_project`. Standard library only."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

DATA_DIR = Path(__file__).resolve().parent.parent / ".emq" / "example"
USUAL_PORT = 8000

_DESCRIPTION = """\
Shows emq_django at work on real data: starts a Redis or Valkey server of its own, a worker and a
web site, uploads a file of some 28,000 airports through the site's form, waits until every job has
run and keeps serving. Ctrl-C stops everything that it started.
"""
_EPILOG = """\
Everything that it writes is in the data folder; deleting the folder is a fresh start. The password
of the user "admin" is a new one on every start. Set EMQ_EXAMPLE_REDIS_URL (redis://... or unix://...,
without a database number) to use a server that already runs: databases 0 and 1 are used.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    once: bool
    port: int | None
    rows: int | None
    file: Path | None
    data: Path


def read_options(arguments: Sequence[str]) -> Options:
    """Return the options; ends the process on `--help` or on a mistake."""
    parser = argparse.ArgumentParser(
        prog="python3 -m example_project",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--once", action="store_true", help="end with exit code 0 once every job has run")
    add(
        "--port",
        type=_whole(0, 65535),
        help=f"port of the site; 0 takes any free one (default: {USUAL_PORT}, or any if taken)",
    )
    add("--file", type=_readable, help="import this CSV file instead of the airports of the world")
    add("--rows", type=_whole(1, 10**6), help="import only this many rows")
    add("--data", type=Path, default=DATA_DIR, help="data folder (default: .emq/example)")
    return Options(**vars(parser.parse_args(arguments)))


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a whole number from {least} to {most}"
            )
        return int(text)

    return parse


def _readable(text: str) -> Path:
    path = Path(text)
    try:
        path.open("rb").close()
    except OSError as exc:
        raise argparse.ArgumentTypeError(f"cannot read {text}: {exc.strerror}") from exc
    return path.absolute()
