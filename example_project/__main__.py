"""`python3 -m example_project`: shows the help, or makes `.venv` and goes on inside it.

Only the standard library is needed up to here; launch.py is what runs in the environment.
"""

from __future__ import annotations

import sys

import bootstrap
from example_project.options import read_options

if __name__ == "__main__":
    read_options(sys.argv[1:])  # a wrong option or --help must not wait for an installation
    python = bootstrap.ensure_venv(["demo"])
    bootstrap.run(python, "-m", "example_project.launch", *sys.argv[1:])
