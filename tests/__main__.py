"""`python3 -m tests`: the whole suite, from nothing but a Python.

Standard library only until the venv exists.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from bootstrap import ensure_venv, run

if TYPE_CHECKING:
    from pathlib import Path

DESCRIPTION = """\
Runs the whole test suite in .venv, which is made first if need be. The suite starts a Redis or
Valkey server of its own and stops it; it touches no other. Tests run in random order, in Python's
development mode, and a warning is an error.
"""
EPILOG = """\
Everything else goes to pytest:
  python3 -m tests -m smoke             the short set that every pair of versions runs
  python3 -m tests tests/test_harness.py -x
  python3 -m tests -n 2                 two processes, each with its own server
  python3 -m tests --randomly-seed N    repeat an order that a run printed
  python3 -m tests -- --help            pytest's own help

Environment: EMQ_TEST_SERVER names the server binary to test against.
CI=true: a missing server or browser is a failure instead of a skipped test.
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python3 -m tests",
        usage="%(prog)s [--nightly] [--coverage] [pytest arguments]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--nightly",
        action="store_true",
        help="the longer profile: stress and nightly tests too, and more generated examples",
    )
    parser.add_argument(
        "--coverage", action="store_true", help="measure branch coverage and print a report"
    )
    options, arguments = parser.parse_known_args()
    if "--" in arguments:
        arguments.remove("--")
    if options.nightly:
        os.environ["EMQ_TEST_NIGHTLY"] = "1"
        arguments = ["-m", "", "-o", "timeout=1800", *arguments]
    # The suite starts hundreds of processes. Where the environment forbids it to keep what Python
    # compiles, each compiles the package anew, which takes longer than all the rest of its start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    python = ensure_venv(["test"])
    if options.coverage:
        sys.exit(run_with_coverage(python, arguments))
    run(python, "-X", "dev", "-m", "pytest", *arguments)


def run_with_coverage(python: Path, arguments: list[str]) -> int:
    """Run the suite measured, print the report, and return pytest's exit code."""
    coverage = [str(python), "-m", "coverage"]
    subprocess.run([*coverage, "erase"], check=True)
    code = subprocess.call(
        [str(python), "-X", "dev", "-m", "coverage", "run", "-m", "pytest", *arguments]
    )
    subprocess.run([*coverage, "combine", "--quiet"], check=True)
    subprocess.run([*coverage, "report", "--fail-under", "0"], check=True)
    return code


if __name__ == "__main__":
    main()
