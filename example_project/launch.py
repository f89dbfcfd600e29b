"""The example from start to end: server, database, worker, site, one upload, figures.

Runs inside the environment that `python3 -m example_project` makes (__main__.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.resources
import os
import secrets
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from emq_django.errors import EmqError
from example_project.options import DATA_DIR, Options, read_options
from example_project.processes import LaunchFailed, Part, running_server, running_worker
from example_project.progress import Screen
from example_project.visitor import Visitor

_USER = "admin"
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOOK_EVERY_S = 0.2
_LONGEST_STANDSTILL_S = 60.0


def main(arguments: Sequence[str]) -> int:
    """Run the example; return the exit code."""
    options = read_options(arguments)
    screen = Screen()
    for signum in _STOP_SIGNALS:
        signal.signal(signum, _stop)
    try:
        _run(options, screen)
    except Stopped as exc:
        screen.line("Stopped.")
        return 128 + exc.signum
    except (LaunchFailed, EmqError, OSError) as exc:
        screen.end_bar()
        sys.stderr.write(f"The example cannot go on. {exc}\n")
        return 1
    return 0


class Stopped(BaseException):
    """Somebody pressed Ctrl-C or asked for the end by another signal."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


_asked_to_stop: list[int] = []


def _stop(signum: int, frame: object) -> NoReturn:
    # Noted as well as raised: Python drops what is raised inside a callback of its own, such as
    # one that runs in the middle of an import. The loops look at the note.
    _asked_to_stop.append(signum)
    raise Stopped(signum)


def _run(options: Options, screen: Screen) -> None:
    with contextlib.ExitStack() as stack:
        try:
            _run_parts(options, screen, stack)
        finally:
            # Once the end has begun nothing interrupts it: each of its steps is bounded in time.
            for signum in _STOP_SIGNALS:
                signal.signal(signum, signal.SIG_IGN)


def _run_parts(options: Options, screen: Screen, stack: contextlib.ExitStack) -> None:
    data = options.data.absolute()
    data.mkdir(parents=True, exist_ok=True)
    stack.enter_context(_alone(data))
    parts: list[Part] = []
    url = os.environ.get("EMQ_EXAMPLE_REDIS_URL", "")
    if url:
        screen.line("Server    the one in EMQ_EXAMPLE_REDIS_URL")
    else:
        url, server = stack.enter_context(running_server(data))
        parts.append(server)
        screen.line(f"Server    {url}")
    _configure(url, data)
    password = _prepare_database(data)
    screen.line(f"Database  {data / 'db.sqlite3'}")
    worker = stack.enter_context(running_worker(data / "worker.log"))
    parts.append(worker)
    screen.line(f"Worker    process {worker.process.pid}, log in {worker.log}")

    from example_project.web import running_site  # needs the settings that were just made

    site = stack.enter_context(running_site(options.port, data / "site.log"))
    screen.line(f"Site      {site}/")
    visitor = Visitor(site)
    visitor.log_in(_USER, password)
    _import(options, screen, visitor, parts)
    _count(screen, visitor, parts)
    screen.line()
    if options.once:
        screen.line("Every job has run. With --once nothing keeps serving; to look around, run")
        screen.line(f"    {screen.bold(_command_for(options))}")
        return
    screen.line(f"Site      {screen.bold(site + '/')}")
    screen.line(f"Admin     {screen.bold(site + '/admin/')}")
    screen.line(f"User      {screen.bold(_USER)}")
    screen.line(f"Password  {screen.bold(password)}")
    _serve(screen, parts)


def _command_for(options: Options) -> str:
    """Return the command that serves what a run with these options left."""
    words = ["python3", "-m", "example_project"]
    words += ["--data", str(options.data)] if options.data != DATA_DIR else []
    return shlex.join(words)


