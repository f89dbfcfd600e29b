"""C97: time limits work on every Python that is said to be supported, and all lists say the same.

The limits themselves are `tests/unit/test_limits.py`, which every pair of versions runs.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

from tests.unit import test_limits

ROOT = Path(__file__).parents[2]


def test_the_limits_are_in_the_set_that_every_pair_runs() -> None:
    assert test_limits.pytestmark.name == "smoke"


def test_metadata_readme_and_the_gate_list_the_same_versions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pythons, djangos = (sorted(set(side), key=number) for side in zip(*pairs(), strict=True))
    prefix = "Programming Language :: Python :: 3."

    classified = [
        one.rpartition(" ")[2] for one in project["classifiers"] if one.startswith(prefix)
    ]

    assert classified == pythons
    assert project["requires-python"] == f">={pythons[0]}"
    [bounds] = [one for one in project["dependencies"] if one.startswith("django>=")]
    major, minor = djangos[-1].split(".")
    assert bounds == f"django>={djangos[0]},<{major}.{int(minor) + 1}"
    said = re.search(
        r"Python (\S+) to (\S+), Django (\S+) to ([\d.]+)", (ROOT / "README.md").read_text()
    )
    assert said is not None
    assert said.groups() == (pythons[0], pythons[-1], djangos[0], djangos[-1])


def pairs() -> list[tuple[str, str]]:
    """Return what the gate runs, without nox, which only the gate installs."""
    for node in ast.parse((ROOT / "noxfile.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PAIRS":
            found: list[tuple[str, str]] = eval(ast.unparse(node.value))
            return found
    raise AssertionError("noxfile.py has no PAIRS")


def number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
