"""The how-to's snippets run as they stand, in a project of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.servers import Server

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/test-your-jobs.md"

SETTINGS = """
import os
SECRET_KEY = "only for this test"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.contenttypes", "emq_django", "shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "queue": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": os.environ["EMQ_TEST_URL"]},
}
EMQ = {"CONNECTION": "queue"}
TASKS = {"default": {"BACKEND": "emq_django.task_backend.EmqBackend"}}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert [name for name, _ in blocks] == [
        "shop/tasks.py", "tests/test_receipts.py", "shop/tests.py",
    ]  # fmt: skip
    for name, text in blocks:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text)
    (folder / "settings.py").write_text(SETTINGS)
    return folder


def run(project: Path, server: Server, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=project,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "settings",
            "EMQ_TEST_URL": server.url,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{project}",
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_pytest_snippet_runs(project: Path, server: Server) -> None:
    text = run(
        project, server, "pytest", "-q", "-p", "emq_django.pytest_plugin",
        "-o", "asyncio_mode=auto", "-p", "no:valkey", "tests/test_receipts.py",
    )  # fmt: skip

    assert "7 passed" in text


@pytest.mark.slow
def test_the_django_snippet_runs(project: Path, server: Server) -> None:
    assert "Ran 2 tests" in run(project, server, "django", "test", "shop")
