"""What the migration guides show under "After" runs as it stands."""

from __future__ import annotations

import json
import re
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.guides.project import ROOT, SETTINGS, Project

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import Server

pytestmark = pytest.mark.slow

RUN = """
import json
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from emq_django import testing
from shop import calls, tasks
made = calls.calls()
clock = testing.Clock(periodic=[])
errors = [type(one.error).__name__ for one in testing.run_pending(raise_errors=False) if one.error]
clock.advance(minutes=20)
testing.run_pending()
outcome = calls.outcome(made[0].id)
done = next(value for name, value in vars(tasks).items() if name in {"DONE", "CHARGED"})
from emq_django.timetable.entries import entries
print(json.dumps({
    "errors": errors, "done": done, "value": outcome.return_value,
    "attempts": outcome.attempts, "periodic": {k: str(e.schedule) for k, e in entries().items()},
}))
"""


def ran(guide: str, folder: Path, server: Server) -> dict[str, Any]:
    page = (ROOT / f"docs/how-to/migrate-from-{guide}.md").read_text("utf-8")
    blocks = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", page, re.DOTALL))
    assert {"settings.py", "shop/tasks.py", "shop/calls.py"} <= blocks.keys()
    project = Project(folder, server, "settings")
    own = f'EMQ["QUEUE_PREFIX"] = "{uuid.uuid4().hex}-"\nINSTALLED_APPS += ["emq_django.outbox"]\n'
    project.write("settings.py", SETTINGS + blocks.pop("settings.py") + own)
    project.write("shop/urls.py", "urlpatterns = []\n")
    for name, text in blocks.items():
        project.write(name, text)
    assert "no issues" in project.manage("check")
    told = [line for line in project.run("-c", RUN).splitlines() if line.startswith("{")]
    found: dict[str, Any] = json.loads(told[0])
    return found


def test_from_celery(tmp_path: Path, server: Server) -> None:
    found = ran("celery", tmp_path, server)

    assert found["errors"] == ["OSError"]
    assert found["value"] == {"order": 13, "attempt": 2}
    assert sorted(map(str, found["done"])) == sorted(
        ["13", "receipt 5", "index", *map(str, range(100, 110))]
    )
    assert found["periodic"] == {"shop.tasks.morning_report": "30 6 * * 1-5 Europe/Berlin"}


def test_from_django_rq(tmp_path: Path, server: Server) -> None:
    found = ran("django-rq", tmp_path, server)

    assert found["value"] == 5
    assert sorted(found["done"]) == [5, 6, 7]
    assert found["periodic"] == {"sweep": "every 600 s"}


def test_from_django_tasks_db(tmp_path: Path, server: Server) -> None:
    found = ran("django-tasks-db", tmp_path, server)

    assert found["value"] == 5
    assert sorted(found["done"]) == [5, 6]
    assert found["periodic"] == {}
