"""An existing project and exactly the lines of the quickstart: the first task runs."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

import django
import pytest

from tests.guides.project import ROOT, Project

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import Server

PAGE = ROOT / "docs/quickstart-tasks.md"
ADDRESS = "redis://127.0.0.1:6379/1"

TASKS = """\
from pathlib import Path


def greet(name):
    with Path("greetings.txt").open("a") as file:
        file.write(f"Hello {name}\\n")
"""
VIEWS = """\
from django.http import HttpResponse

from shop.tasks import greet


def index(request):
    greet("world")
    return HttpResponse("ok")
"""
VISIT = """
from django.test import RequestFactory
from shop.views import index
assert index(RequestFactory().get("/")).content == b"ok"
"""


def changes() -> dict[str, list[str]]:
    """Return the changed lines of the page by file, in diff notation."""
    blocks = re.findall(r"```diff\n# (\S+)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return {name: text.splitlines() for name, text in blocks}


def apply(text: str, lines: list[str]) -> str:
    """Change a file as a reader does: imports go to the top, new settings to the end."""
    result = text.splitlines()
    at = result.index(next(line[1:] for line in lines if line[0] in " -"))
    for line in lines:
        kind, code = line[0], line[1:]
        if kind == " ":
            at = result.index(code) + 1
        elif kind == "-":
            del result[at]
        elif code.startswith("from "):
            result.insert(0, code)
            at += 1
        elif code.startswith((" ", "@")):
            result.insert(at, code)
            at += 1
        else:
            result.append(code)
    return "\n".join(result) + "\n"


def test_six_lines_are_changed() -> None:
    added = [line for lines in changes().values() for line in lines if line[0] == "+"]

    assert len(added) <= 6


def test_the_readme_shows_exactly_these_lines() -> None:
    blocks = re.findall(r"```diff\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    shown = [line for block in blocks for line in block.splitlines() if line[:1] in {"+", "-"}]

    assert shown == [line for lines in changes().values() for line in lines if line[0] in "+-"]


@pytest.mark.slow
def test_the_first_task_runs_in_an_existing_project(tmp_path: Path, server: Server) -> None:
    project = Project(tmp_path, server, "mysite.settings")
    project.run("-m", "django", "startproject", "mysite", ".", "--settings=")
    settings = (tmp_path / "mysite/settings.py").read_text()
    before = settings.replace("INSTALLED_APPS = [\n", 'INSTALLED_APPS = [\n    "shop",\n')
    files = {"mysite/settings.py": before, "shop/tasks.py": TASKS, "shop/views.py": VIEWS}
    assert list(changes()) == list(files)
    for name, text in files.items():
        changed = apply(text, changes()[name])
        if django.VERSION < (6, 0):  # as the page says
            changed = changed.replace("from django.tasks import", "from emq_django import")
        # The test's server in place of the page's, and a queue that no other test has.
        prefix = f'{server.url}", "QUEUE_PREFIX": "{uuid.uuid4().hex}-'
        project.write(name, changed.replace(ADDRESS, prefix))

    assert "no issues" in project.run("manage.py", "check")
    project.run("manage.py", "shell", "-c", VISIT)
    assert not (tmp_path / "greetings.txt").exists()
    log = project.run("manage.py", "emq_worker", "--burst")

    assert (tmp_path / "greetings.txt").read_text() == "Hello world\n"
    assert "Traceback" not in log
