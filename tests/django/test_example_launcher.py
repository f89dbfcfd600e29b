"""`python3 -m example_project` as a process: what it prints, how it ends, what it leaves behind.

Starts behind the bootstrap: the suite already runs in an environment that has everything.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from example_project import launch as launch_module
from example_project.options import read_options
from example_project.progress import Screen

ROOT = Path(__file__).resolve().parents[2]
FEW_ROWS = ("--rows", "300", "--port", "0")

launches = pytest.mark.skipif(
    sys.platform != "linux", reason="looks for processes that were left behind in /proc"
)


class Launch:
    """A launcher in a process group of its own, as a terminal would start it."""

    def __init__(self, data: Path, *arguments: str, **environment: str) -> None:
        self.data = data
        home = data.parent / "home"
        home.mkdir(exist_ok=True)
        inherited = {name: text for name, text in os.environ.items() if not name.startswith("EMQ_")}
        inherited.pop("DJANGO_SETTINGS_MODULE", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "example_project.launch", "--data", str(data), *arguments],
            cwd=ROOT,
            env={**inherited, "HOME": str(home), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def read_until(self, beginning: str) -> str:
        """Return the first line that begins so."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(beginning):
                return line
        raise AssertionError(f"no line began with {beginning!r}: {self.process.communicate()}")

    def ended(self) -> tuple[int, str, str]:
        """Return the exit code and the rest of both outputs."""
        out, err = self.process.communicate()
        return self.process.returncode, out, err

    def left_behind(self) -> list[str]:
        """Return the command lines of what runs in the data folder, the launcher aside."""
        return [command for pid, command in self._processes() if pid != self.process.pid]

    def pid_of(self, word: str) -> int:
        """Return the id of the process whose title or command line holds a word."""
        return next(pid for pid, command in self._processes() if word in command)

    def end_everything(self) -> None:
        self.process.kill()
        self.process.communicate()
        for pid, _ in self._processes():
            os.kill(pid, signal.SIGKILL)

    def _processes(self) -> Iterator[tuple[int, str]]:
        mark = os.fsencode(self.data)
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes()
                if mark in command or mark in (folder / "environ").read_bytes():
                    yield int(folder.name), command.replace(b"\0", b" ").decode()
            except OSError:
                continue  # it ended while we looked, or is somebody else's


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Callable[..., Launch]]:
    started: list[Launch] = []

    def start(*arguments: str, **environment: str) -> Launch:
        started.append(Launch(tmp_path / "data", *arguments, **environment))
        return started[-1]

    yield start
    for one in started:
        one.end_everything()


