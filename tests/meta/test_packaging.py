"""What is shipped, and what must not stand in the repository."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import emq_django

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "emq_django"

# Spelled in pieces, so that this file is not its own first finding.
REGISTRIES = ["py" + "pi.org", "python" + "hosted", "registry." + "npmjs", "index" + "-url"]
MACHINE_PATHS = ["/" + name + "/" for name in ("root", "work", "opt")]


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files of a wheel built from the working tree by the installed hatchling."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    """The files that git knows, or would take in."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    paths = [ROOT / os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    return [path for path in paths if path.is_file()]


def test_the_wheel_holds_every_file_of_the_package(wheel_names: set[str]) -> None:
    source = {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert source - wheel_names == set()
    assert "emq_django/py.typed" in wheel_names
    assert any(name.endswith(".lua") for name in wheel_names)


def test_the_wheel_holds_nothing_beside_the_package(wheel_names: set[str]) -> None:
    folders = {name.split("/")[0] for name in wheel_names}

    assert folders == {"emq_django", f"emq_django-{emq_django.__version__}.dist-info"}


def test_the_version_stands_in_one_place(tracked: list[Path]) -> None:
    pattern = re.compile(rf"version.*[\"']{re.escape(emq_django.__version__)}[\"']")
    code = [path for path in tracked if path.suffix in {".py", ".toml"}]

    holders = [path.relative_to(ROOT) for path in code if pattern.search(path.read_text("utf-8"))]

    assert holders == [Path("emq_django/__init__.py")]


def test_all_lists_the_lazy_names_that_type_checkers_see() -> None:
    module = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    [block] = [node for node in module.body if isinstance(node, ast.If)]
    seen = [
        alias.asname or alias.name
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    ]

    listed = [name for name in emq_django.__all__ if not name.startswith("__")]

    assert sorted(listed) == sorted(seen)


def test_every_listed_name_can_be_imported() -> None:
    assert [name for name in emq_django.__all__ if getattr(emq_django, name) is None] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        emq_django.no_such_name  # noqa: B018


def test_importing_the_package_reads_no_settings() -> None:
    code = "import sys, emq_django; sys.exit('django.conf' in sys.modules)"
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}

    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True)


@pytest.mark.parametrize("module", ["example_project", "tests"])
def test_the_commands_of_the_readme_exist(module: str) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")

    assert f"\npython3 -m {module}\n" in readme
    assert (ROOT / module / "__main__.py").is_file()


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text("utf-8"))

    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_page_is_reached_from_the_index() -> None:
    docs = ROOT / "docs"
    index = (docs / "index.md").read_text("utf-8")
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")} - {"index.md"}

    assert {page for page in pages if f"]({page})" not in index} == set()


def test_the_management_commands_of_the_docs_exist() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"manage\.py (\w+)", page.read_text())}
    own = {name for name in named if name.startswith("emq_")}

    commands = PACKAGE / "management" / "commands"
    assert {name for name in own if not (commands / f"{name}.py").is_file()} == set()


@pytest.mark.parametrize("needle", [*REGISTRIES, *MACHINE_PATHS])
def test_no_file_names_a_registry_or_a_machine(tracked: list[Path], needle: str) -> None:
    holders = [
        path.relative_to(ROOT).as_posix()
        for path in tracked
        if needle.encode() in path.read_bytes()
    ]

    assert holders == []


def test_there_is_no_lock_file(tracked: list[Path]) -> None:
    locks = {
        "uv.lock",
        "poetry.lock",
        "Pipfile.lock",
        "pdm.lock",
        "requirements.txt",
        "pylock.toml",
    }

    assert [path.name for path in tracked if path.name in locks] == []
