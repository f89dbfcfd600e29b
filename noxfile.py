"""The pairs of Python and Django that are supported; `nox -l` lists them.

nox -s "tests-3.12(django='6.0')"                the whole suite on one pair
nox -s tests -- -m smoke                         the smoke set on all of them
"""

from __future__ import annotations

import nox

nox.needs_version = ">=2025.11.12"
# No interpreter is downloaded: a pair runs where its Python is installed.
nox.options.download_python = "never"
nox.options.default_venv_backend = "uv|venv"
nox.options.reuse_venv = "yes"

PAIRS = [
    ("3.11", "5.2"),
    *((python, django) for python in ("3.12", "3.13") for django in ("5.2", "6.0", "6.1")),
]


@nox.session
@nox.parametrize(("python", "django"), PAIRS)
def tests(session: nox.Session, django: str) -> None:
    """Run pytest with the arguments after `--`, or the whole suite."""
    project = nox.project.load_toml("pyproject.toml")
    group = nox.project.dependency_groups(project, "test")
    session.env["PYTHONDONTWRITEBYTECODE"] = ""
    session.install("-e", ".[server,titles]", f"django~={django}.0", *group)
    session.run("python", "-X", "dev", "-m", "pytest", *session.posargs)


@nox.session(python="3.13")
@nox.parametrize("django", ["6.0", "6.1"])
def upstream(session: nox.Session, django: str) -> None:
    """Run Django's own task tests against this package's backend."""
    project = nox.project.load_toml("pyproject.toml")
    group = nox.project.dependency_groups(project, "test")
    session.env["PYTHONDONTWRITEBYTECODE"] = ""
    session.install("-e", ".[server]", f"django~={django}.0", *group)
    session.run("python", "-m", "tests.task_backend.upstream")
