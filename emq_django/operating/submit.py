"""Enqueue from a shell: the payload, the time and the number of jobs as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from emq_django import api
from emq_django.errors import InvalidDuration, InvalidInput, InvalidPayload
from emq_django.protocol.records import Receipt

_DURATION: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|min|h|d)?")
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_CHUNK: Final = 1_000


def payload_of(text: str | None, path: str | None, stdin: Any, *, limit: int) -> bytes:
    """Return the payload: the argument, a file, or standard input. Raises InvalidPayload."""
    if text is not None and path is not None:
        raise InvalidPayload("the payload is given twice: as an argument and by --file")
    if text is not None and text != "-":
        return text.encode("utf-8", "surrogateescape")
    if path is not None and path != "-":
        try:
            with open(path, "rb") as source:  # noqa: PTH123 - also /dev/fd/3
                return source.read(limit + 1)
        except OSError as exc:
            raise InvalidPayload(f"{path!r} can't be read: {exc.strerror}") from exc
    if text is None and path is None and stdin.isatty():
        raise InvalidPayload("there is no payload: give it as an argument, by --file or by a pipe")
    read: bytes = stdin.buffer.read(limit + 1)
    return read


def delay_ms(text: str) -> int:
    """Return a delay in ms: a number of seconds, or with ms, s, m, h or d. Raises InvalidDuration.

    >>> delay_ms("90"), delay_ms("1.5h"), delay_ms("20ms")
    (90000, 5400000, 20)
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise InvalidDuration(f"--in {text!r}: give seconds, or a number with ms, s, m, h or d")
    return round(float(match[1]) * _UNIT_MS[match[2] or "s"])


def time_of(text: str) -> datetime:
    """Return an aware time. Raises InvalidDuration."""
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError as exc:
        raise InvalidDuration(
            f"--at {text!r}: give an ISO 8601 time, such as 2030-12-31T08:00:00+01:00"
        ) from exc
    if when.utcoffset() is None:
        raise InvalidDuration(
            f"--at {text!r} is naive: say its zone, such as {when.isoformat()}Z or"
            f" {when.isoformat()}+01:00"
        )
    return when


def submit(
    queue: str,
    payload: bytes,
    *,
    count: int = 1,
    job_id: str | None = None,
    lane: str | None = None,
    at: str | None = None,
    delay: str | None = None,
) -> Iterator[Receipt]:
    """Enqueue ``count`` jobs with this payload and yield a receipt for each."""
    if count < 1:
        raise InvalidInput(f"--count {count}: give 1 or more")
    if job_id is not None and count > 1:
        raise InvalidInput("--id names one job, --count asks for several: give one of them")
    if at is not None and delay is not None:
        raise InvalidInput("--at and --in both say when: give one of them")
    if at is not None:
        when = time_of(at)
        for _ in range(count):
            yield api.enqueue_at(queue, payload, when, job_id=job_id, lane=lane)
    elif delay is not None:
        for _ in range(count):
            yield api.enqueue_in(queue, payload, delay_ms(delay), job_id=job_id, lane=lane)
    elif count == 1:
        yield api.enqueue(queue, payload, job_id=job_id, lane=lane)
    else:
        for start in range(0, count, _CHUNK):
            size = min(_CHUNK, count - start)
            yield from api.enqueue_many(queue, [payload] * size, lane=lane)
