"""docs/reference/functions.md names what the package exports, and what its functions take."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import emq_django
from emq_django import errors

PAGE = Path(__file__).parents[2] / "docs/reference/functions.md"
FUNCTIONS = [
    "enqueue", "enqueue_in", "enqueue_at", "enqueue_many", "claim", "complete", "retry", "release",
    "extend",
]  # fmt: skip


def test_every_public_name_is_on_the_page_or_is_the_twin_of_one() -> None:
    text = PAGE.read_text("utf-8")
    twins = {f"a{name}" for name in FUNCTIONS}

    missing = [name for name in emq_django.__all__ if not re.search(rf"`{name}\b", text)]

    assert set(missing) <= twins
    assert twins <= set(emq_django.__all__)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_is_on_the_page_and_the_twin_takes_the_same(name: str) -> None:
    text = PAGE.read_text("utf-8")
    takes = inspect.signature(getattr(emq_django, name)).parameters
    twin = inspect.signature(getattr(emq_django, f"a{name}")).parameters

    assert [one for one in takes if not re.search(rf"\b{one}\b", text)] == []
    assert set(takes) - set(twin) <= {"on_commit", "using"}


def test_the_errors_on_the_page_exist_and_are_what_it_says() -> None:
    named = re.findall(r"^\| `(\w+)`(?:, a `(\w+)`)? \|", PAGE.read_text("utf-8"), re.MULTILINE)
    found = [(name, base) for name, base in named if hasattr(errors, name) and name != "EmqError"]

    assert len(found) == 6
    for name, base in found:
        kind = getattr(errors, name)
        assert issubclass(kind, errors.EmqError)
        if base:
            assert base in {one.__name__ for one in kind.__mro__}
