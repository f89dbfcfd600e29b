"""What of a payload, an error or another field may be read: the masking default and the hook.

``EMQ["ADMIN"]["REDACT"]`` names a function that takes the default's place; ``mask_secrets`` is
there for it to use. Making text safe to look at is the next step and lives in ``render``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from django.http import HttpRequest

MASK = "********"

# (request, queue, job id, field of the row, value) -> text, something JSON can say, or None, which
# hides the value.
Redactor = Callable[[HttpRequest, str, str, str, bytes], Any]

_SECRET = re.compile(
    r"passw|passphrase|pwd|secret|token|credential|cookie|cvv|cvc"
    r"|key(?!word|board)"
    r"|auth(?!or(?!i[sz]))"  # authorization is one, author and authority are not
    r"|card(?!inal)",
    re.IGNORECASE,
)
# Possessive throughout: a payload can't make the scan run longer than its length.
_PART = re.compile(
    r'(?P<string>"(?:[^"\\]++|\\.)*+"?)'
    r"|(?P<open>[\[{])|(?P<close>[\]}])|(?P<colon>:)|(?P<comma>,)"
    r'|(?P<blank>\s++)|(?P<other>[^"\[\]{}:,\s]++)',
    re.DOTALL,
)
_NAMED = re.compile(r"""(?<![\w.\-])(?P<name>[\w.\-]++)(?P<mark>\\*+["']?+\s*+(?:=>?|:)\s*+)""")
_LOOSE_VALUE = re.compile(
    r"""(?P<escape>\\*+)"(?:[^"\\]++|(?!(?P=escape)")\\++"?+)*+(?P=escape)"?+"""
    r"""|'(?:[^'\\]++|\\.)*+'?+"""
    r"|[^,;&}\])\n\[{(\"']*+",
    re.DOTALL,
)
_BRACKET = re.compile(r"[\[\]{}()]")
# "KeyError: 'name'" names a failure, not a secret.
_FAILURE = re.compile(
    r"(error|exception|warning|failed|failure|denied|expired|invalid|missing)s?$", re.IGNORECASE
)

Part = tuple[str, str]  # kind, text


def redact_by_default(
    request: HttpRequest, queue: str, job_id: str, field: str, value: bytes
) -> str | bytes:
    """Return text with its secrets masked; bytes that are not text come back as they are."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return value
    return mask_secrets(text)


def mask_secrets(text: str) -> str:
    """Return ``text`` with the values of names that look like secrets replaced, at any depth.

    JSON is masked by its structure, JSON inside a string too, and numbers keep all their digits.
    Other text is searched for ``name: value`` and ``name=value``.
    """
    if not _SECRET.search(text) and "\\u" not in text:
        return text
    try:
        _parse(text)
    except ValueError:
        return _mask_loosely(text)
    except RecursionError:
        return _mask_loosely(_mask_json(text))
    return _mask_json(text)


def indent(text: str) -> str:
    """Return JSON laid out over several lines; text that is not JSON comes back as it was."""
    try:
        _parse(text)
    except (ValueError, RecursionError):
        return text
    out: list[str] = []
    depth, previous = 0, ""
    for kind, part in _parts(text):
        if kind == "blank":
            continue
        depth -= kind == "close"
        empty = previous == "open" and kind == "close"
        if previous in {"open", "comma"} or kind == "close":
            out.append("" if empty else "\n" + "  " * depth)
        out.append(": " if kind == "colon" else part)
        depth += kind == "open"
        previous = kind
    return "".join(out).strip("\n")


def _parse(text: str) -> None:
    # Numbers stay text: int() refuses more than 4,300 digits, which is no fault of the JSON.
    json.loads(text, parse_int=str, parse_float=str)


def _parts(text: str) -> Iterator[Part]:
    for match in _PART.finditer(text):
        yield match.lastgroup or "", match[0]


def _mask_json(text: str) -> str:
    return "".join(part for _, part in _masked(_parts(text)))


def _masked(parts: Iterator[Part]) -> Iterator[Part]:
    name = ""  # the string that came last, a key if a colon follows
    for kind, part in parts:
        if kind == "string":
            if name:
                yield kind, name
            name = part
            continue
        if name and kind == "blank":
            continue
        if name:
            yield kind, name if kind == "colon" else _inside(name)
        yield kind, part
        if kind == "colon" and name and _is_secret(name):
            yield from _instead_of_value(parts)
        name = ""
    if name:
        yield "string", _inside(name)


def _instead_of_value(parts: Iterator[Part]) -> Iterator[Part]:
    depth = 0
    yield "string", f' "{MASK}"'
    for kind, part in parts:
        if not depth and kind in {"comma", "close"}:
            yield kind, part
            return
        depth += (kind == "open") - (kind == "close")


def _inside(quoted: str) -> str:
    """Mask within a string: it may hold JSON or a URL of its own."""
    if not _SECRET.search(quoted):
        return quoted
    try:
        text = json.loads(quoted)
    except ValueError:
        return _mask_loosely(quoted)
    masked = mask_secrets(text)
    return quoted if masked == text else json.dumps(masked, ensure_ascii=False)


def _is_secret(quoted: str) -> bool:
    if "\\" not in quoted:
        return _SECRET.search(quoted) is not None
    try:
        return _SECRET.search(json.loads(quoted)) is not None
    except ValueError:
        return True  # a key that can't be read is not a key to trust


def _mask_loosely(text: str) -> str:
    out: list[str] = []
    done = 0
    for match in _NAMED.finditer(text):
        name = match["name"]
        if match.start() < done or not _SECRET.search(name) or _FAILURE.search(name):
            continue
        out += (text[done : match.end()], MASK)
        done = _end_of_value(text, match.end())
    return "".join((*out, text[done:]))


def _end_of_value(text: str, start: int) -> int:
    if text[start : start + 1] not in {"[", "{", "("}:
        match = _LOOSE_VALUE.match(text, start)
        return match.end() if match else start
    depth = 0
    for match in _BRACKET.finditer(text, start):
        depth += 1 if match[0] in "[{(" else -1
        if not depth:
            return match.end()
    return len(text)
