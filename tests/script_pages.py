"""Writes docs/reference/scripts.md from the scripts' headers: `python -m tests.script_pages`."""

from __future__ import annotations

import re
from pathlib import Path

from emq_django.protocol import scripts

LUA = Path(scripts.__file__).parent / "lua"
PAGE = Path(__file__).parents[1] / "docs/reference/scripts.md"
INTRODUCTION = """\
# Scripts

Every script, with its keys, arguments and answers as its own header has them. `+` stands for "and
all that follow". Wire 6 sends `EMQ.<NAME>` with the same keys and arguments.
"""

_LABEL = re.compile(r"^  (state|(?:KEYS|ARGV)\[\d+\+?\]|returns|errors|clock|source) +(\S.*)$")


def page() -> str:
    """Return the page as it should be."""
    return "\n".join([INTRODUCTION, *(_section(name) for name in scripts.names())])


def _section(name: str) -> str:
    comment = (LUA / f"{name}.lua").read_text("utf-8").removeprefix("--[[ ").split(" ]]\n", 1)[0]
    title, *lines = comment.splitlines()
    rows: list[list[str]] = []
    for line in lines:
        if match := _LABEL.match(line):
            rows.append([match[1], match[2]])
        else:
            rows[-1][1] += " " + line.strip()
    purpose = title.split(": ", 1)[1]
    table = [f"| {label} | {_escaped(text)} |" for label, text in rows]
    return "\n".join(
        [
            f"## `{name}`",
            "",
            f"{purpose[0].upper()}{purpose[1:]}.",
            "",
            "| | |",
            "| --- | --- |",
            *table,
            "",
        ]
    )


def _escaped(text: str) -> str:
    """Keep a cell one cell, and placeholders readable: <id> is no tag."""
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "\\|")):
        text = text.replace(char, entity)
    return re.sub(r"\s{2,}", ": ", text).replace("*", "\\*")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
