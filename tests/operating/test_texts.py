"""What is shown is safe, fits, and says when in words: no server."""

from __future__ import annotations

import doctest
import io
from typing import Any

import pytest
from django.core.management import CommandError
from django.core.management.base import OutputWrapper

from emq_django.operating import confirm, submit, text
from emq_django.operating.progress import Progress
from emq_django.operating.tables import Cell, Column, table
from emq_django.operating.terminal import Terminal, terminal_of

HEAD = (
    Column(title="queue", right=False),
    Column(title="pending"),
    Column(title="dead", rank=1),
    Column(title="workers", rank=2),
)
ROWS = [["mail", "1,000", "3", "2"], ["a queue with a long name", "7", "0", "0"]]


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("module", [text, submit])
def test_the_examples_in_the_docstrings_hold(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(
    ("ms", "words"),
    [(61_000, "1 min 1 s"), (3_600_000, "1 h"), (90_061_000, "1 d 1 h"), (-5_000, "5 s")],
)
def test_times_are_said_in_their_two_largest_units(ms: int, words: str) -> None:
    assert text.span(ms) == words


def test_a_table_is_aligned() -> None:
    lines = table(HEAD, ROWS, Terminal())

    assert lines == [
        "queue                     pending  dead  workers",
        "mail                        1,000     3        2",
        "a queue with a long name        7     0        0",
    ]


@pytest.mark.parametrize("width", [10, 20, 30, 40, 47])
def test_a_table_is_never_wider_than_the_terminal(width: int) -> None:
    lines = table(HEAD, ROWS, Terminal(live=True, width=width))

    assert max(map(text.columns, lines)) <= width
    assert lines[0].startswith("queue")
    if width < 40:
        assert "do not" in lines[-1] or lines[-1].endswith("…")


def test_wide_letters_are_counted_as_two_columns() -> None:
    rows = [["日本", "1"], ["mail", "22"]]

    lines = table(HEAD[:2], rows, Terminal())

    assert len({text.columns(line) for line in lines[1:]}) == 1
    assert text.clip("日本語", 4) == "日…"


def test_colours_are_for_those_who_want_them() -> None:
    row: list[str | Cell] = [Cell("mail", "bad"), "1"]

    plain, painted = (
        table(HEAD[:2], [row], Terminal(colours=colours))[1] for colours in (False, True)
    )

    assert "\x1b" not in plain
    assert "\x1b[31mmail\x1b[0m" in painted


@pytest.mark.parametrize(
    ("environ", "colours", "live"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, False, False),
        ({}, False, False),
    ],
)
def test_a_terminal_is_asked_what_it_can_do(
    environ: dict[str, str], colours: bool, live: bool
) -> None:
    terminal = terminal_of(Screen(), environ=environ)

    assert (terminal.colours, terminal.live) == (colours, live)
    assert terminal_of(Screen(), no_colour=True, environ=environ).colours is False
    assert terminal_of(io.StringIO(), environ=environ) == Terminal()


def test_progress_is_a_bar_on_a_terminal_that_goes_away() -> None:
    screen = Screen()
    progress = Progress(screen, Terminal(live=True, width=60), "drain mail", lambda: 1.0)

    progress.show(50, 100)
    progress.end()

    assert "drain mail: 50 of 100 [############............]" in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_progress_through_djangos_stderr_is_drawn_in_place_and_is_no_error() -> None:
    screen = Screen()
    stderr = OutputWrapper(screen)
    stderr.style_func = "!{}!".format
    progress = Progress(stderr, Terminal(live=True, width=60), "drain mail", lambda: 1.0)

    progress.show(50, 100)
    progress.end()

    assert "\n" not in screen.getvalue()
    assert "!" not in screen.getvalue()


def test_progress_is_a_line_now_and_then_elsewhere() -> None:
    now_s, pipe = 0.0, io.StringIO()
    progress = Progress(pipe, Terminal(), "drain mail", lambda: now_s)
    for second in range(12):
        now_s = second
        progress.show(second, 100)
    progress.end()

    assert pipe.getvalue() == "drain mail: 5 of 100\ndrain mail: 10 of 100\n"


def confirmed(typed: str, *, tty: bool = True, yes: bool = False) -> None:
    stdin = Screen(typed) if tty else io.StringIO(typed)
    confirm.confirm(stdin, OutputWrapper(io.StringIO()), "mail", "This removes it", yes=yes)


def test_the_name_must_be_typed_in_full() -> None:
    confirmed("mail\n")
    confirmed("", tty=False, yes=True)
    for typed in ("Mail\n", "\n", "", "mail x\n", "yes\n"):
        with pytest.raises(CommandError, match="nothing was done") as refusal:
            confirmed(typed)
        assert refusal.value.returncode == 1


def test_nobody_to_ask_is_no_consent() -> None:
    with pytest.raises(CommandError, match="--yes") as refusal:
        confirmed("mail\n", tty=False)
    assert refusal.value.returncode == 2
