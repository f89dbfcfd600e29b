#!/usr/bin/env python3
"""Django's command line for the example, by hand: `.venv/bin/python example_project/manage.py`."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
    from django.core.management import execute_from_command_line

    from example_project.settings import DATA_DIR

    DATA_DIR.mkdir(parents=True, exist_ok=True)
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
