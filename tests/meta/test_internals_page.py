"""The page that follows one job through the code names the files on the way, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import emq_django
from emq_django import worker

PACKAGE = Path(emq_django.__file__).parent
PAGE = PACKAGE.parent / "docs" / "explanation" / "internals.md"
NAMED = re.compile(r"`(?:emq_django/)?((?:\w+/)*\w+\.(?:py|lua))`")
A_SCREEN = 60


def test_every_file_that_the_page_names_is_there() -> None:
    named = set(NAMED.findall(PAGE.read_text("utf-8")))

    places = (PACKAGE, PACKAGE / "protocol", PACKAGE / "worker")
    lost = [one for one in named if not any((place / one).is_file() for place in places)]

    assert len(named) > 40
    assert lost == []


def test_every_file_of_the_worker_is_on_the_page_or_in_the_packages_own_list() -> None:
    text = PAGE.read_text("utf-8") + (worker.__doc__ or "")

    modules = sorted((PACKAGE / "worker").glob("[a-z]*.py"))

    assert [one.name for one in modules if one.name not in text] == []


def test_the_main_loop_fits_a_screen() -> None:
    text = (PACKAGE / "worker" / "loop.py").read_text("utf-8")

    flow = text[text.index("    def run(self)") :]

    assert flow.count("\n") <= A_SCREEN
