"""The loader of scripts: includes, digests, names."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from emq_django.protocol import scripts

FOLDER = Path(scripts.__file__).parent / "lua"


def test_a_script_knows_the_digest_of_the_text_that_is_loaded() -> None:
    script = scripts.load("take")

    assert script.name == "take"
    assert script.sha == hashlib.sha1(script.text.encode()).hexdigest()


def test_includes_are_expanded_once_each_with_their_own_before_them() -> None:
    text = scripts.load("reap").text

    assert not re.search("^-- include ", text, re.MULTILINE)
    assert text.count("local function whole(") == 1
    assert text.index("local function whole(") < text.index("local function read_counter(")
    assert text.index("local function read_counter(") < text.index("local function read_lane(")


def test_a_script_is_read_once() -> None:
    assert scripts.load("claim") is scripts.load("claim")


def test_all_scripts_are_named() -> None:
    assert scripts.names() == sorted(path.stem for path in FOLDER.glob("*.lua"))
    assert all(scripts.load(name).name == name for name in scripts.names())


def test_the_package_ships_every_fragment_that_is_used_and_no_other() -> None:
    texts = [path.read_text("utf-8") for path in FOLDER.rglob("*.lua")]
    used = {
        name for text in texts for name in re.findall(r"^-- include (\w+)$", text, re.MULTILINE)
    }

    assert used == {path.stem for path in FOLDER.joinpath("include").glob("*.lua")}
