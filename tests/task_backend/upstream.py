"""Run Django's own task tests against this backend: ``python -m tests.task_backend.upstream``.

Takes the source distribution of the installed Django (6.0 or later) from the package index, puts
this project's backend in the place of Django's two, and runs ``tests/tasks`` on a server of its
own.
Four tests are left out: two change Django's list of results in memory, two assert that the
immediate backend can't read results.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from argparse import ArgumentParser
from importlib.util import find_spec
from pathlib import Path

import django

from tests.servers import start_server

ROOT = Path(__file__).parents[2]
PLACES = {
    "django.tasks.backends.immediate.ImmediateBackend": "ImmediateBackend",
    "django.tasks.backends.dummy.DummyBackend": "DummyBackend",
}
OURS = "tests.task_backend.upstream_backends"
LEFT_OUT = (
    "DummyBackendTestCase.test_refresh_result",
    "DummyBackendTestCase.test_refresh_result_async",
    "ImmediateBackendTestCase.test_cannot_get_result",
    "ImmediateBackendTestCase.test_cannot_refresh_result",
)
SETTINGS = f"""
import os
from django.test.runner import DiscoverRunner
SECRET_KEY = "upstream"
INSTALLED_APPS = ["emq_django"]
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3"}}}}
EMQ = {{"CONNECTION": os.environ["UPSTREAM_URL"], "QUEUES": {{"default": {{"PRIORITIES": True}}}}}}
TEST_RUNNER = "upstream_settings.Runner"

class Runner(DiscoverRunner):
    def build_suite(self, *args, **kwargs):
        suite = super().build_suite(*args, **kwargs)
        left_out = {LEFT_OUT!r}
        kept = [one for one in suite if not one.id().endswith(left_out)]
        assert len(kept) == len(list(suite)) - len(left_out)
        suite._tests = kept
        print("left out:", *left_out)
        return suite
"""


def main() -> int:
    """Return the exit code of Django's test runner."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--sdist", type=Path, help="use this file in place of a download")
    options = parser.parse_args()
    if django.VERSION < (6, 0):
        sys.stdout.write(f"Django {django.get_version()} has no tasks of its own\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="emq-upstream-") as name:
        folder = Path(name)
        unpack(options.sdist or download(folder), folder)
        server = start_server()
        try:
            return run(folder, server.url)
        finally:
            server.close()


def download(folder: Path) -> Path:
    """Download the source of the installed Django; its build requirements come along."""
    wanted = f"django=={django.get_version()}"
    # An environment that uv made has no pip; the Python that it was made from has.
    python = sys.executable if find_spec("pip") else f"{sys.base_prefix}/bin/python3"
    pip = [python, "-m", "pip", "download", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-binary", "django", "--dest", str(folder), wanted], check=True)
    return next(folder.glob("*.tar.gz"))


def unpack(sdist: Path, folder: Path) -> None:
    """Write ``tests/tasks`` to a folder with the backends replaced, and settings beside it."""
    with tarfile.open(sdist) as archive:
        for member in archive:
            parts = Path(member.name).parts
            if parts[1:3] != ("tests", "tasks") or not member.isfile():
                continue
            source = archive.extractfile(member)
            assert source is not None
            target = folder.joinpath(*parts[2:])
            target.parent.mkdir(exist_ok=True)
            target.write_text(replaced(source.read().decode()))
    (folder / "upstream_settings.py").write_text(SETTINGS)


def replaced(text: str) -> str:
    """Put our backends where Django's are named, by path or by import."""
    for path, name in PLACES.items():
        module = path.rpartition(".")[0]
        text = text.replace(f'"{path}"', f'"{OURS}.{name}"')
        text = text.replace(f"from {module} import {name}", f"from {OURS} import {name}")
    return text


def run(folder: Path, url: str) -> int:
    """Run the tests with Django's runner."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "upstream_settings",
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        "UPSTREAM_URL": url,
    }
    command = [sys.executable, "-m", "django", "test", "tasks"]
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
