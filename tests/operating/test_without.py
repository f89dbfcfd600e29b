"""What a project doesn't have is not asked of it: Django's admin, tasks, a database."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.operating import shell

if TYPE_CHECKING:
    from tests.servers import Server

COMMANDS = sorted(
    one.stem for one in Path(__file__).parents[2].glob("emq_django/management/commands/emq_*.py")
)
WITHOUT = ("tests.operating.settings_without", "tests.operating.settings_without_tasks")
# Every command's module, what a worker does beside its jobs, and the list of periodic tasks.
LOADS = f"""
import django
django.setup()
from django.core.management import call_command, load_command_class
from emq_django.chores import chores_for
from emq_django.timetable.entries import entries, may_have_entries
for name in {COMMANDS}:
    load_command_class("emq_django", name)
assert entries() == {{}}
assert may_have_entries() == (django.VERSION >= (6, 0))
(undertaker,) = chores_for(["bare"])  # nothing of tasks, nothing of the outbox
"""
PAGES = """
import django
django.setup()
from django.contrib import admin
from emq_django.admin import register
assert any(its.__module__ == "emq_django.models" for its in admin.site._registry)
"""


@pytest.mark.parametrize("settings", WITHOUT)
def test_all_commands_and_chores_load(settings: str, server: Server) -> None:
    python(LOADS, settings)


def test_the_admin_has_its_pages_without_tasks() -> None:
    python(PAGES, WITHOUT[1])


@pytest.mark.parametrize("settings", WITHOUT)
def test_a_job_runs(settings: str, server: Server) -> None:
    env = {"DJANGO_SETTINGS_MODULE": settings}

    sent = shell.run("emq_enqueue", "bare", "{}", env=env)
    assert sent.code == 0, sent.text
    worked = shell.run("emq_worker", "bare", "--burst", env=env)
    assert worked.code == 0, worked.text
    assert f"completed queue=bare id={sent.out.strip()}" in worked.text


def python(script: str, settings: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=shell.environment({"DJANGO_SETTINGS_MODULE": settings}),
        capture_output=True,
        text=True,
        timeout=shell.DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
