"""A private PostgreSQL server for the tests that need one: its own folder, a unix socket, no port.

Where it can't be had a test is skipped and says why; in CI that is a failure.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

ALIAS = "postgres"
_BEGIN_S = 30.0


class NoPostgres(Exception):
    """There is no server to start. The text says why."""


class Postgres:
    """One running server; `close` ends it and removes its folder."""

    def __init__(self) -> None:
        self._bin = _find()
        # initdb refuses to run as root, as which containers do.
        self._user = _other_user() if os.geteuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="emq-pg-"))
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self.data = self.folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    @property
    def settings(self) -> dict[str, Any]:
        """What stands in DATABASES for it."""
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "postgres",
            "USER": "tests",
            "HOST": str(self.folder),
        }

    def _begin(self) -> None:
        made = self._run("initdb", "-D", str(self.data), "-U", "tests", "-A", "trust", "--no-sync")
        if made.returncode:
            raise NoPostgres(made.stderr.decode(errors="replace"))
        command = [
            str(self._bin / "postgres"), "-D", str(self.data), "-k", str(self.folder),
            "-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=40",
        ]  # fmt: skip
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stderr=log, stdout=log, **self._as_user())
        deadline_s = time.monotonic() + _BEGIN_S
        while self._run("pg_isready", "-h", str(self.folder), "-q").returncode:
            if time.monotonic() > deadline_s or self._process.poll() is not None:
                raise NoPostgres((self.folder / "log").read_text(errors="replace"))
            time.sleep(0.05)  # pg_isready is how one asks; it does not wait itself

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        command: Sequence[str] = (str(self._bin / name), *arguments)
        return subprocess.run(
            command, capture_output=True, check=False, cwd=self.folder, **self._as_user()
        )

    def _as_user(self) -> dict[str, Any]:
        if self._user is None:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}


def _find() -> Path:
    """Return the folder with initdb and postgres: on the path, or where Debian keeps them."""
    named = shutil.which("initdb")
    places = [Path(named).resolve().parent] if named else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for place in places:
        if (place / "postgres").exists() and (place / "initdb").exists():
            return place
    raise NoPostgres("no initdb and postgres on this machine (Debian: postgresql)")


def _other_user() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise NoPostgres("initdb does not run as root, and there is no user postgres or nobody")
