"""The quickstart shows code of the example: each snippet must stand in the file that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "docs" / "quickstart.md"

SNIPPETS = re.findall(r"```python\n# (\S+\.py)\n(.*?)```", QUICKSTART.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize(("file", "snippet"), SNIPPETS, ids=[file for file, _ in SNIPPETS])
def test_a_snippet_stands_in_its_file(file: str, snippet: str) -> None:
    source = (ROOT / file).read_text("utf-8")

    position = 0
    for part in re.split(r"^ *\.\.\.\n", snippet, flags=re.MULTILINE):
        found = source.find(part, position)
        assert found >= 0, f"{file} does not hold, in this order:\n{part}"
        position = found + len(part)


def test_every_python_block_names_its_file() -> None:
    assert QUICKSTART.read_text("utf-8").count("```python") == len(SNIPPETS) == 3


def test_the_page_stays_short() -> None:
    assert len(QUICKSTART.read_text("utf-8").splitlines()) < 100


@pytest.mark.parametrize(
    "page",
    [QUICKSTART, ROOT / "docs" / "how-to" / "try-the-example.md"],
    ids=lambda page: page.name,
)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target
