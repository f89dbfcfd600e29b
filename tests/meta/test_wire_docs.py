"""docs/reference/wire.md and scripts.md say what is there."""

from __future__ import annotations

import re
from pathlib import Path

from emq_django import protocol
from tests.script_pages import PAGE, page

WIRE = Path(__file__).parents[2] / "docs/reference/wire.md"
OTHER_HASHES = {"started_ms"}  # fields of a worker's record
PROTOCOL = Path(protocol.__file__).parent


def test_the_page_of_scripts_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run: python -m tests.script_pages"


def test_every_key_and_row_field_of_our_own_is_in_the_tables() -> None:
    sources = "\n".join(
        path.read_text("utf-8")
        for path in sorted(PROTOCOL.rglob("*"))
        if path.suffix in {".lua", ".py"}
    )
    text = WIRE.read_text("utf-8")

    keys = set(re.findall(r"\bdj:[a-z]+", sources))
    assert {key for key in keys if f"{key}`" not in text and f"{key}:<" not in text} == set()
    rows = re.findall(r"'HSET', (?:row|KEYS\[\d\]),[^)]*", sources)
    fields = {field for row in rows for field in re.findall(r"'([a-z_]+)',", row)} - OTHER_HASHES
    assert {field for field in fields if f"`{field}`" not in text} == set()
