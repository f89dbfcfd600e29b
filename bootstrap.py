"""Makes `.venv` from pyproject.toml, once, with nothing but the standard library.

`python3 -m tests` and `python3 -m example_project` begin here. A venv is trusted only while its
stamp says that it was finished, by this Python, from these dependencies; anything else is rebuilt.
Requirements add up: what one command installed, another keeps.

    python3 bootstrap.py lint test      # make it by hand, with these dependency groups
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import time
import venv
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
STAMP = VENV / "bootstrap.json"
LOCK = ROOT / ".venv.lock"
OLDEST_PYTHON = (3, 11)
DEFAULT_EXTRAS = ("server", "titles")

_SHOWN = ("Collecting ", "Building ", "Installing collected ")


def ensure_venv(groups: Iterable[str], extras: Iterable[str] = DEFAULT_EXTRAS) -> Path:
    """Return the Python of a venv that holds the package, these groups and these extras.

    Two calls at once are safe: the second waits for the first. Ends the process with a message
    when Python is too old, lacks venv, or when an installation fails.
    """
    if sys.version_info < OLDEST_PYTHON:
        sys.exit(f"emq_django needs Python 3.11 or newer; this is {sys.version.split()[0]}.")
    key, tables = _read_project()
    wanted = _requirements(tables, groups, extras)
    python = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    has = _installed(key, python)
    if has is None or not wanted <= has:
        with _lock():
            _bring_up(key, python, wanted)
    return python


def run(python: Path, *arguments: str) -> NoReturn:
    """Become `python arguments...`; signals and the exit code are the new program's."""
    command = [str(python), *arguments]
    if os.name == "nt":
        sys.exit(subprocess.call(command))
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606 - no shell, and a path made above


def _read_project() -> tuple[str, dict[str, Any]]:
    """Return the key of everything a venv depends on, and the dependency tables."""
    import tomllib  # new in 3.11: imported once the version is known to do

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tables = {
        "build": project["build-system"],
        "dependencies": project["project"]["dependencies"],
        "extras": project["project"]["optional-dependencies"],
        "groups": project["dependency-groups"],
    }
    # The package is installed in place, so a moved folder is another venv as well.
    relevant = [tables, sys.version, sys.base_prefix, str(ROOT)]
    return hashlib.sha256(json.dumps(relevant).encode()).hexdigest(), tables


def _requirements(
    tables: dict[str, Any], groups: Iterable[str], extras: Iterable[str]
) -> frozenset[str]:
    """Return what is to be installed beside the package and what it always depends on."""
    lines = {line for name in groups for line in _group(tables["groups"], name)}
    for name in extras:
        lines.update(_named(tables["extras"], name))
    return frozenset(lines)


def _group(groups: dict[str, Any], name: str) -> Iterator[str]:
    """Yield the requirements of a dependency group and of the groups that it includes."""
    for entry in _named(groups, name):
        if isinstance(entry, str):
            yield entry
        else:
            yield from _group(groups, entry["include-group"])


def _named(table: dict[str, Any], name: str) -> list[Any]:
    if name not in table:
        sys.exit(f"pyproject.toml has no {name!r} there, only {', '.join(table)}.")
    entries: list[Any] = table[name]
    return entries


def _installed(key: str, python: Path) -> frozenset[str] | None:
    """Return the requirements in the venv, or None when it must be made, again or at all."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
        if python.exists() and stamp["key"] == key:
            return frozenset(stamp["requirements"])
    return None


def _bring_up(key: str, python: Path, wanted: frozenset[str]) -> None:
    has = _installed(key, python)  # somebody else may have done it while we waited for the lock
    if has is not None and wanted <= has:
        return
    if has is None:
        _create()
    else:
        STAMP.unlink()
    total = sorted(wanted | (has or frozenset()))
    _install(python, total)
    STAMP.write_text(json.dumps({"key": key, "requirements": total}), encoding="utf-8")


def _create() -> None:
    if importlib.util.find_spec("ensurepip") is None:
        sys.exit(
            "This Python cannot make virtual environments: it lacks the module ensurepip.\n"
            "On Debian and Ubuntu: apt-get install python3-venv"
        )
    print(f"Making {VENV.name} with Python {sys.version.split()[0]}", flush=True)
    try:
        venv.create(VENV, clear=True, with_pip=True, symlinks=os.name != "nt")
    except (OSError, subprocess.CalledProcessError) as exc:
        sys.exit(f"{VENV} could not be made: {exc}")


def _install(python: Path, requirements: list[str]) -> None:
    print(f"Installing emq_django and {len(requirements)} more requirements", flush=True)
    started = time.monotonic()
    command = [str(python), "-m", "pip", "install", "--progress-bar", "off"]
    command += ["--disable-pip-version-check", "-e", str(ROOT), *requirements]
    last: deque[str] = deque(maxlen=30)
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        assert pip.stdout is not None  # noqa: S101 - asked for one line above
        for line in pip.stdout:
            last.append(line)
            if line.strip().startswith(_SHOWN):
                print(f"  {line.strip():.100}", flush=True)
    if pip.returncode:
        sys.exit("".join(last) + "The installation failed; the lines above are pip's.")
    print(f"Installed in {time.monotonic() - started:.0f} s", flush=True)


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    """Hold the lock file; the system lets go of it however this process ends."""
    with LOCK.open("a+b") as file:
        if sys.platform == "win32":
            import msvcrt

            while True:
                file.seek(0)
                with contextlib.suppress(OSError):
                    msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
                    break
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    print(ensure_venv(sys.argv[1:] or ["dev"]))
