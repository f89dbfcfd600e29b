"""An exception as text: for the job's row, and for one line of a log.

Job code raises whatever it likes, so nothing here trusts the exception: its str() may raise or
return megabytes, its traceback may be a thousand frames long.
"""

from __future__ import annotations

import json
import traceback
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import TracebackType

_MESSAGE_CHARS: Final = 1_000
_SOURCE_CHARS: Final = 160
_FRAMES: Final = 20  # the innermost ones: the row keeps some 8 KB of all this
_RELATED: Final = 4  # causes, or members of a group
_LINE_CHARS: Final = 300
_OURS: Final = __name__.partition(".")[0]
_RECORD_CHARS: Final = 3_000  # of a traceback, in each line of a job's errors


def describe(exc: BaseException) -> str:
    """Return type, message, the innermost frames and the causes of an exception. Never raises."""
    try:
        return "\n".join([headline(exc), *_frames(exc), *_related(exc)])
    except BaseException as broken:  # noqa: BLE001 - a hostile exception must not end the worker
        return f"{type(exc).__qualname__} (its description failed: {type(broken).__qualname__})"


def record(exc: BaseException, token: int, worker: str, began_ms: int, ended_ms: int) -> bytes:
    """Return one line of JSON for the row's list of errors. Never raises.

    ``e`` is the exception's class, ``t`` its traceback, ``a`` the token, ``w`` the worker, ``s``
    and ``f`` when the run started and finished (Unix ms).
    """
    kind = type(exc)
    try:
        text = "".join(traceback.format_exception(kind, exc, _of_the_job(exc), limit=-_FRAMES))
    except BaseException:  # noqa: BLE001 - as in describe, which never raises
        text = describe(exc)
    if len(text) > _RECORD_CHARS:
        # The message and where it happened stand at the end.
        text = f"{text[: _RECORD_CHARS // 3]}\n…\n{text[-2 * _RECORD_CHARS // 3 :]}"
    line = {
        "e": f"{kind.__module__}.{kind.__qualname__}", "t": text, "a": token, "w": worker,
        "s": began_ms, "f": ended_ms,
    }  # fmt: skip
    return json.dumps(line).encode()


def brief(exc: BaseException) -> str:
    """Return type, message and place on one line, for a log. Never raises."""
    try:
        return one_line(f"{headline(exc)}{_place(exc)}")
    except BaseException:  # noqa: BLE001 - as above
        return type(exc).__qualname__


def headline(exc: BaseException) -> str:
    """Return ``module.Type: message``, the message cut."""
    kind = type(exc)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    message = _message(exc)
    return f"{name}: {message}" if message else name


def one_line(text: str, limit: int = _LINE_CHARS) -> str:
    r"""Return ``text`` cut, with everything unprintable escaped: no log line can be forged.

    >>> print(one_line("first" + chr(10) + "INFO forged"))
    first\nINFO forged
    """
    if len(text) > limit:
        text = f"{text[:limit]}…"
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _message(exc: BaseException) -> str:
    try:
        text = str(exc)
    except BaseException as broken:  # noqa: BLE001 - also a str() that calls sys.exit()
        return f"(no message: its str() raised {type(broken).__qualname__})"
    if len(text) > _MESSAGE_CHARS:
        return f"{text[:_MESSAGE_CHARS]}… ({len(text):,} characters)"
    return text


def _frames(exc: BaseException) -> list[str]:
    frames = traceback.extract_tb(_of_the_job(exc), limit=-_FRAMES)
    lines = ["Traceback (innermost call last):"] if frames else []
    for frame in frames:
        lines.append(f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}')
        if frame.line:
            lines.append(f"    {frame.line[:_SOURCE_CHARS]}")
    return lines


def _of_the_job(exc: BaseException) -> TracebackType | None:
    """Return the traceback from the first frame on that is not ours; all of it if there is none.

    The worker's own way to a job is the same each time and says nothing about what went wrong.
    """
    own = exc.__traceback__
    while own is not None and _package(own) == _OURS:
        own = own.tb_next
    return own or exc.__traceback__


def _package(part: TracebackType) -> str:
    return str(part.tb_frame.f_globals.get("__name__")).partition(".")[0]


def _related(exc: BaseException) -> list[str]:
    lines = []
    if isinstance(exc, BaseExceptionGroup):
        lines += [f"- {headline(member)}" for member in exc.exceptions[:_RELATED]]
    cause = _cause(exc)
    for _ in range(_RELATED):
        if cause is None:
            break
        lines.append(f"caused by {headline(cause)}{_place(cause)}")
        cause = _cause(cause)
    return lines


def _cause(exc: BaseException) -> BaseException | None:
    if exc.__cause__ is not None or exc.__suppress_context__:
        return exc.__cause__
    return exc.__context__


def _place(exc: BaseException) -> str:
    frames = traceback.extract_tb(exc.__traceback__, limit=-1)
    if not frames:
        return ""
    return f" (at {frames[0].filename}:{frames[0].lineno} in {frames[0].name})"
