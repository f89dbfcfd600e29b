"""Projects for the docs' code to run in, as a reader would have them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.servers import Server

ROOT = Path(__file__).parents[2]

# What `startproject` writes, as far as it matters here, with a server for the queues.
SETTINGS = """\
import os
SECRET_KEY = "only for this test"
USE_TZ = True
ROOT_URLCONF = "shop.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "emq_django", "shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}}
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "queue": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": os.environ["EMQ_TEST_URL"]},
}
"""


class Project:
    """A folder with a Django project."""

    def __init__(self, folder: Path, server: Server, settings: str) -> None:
        self.folder = folder
        self._env = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": settings,
            "EMQ_TEST_URL": server.url,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}",
            "PYTHONWARNINGS": "error",
        }

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.parent != self.folder:
            (path.parent / "__init__.py").touch()
        path.write_text(text)

    def run(self, *arguments: str) -> str:
        """Run python with these arguments; return what it printed."""
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env=self._env,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def manage(self, *arguments: str) -> str:
        return self.run("-m", "django", *arguments)