def wait_until_alone(launched: Launch, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while launched.left_behind():
        assert time.monotonic() < deadline, launched.left_behind()
        time.sleep(0.05)  # nothing tells us when a process that is not our child has ended


@launches
@pytest.mark.slow
@pytest.mark.timeout(120)
class TestLaunch:
    def test_once_imports_says_how_to_look_around_and_leaves_nothing(
        self, launch: Callable[..., Launch]
    ) -> None:
        for _ in range(2):  # the second run finds the first one's data
            run = launch("--once", *FEW_ROWS)

            code, out, err = run.ended()

            assert (code, err) == (0, "")
            assert "300 rows stored, 0 refused: 2 jobs in " in out
            assert "A task counted the airports of each country: " in out
            assert "100 %  2 of 2 jobs have run" in out
            assert out.endswith(f"    python3 -m example_project --data {run.data}\n")
            assert "Password" not in out, "nothing serves any more"
            assert run.left_behind() == []

    def test_ctrl_c_ends_everything(self, launch: Callable[..., Launch]) -> None:
        run = launch(*FEW_ROWS)
        run.read_until("A task counted")
        assert re.fullmatch(r"Site +http://127\.0\.0\.1:\d+/\n", run.read_until("Site"))
        assert re.fullmatch(r"Admin +http://127\.0\.0\.1:\d+/admin/\n", run.read_until("Admin"))
        assert re.fullmatch(r"User +admin\n", run.read_until("User"))
        assert re.fullmatch(r"Password +\S{12}\n", run.read_until("Password"))
        run.read_until("Ctrl-C stops")

        os.killpg(run.process.pid, signal.SIGINT)

        assert run.ended() == (0, "Stopping.\n", "")
        assert run.left_behind() == []

    def test_ctrl_c_in_the_middle_finishes_the_jobs_that_run(
        self, launch: Callable[..., Launch]
    ) -> None:
        run = launch("--port", "0")
        while not re.search(r" [1-9]\d* of 114 jobs", run.read_until("  ")):
            pass

        os.killpg(run.process.pid, signal.SIGINT)

        code, out, err = run.ended()
        assert (code, out.splitlines()[-1], err) == (130, "Stopped.", "")
        assert " ERROR " not in (run.data / "worker.log").read_text("utf-8")
        assert run.left_behind() == []

    def test_a_stop_signal_ends_everything(self, launch: Callable[..., Launch]) -> None:
        run = launch(*FEW_ROWS)
        run.read_until("Worker")

        run.process.send_signal(signal.SIGTERM)

        assert run.ended()[0] == 128 + signal.SIGTERM
        assert run.left_behind() == []

    def test_nothing_outlives_a_killed_launcher(self, launch: Callable[..., Launch]) -> None:
        run = launch(*FEW_ROWS)
        run.read_until("Ctrl-C stops")
        assert len(run.left_behind()) == 3  # the server, the worker's parent and its child

        run.process.kill()

        wait_until_alone(run)

    def test_a_second_run_in_the_same_folder_is_refused(
        self, launch: Callable[..., Launch]
    ) -> None:
        first = launch(*FEW_ROWS)
        first.read_until("Site")

        code, _, err = launch("--once", *FEW_ROWS).ended()

        assert code == 1
        assert "Another run uses the folder" in err
        first.read_until("Ctrl-C stops")

    def test_a_port_that_is_taken_is_named(self, launch: Callable[..., Launch]) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])

            run = launch("--once", "--port", port)
            code, _, err = run.ended()

        assert code == 1
        assert err == (
            f"The example cannot go on. The site cannot listen on port {port}:"
            " Address already in use. Choose another --port.\n"
        )
        assert run.left_behind() == []

    @pytest.mark.parametrize("part", ["server", "worker"])
    def test_a_part_that_ends_ends_the_example(
        self, launch: Callable[..., Launch], part: str
    ) -> None:
        run = launch(*FEW_ROWS)
        run.read_until("Ctrl-C stops")

        os.kill(run.pid_of("emq_worker" if part == "worker" else "server.sock"), signal.SIGKILL)

        code, _, err = run.ended()
        assert code == 1
        assert err.startswith(f"The example cannot go on. The {part} ended with code -9.")
        assert run.left_behind() == []

    def test_a_server_that_cannot_be_reached_is_said_plainly(
        self, launch: Callable[..., Launch]
    ) -> None:
        run = launch("--once", *FEW_ROWS, EMQ_EXAMPLE_REDIS_URL="redis://127.0.0.1:1")

        code, _, err = run.ended()

        assert code == 1
        assert "Traceback" not in err
        assert run.left_behind() == []

    def test_a_file_that_the_site_refuses_ends_it_with_the_reason(
        self, launch: Callable[..., Launch], tmp_path: Path
    ) -> None:
        file = tmp_path / 'odd "name".csv'
        file.write_text("a,b\n1,2\n", encoding="utf-8")

        code, _, err = launch("--once", "--port", "0", "--file", str(file)).ended()

        assert code == 1
        assert "The site answered 422 for /: The first line must name the columns." in err

    def test_a_folder_that_cannot_be_made_is_said_plainly(self, tmp_path: Path) -> None:
        blocker = tmp_path / "file"
        blocker.touch()

        code, _, err = Launch(blocker, "--once").ended()

        assert code == 1
        assert err == f"The example cannot go on. [Errno 17] File exists: '{blocker}'\n"


def test_a_stop_that_python_dropped_ends_the_next_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_module, "_asked_to_stop", [])
    with contextlib.suppress(launch_module.Stopped):  # as after a callback that cannot raise
        launch_module._stop(signal.SIGTERM, None)

    with pytest.raises(launch_module.Stopped):
        launch_module._look([])


class TestOptions:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--port", "70000"], "argument --port: '70000' is not a whole number from 0 to 65535"),
            (["--port", "x"], "argument --port: 'x' is not a whole number from 0 to 65535"),
            (["--rows", "0"], "argument --rows: '0' is not a whole number from 1 to 1000000"),
            (
                ["--file", "/does/not/exist"],
                "argument --file: cannot read /does/not/exist: No such",
            ),
        ],
    )
    def test_a_wrong_value_is_named(
        self, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit, match="2"):
            read_options(arguments)

        assert message in capsys.readouterr().err

    def test_help_needs_nothing_but_the_standard_library(self) -> None:
        command = [sys.executable, "-I", "-S", "-c", _HELP, str(ROOT)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)

        assert "usage: python3 -m example_project" in done.stdout
        assert "Ctrl-C stops everything" in done.stdout


_HELP = """
import runpy, sys
sys.path.insert(0, sys.argv[1])
sys.argv[1:] = ["--help"]
runpy.run_module("example_project", run_name="__main__")
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestScreen:
    def test_a_log_gets_a_line_for_each_tenth(self) -> None:
        out = io.StringIO()
        screen = Screen(out)

        for done in range(201):
            screen.show(done, 200, "jobs")

        assert len(out.getvalue().splitlines()) == 11
        assert out.getvalue().endswith("  100 %  200 of 200 jobs\n")
        assert "\r" not in out.getvalue()

    def test_a_terminal_gets_a_bar(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")
        out = Terminal()
        screen = Screen(out)

        screen.show(1, 2, "jobs")
        screen.line("next")

        assert out.getvalue().count("\r") == 1
        assert "\033[32m" in out.getvalue()
        assert "jobs\nnext\n" in out.getvalue()

    def test_no_color_takes_the_colours_away(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        out = Terminal()

        Screen(out).show(1, 2, "jobs")

        assert "\033" not in out.getvalue()

    def test_an_empty_total_is_all_done(self) -> None:
        out = io.StringIO()

        Screen(out).show(0, 0, "jobs")

        assert "100 %" in out.getvalue()