@contextlib.contextmanager
def _alone(data: Path) -> Iterator[None]:
    """Hold the data folder; two runs in one folder would share a database and a server."""
    with (data / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            raise LaunchFailed(
                f"Another run uses the folder {data}: stop it, or name another one with --data."
            ) from exc
        yield


def _configure(url: str, data: Path) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "example_project.settings"
    os.environ["EMQ_EXAMPLE_REDIS_URL"] = url
    os.environ["EMQ_EXAMPLE_DATA"] = str(data)
    os.environ["EMQ_EXAMPLE_SECRET_KEY"] = secrets.token_urlsafe(32)


def _prepare_database(data: Path) -> str:
    """Bring the tables up to date and return a fresh password of the user `admin`."""
    import django
    from django.core.management import call_command
    from django.db import DatabaseError

    django.setup()
    try:
        call_command("migrate", verbosity=0)
        return _fresh_password()
    except DatabaseError as exc:
        raise LaunchFailed(f"The database in {data} cannot be used: {exc}.") from exc


def _fresh_password() -> str:
    from django.contrib.auth.models import User

    password = secrets.token_urlsafe(9)
    user, _ = User.objects.get_or_create(username=_USER)
    user.is_active = user.is_staff = user.is_superuser = True
    user.set_password(password)
    user.save()
    return password


def _import(options: Options, screen: Screen, visitor: Visitor, parts: Sequence[Part]) -> None:
    name, content = _file(options)
    screen.line()
    screen.line(f"Importing {name} ({len(content) / 1e6:.1f} MB) through the form of the site")
    started = changed = time.monotonic()
    page = visitor.upload(name, content)
    figures: dict[str, Any] = {"done": -1}
    while not figures.get("finished"):
        before, figures = figures["done"], visitor.progress(page)
        screen.show(figures["done"], figures["total"], "jobs have run")
        _look(parts)
        now = time.monotonic()
        if figures["done"] != before:
            changed = now
        elif now - changed > _LONGEST_STANDSTILL_S:
            words = parts[-1].last_words()
            raise LaunchFailed(
                f"The worker runs, but no job ended for {now - changed:.0f} s.{words}"
            )
        time.sleep(0 if figures["finished"] else _LOOK_EVERY_S)
    seconds = time.monotonic() - started
    screen.line(
        f"{figures['stored']:,} rows stored, {figures['refused']:,} refused:"
        f" {figures['total']:,} jobs in {seconds:.1f} s"
    )


def _count(screen: Screen, visitor: Visitor, parts: Sequence[Part]) -> None:
    """Ask for a count of the airports, which is a task, and wait for its result."""
    path = visitor.count()
    give_up = time.monotonic() + _LONGEST_STANDSTILL_S
    while not (found := visitor.result(path))["finished"]:
        _look(parts)
        if time.monotonic() > give_up:
            raise LaunchFailed(
                f"The task did not end in {_LONGEST_STANDSTILL_S:.0f} s.{parts[-1].last_words()}"
            )
        time.sleep(_LOOK_EVERY_S)
    if found["countries"] is None:
        raise LaunchFailed(f"The task failed.{parts[-1].last_words()}")
    number = found["countries"]
    countries = "1 country" if number == 1 else f"{number:,} countries"
    screen.line(f"A task counted the airports of each country: {countries}")


def _file(options: Options) -> tuple[str, bytes]:
    """Return the name and the bytes of the file to import."""
    if options.file:
        name, content = options.file.name, options.file.read_bytes()
    else:
        source = importlib.resources.files("airportsdata") / "airports.csv"
        name, content = "airports.csv", source.read_bytes()
    if options.rows:
        content = b"".join(content.splitlines(keepends=True)[: options.rows + 1])
    return name, content


def _look(parts: Sequence[Part]) -> None:
    """Raise what ends a wait: a stop that was asked for, or a part that has ended."""
    if _asked_to_stop:
        raise Stopped(_asked_to_stop[0])
    for part in parts:
        part.check_alive()


def _serve(screen: Screen, parts: Sequence[Part]) -> None:
    try:
        screen.line("Ctrl-C stops the site, the worker and the server.")
        while True:
            _look(parts)
            time.sleep(_LOOK_EVERY_S)
    except Stopped as exc:
        if exc.signum != signal.SIGINT:
            raise
        screen.line("Stopping.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
