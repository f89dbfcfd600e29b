"""Data to text that is safe to look at: length gate, redaction, then escapes. Never markup.

What comes out is plain text for the templates, which escape it. Nothing here is marked safe, no
payload is unpickled or imported from, and no link is made from its text.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from emq_django.admin.asking import Ask
from emq_django.admin.redact import Redactor, indent, redact_by_default
from emq_django.conf import conf
from emq_django.protocol.keyspace import id_bytes
from emq_django.protocol.records import Blob, Entry

logger = logging.getLogger("emq_django.admin")

ERROR_CHARS: Final = 160
_DECODER = json.JSONDecoder()
_HEX_BYTES = 4_096  # of binary data; each byte takes five characters on the page
_HEX_LINE = 16
_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class Shown:
    """A value as a page shows it: its text, and a remark in words where the text is not all."""

    text: str = ""
    remark: str = ""
    in_columns: bool = False  # lines must not be wrapped


@dataclass(frozen=True, slots=True)
class Line:
    """What a list shows of a job's contents."""

    payload: Shown
    error: Shown
    task: str


class Contents:
    """Turns the values of one request into text; made once per page.

    ``allowed`` is whether the user may see contents at all.
    """

    def __init__(self, request: HttpRequest, queue: str, *, allowed: bool) -> None:
        self.allowed = allowed
        self._request = request
        self._queue = conf().base_of(queue)  # what a hook of the project knows it by
        self._hook = _redactor() if allowed else None

    def line(self, entry: Entry, most_chars: int) -> Line:
        """Return what a list shows of a job's contents."""
        payload = self._shown(entry.id, "payload", entry.payload, one_line=True)
        error = self._shown(entry.id, "last_error", entry.last_error, one_line=True)
        first = error.text.strip().splitlines()
        task = task_of(payload.text) or (entry.task or "" if self.allowed else "")
        return Line(
            payload=Shown(one_line(_arguments(payload.text), most_chars), payload.remark),
            error=Shown(one_line(first[0] if first else "", ERROR_CHARS), error.remark),
            task=one_line(task, 128),
        )

    def shows(self, entry: Entry, ask: Ask) -> bool:
        """Tell whether what a search found is in the text that the reader may see.

        Without this, searching would tell what a masked value is, character by character.
        """
        if not ask.text and not ask.task:
            return True
        payload = self._shown(entry.id, "payload", entry.payload, one_line=True).text
        error = self._shown(entry.id, "last_error", entry.last_error, one_line=True).text
        if ask.task and ask.task not in (task_of(payload), entry.task):
            return False
        needles = [needle.decode() for needle in ask.sieve.texts]
        return not needles or any(needle in payload or needle in error for needle in needles)

    def line_of(self, job_id: str, field: str, blob: Blob) -> str:
        """Return the text of one value, not cut."""
        return self._shown(job_id, field, blob, one_line=True).text

    def whole(self, job_id: str, field: str, blob: Blob) -> Shown:
        """Return a value for the job's own page, JSON laid out over lines."""
        return self._shown(job_id, field, blob, one_line=False)

    def _shown(self, job_id: str, field: str, blob: Blob, *, one_line: bool) -> Shown:
        if not self.allowed:
            return Shown(remark=_("hidden"))
        if blob.value is None:
            return Shown(remark=_("too large to show") if blob.size else "")
        if self._hook is None:
            return Shown(remark=_("hidden: the redaction hook can't be loaded"))
        try:
            value = self._hook(self._request, self._queue, job_id, field, blob.value)
            return _as_text(value, one_line=one_line)
        except Exception:  # the boundary to code of the project: a fault must hide, not show
            logger.exception("the redaction hook failed", extra={"queue": self._queue})
            return Shown(remark=_("hidden: the redaction hook failed"))


def _arguments(text: str) -> str:
    """Return what a list shows of a payload: of a task's the part behind its name."""
    start = text.find(',"args":', 0, 400) if text.startswith('{"v":') else -1
    return text[start + 1 :] if start > 0 else text


def task_of(text: str) -> str:
    """Return the name of the task that a payload of ours is for, else nothing."""
    if not text.startswith('{"v":'):
        return ""
    try:
        envelope, _end = _DECODER.raw_decode(text)  # a signature may follow
    except (ValueError, RecursionError):
        return ""
    task = envelope.get("task")
    return task if isinstance(task, str) else ""


def _redactor() -> Redactor | None:
    path = conf().admin.redact
    if not path:
        return redact_by_default
    try:
        hook: Redactor = import_string(path)
    except ImportError:
        logger.exception("EMQ['ADMIN']['REDACT'] can't be imported")
        return None
    return hook


def _as_text(value: Any, *, one_line: bool) -> Shown:
    if value is None:
        return Shown(remark=_("hidden"))
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return _as_hex(value, one_line=one_line)
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, default=str)
    return Shown(value if one_line else visible(indent(value)))


def _as_hex(value: bytes, *, one_line: bool) -> Shown:
    if one_line:
        return Shown(value[:256].hex(" "), _("binary"))
    lines = []
    for start in range(0, min(len(value), _HEX_BYTES), _HEX_LINE):
        part = value[start : start + _HEX_LINE]
        printable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<47}  {printable}")
    if len(value) > _HEX_BYTES:
        remark = _("binary, the first %(count)d bytes as hex") % {"count": _HEX_BYTES}
    else:
        remark = _("binary, shown as hex")
    return Shown("\n".join(lines), remark, in_columns=True)


def visible(text: str) -> str:
    """Return text with control, format, bidi, private and unassigned characters as escapes.

    Line breaks, tabs and the blanks of other scripts stay.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or _is_blank(char) else _escape(char) for char in text
    )


def _is_blank(char: str) -> bool:
    # The line and paragraph separators count as blanks, and would break a line unseen.
    return char in "\n\t" or (char >= "\xa0" and char.isspace() and char not in "\u2028\u2029")


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, kept by surrogateescape
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: str, most_chars: int) -> str:
    """Return text on one line, its blanks as single spaces, cut at ``most_chars``."""
    start = text[: most_chars * 4 + 64]  # blanks shrink; the rest can't get on the page
    line = visible(" ".join(start.split()))
    if len(line) > most_chars or len(start) < len(text):
        return line[:most_chars].rstrip() + "…"
    return line


def name(text: str | None) -> str:
    """Return an id, a lane, a state or another short name from the server as safe text."""
    return one_line(text or "", _LONGEST_NAME)


def is_linkable(job_id: str) -> bool:
    """Tell whether an id can stand in a URL behind its queue. Every branded id can."""
    raw = id_bytes(job_id)
    return (
        0 < len(raw) <= _LONGEST_NAME * 2
        and b"/" not in raw
        and raw == job_id.encode("utf-8", "replace")
    )
