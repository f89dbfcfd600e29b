"""The pages on commands say what the commands do, and the documented user may run them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.core.management import load_command_class
from django.test import override_settings

from tests.operating.commands_page import COMMANDS, PAGE, page
from tests.operating.shell import run_here

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers import Server

DOCS = Path(__file__).resolve().parents[2] / "docs"
OPERATE = DOCS / "how-to" / "operate.md"
PAGES = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]


def test_the_reference_is_what_the_commands_say() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.operating.commands_page"


def test_the_reference_has_every_command() -> None:
    there = {one.stem for one in DOCS.parent.glob("emq_django/management/commands/emq_*.py")}
    assert {*COMMANDS, "emq_server"} == there


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_command_and_option_of_a_page_exists(path: Path) -> None:
    for line in re.findall(r"manage\.py (emq_\w+[^`#\n]*)", path.read_text()):
        name = line.split()[0]
        known = {
            option
            for action in load_command_class("emq_django", name)
            .create_parser("manage.py", name)
            ._actions
            for option in action.option_strings
        }
        assert set(re.findall(r"--[a-z-]+", line)) <= known, line


def test_every_default_in_the_guide_is_the_commands_own() -> None:
    text = OPERATE.read_text()
    parser = load_command_class("emq_django", "emq_health").create_parser("manage.py", "emq_health")
    for name in ("max_pending", "max_expired", "max_unserved"):
        option = f"--{name.replace('_', '-')}"
        assert re.search(rf"\| {parser.get_default(name)} s \| `{option}` \|", text), name


@pytest.mark.slow
def test_c117_the_documented_user_may_run_every_command(
    fresh_server: Callable[..., Server],
) -> None:
    wire = (DOCS / "reference" / "wire.md").read_text()
    (rule,) = re.findall(r"^ACL SETUSER (.*)$", wire, re.MULTILINE)
    server = fresh_server()
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", *rule.replace("SECRET", "p").split())
    url = f"redis://emq:p@127.0.0.1:{server.port}/0"
    with override_settings(EMQ={"CONNECTION": url, "QUEUES": {"mail": {}}}):
        job_id = run_here("emq_enqueue", "mail", "x").out.strip()
        for arguments in (
            ("emq_queues",), ("emq_health",), ("emq_job", job_id), ("emq_job", job_id, "--remove"),
            ("emq_queue", "mail", "pause"), ("emq_queue", "mail", "resume"),
            ("emq_queue", "mail", "retry-dead"), ("emq_queue", "mail", "drain", "--yes"),
            ("emq_doctor",), ("emq_doctor", "--fix"), ("emq_queue", "mail", "obliterate", "--yes"),
        ):  # fmt: skip
            outcome = run_here(*arguments)
            assert outcome.code == 0, (arguments, outcome.text)
            assert "may not run" not in outcome.text
