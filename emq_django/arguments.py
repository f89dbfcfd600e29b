"""Checks what a caller gave to a verb, before anything is sent.

Every refusal is an ``InvalidInput`` that names the value and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from emq_django.conf import conf, keys
from emq_django.delivery import Admission
from emq_django.errors import (
    InvalidDuration,
    InvalidInput,
    InvalidPayload,
    KindRefused,
    PayloadTooLarge,
)
from emq_django.protocol import ids
from emq_django.protocol.enqueue import is_job_id, unique_bytes
from emq_django.protocol.keyspace import valid_new_queue
from emq_django.protocol.numbers import valid_ms
from emq_django.protocol.records import ClaimedJob

_UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)

Item = bytes | tuple[str, bytes]
"""One job of a bulk: a payload, or (job id, payload)."""


def admission(
    queue: str,
    payload: bytes,
    job_id: str | bytes | None,
    lane: str | bytes | None,
    mode: str = "now",
    number: int = 0,
) -> Admission:
    """Return one checked job. ``mode`` and ``number`` as in ``protocol.enqueue.readmit``."""
    named = keys(queue)
    if named.new_name_error:
        valid_new_queue(named)
    if type(payload) is not bytes or len(payload) > conf().max_payload_bytes:
        payload = payload_bytes(payload)
    return Admission(
        named,
        payload,
        None if job_id is None else ids.valid_job_id(job_id),
        None if lane is None else ids.valid_lane(lane),
        mode,
        number,
    )


def admissions(queue: str, items: Iterable[Item], lane: str | None) -> list[Admission]:
    """Return the checked jobs of a bulk: nothing is sent when one of them is refused."""
    if isinstance(items, str | bytes | bytearray | memoryview) or not isinstance(items, Iterable):
        raise InvalidPayload(
            f"items is one {type(items).__name__}: give a list of payloads, or of (id, payload)"
        )
    named = valid_new_queue(keys(queue))
    checked_lane = None if lane is None else ids.valid_lane(lane)
    jobs = []
    for place, item in enumerate(items):
        try:
            job_id, payload = _pair(item)
            jobs.append(Admission(named, payload_bytes(payload), job_id, checked_lane))
        except (InvalidInput, KindRefused) as exc:
            raise type(exc)(f"items[{place}]: {exc}") from None
    return jobs


def _pair(item: object) -> tuple[str | None, object]:
    if not isinstance(item, tuple):
        return None, item
    if len(item) != 2:
        raise InvalidPayload(f"a tuple of {len(item)}: give (job id, payload)")
    job_id, payload = item
    if job_id is None:
        return None, payload
    job_id = ids.valid_job_id(job_id)
    if not is_job_id(job_id):
        # The server would refuse it, but only after other items of the bulk were sent.
        raise KindRefused(f"EMQKIND {job_id!r} is not JOB-namespaced; nothing was sent")
    return job_id, payload


def payload_bytes(payload: object) -> bytes:
    """Return a payload as bytes. Raises InvalidPayload."""
    if isinstance(payload, bytearray | memoryview):
        payload = bytes(payload)
    if not isinstance(payload, bytes):
        if isinstance(payload, str):
            raise InvalidPayload("the payload is text: encode it, for example text.encode()")
        raise InvalidPayload(
            f"the payload is {type(payload).__name__}, not bytes: serialise it first, for example"
            " json.dumps(value).encode()"
        )
    limit = conf().max_payload_bytes
    if len(payload) > limit:
        raise PayloadTooLarge(
            f"the payload has {len(payload):,} bytes and EMQ['MAX_PAYLOAD_BYTES'] allows {limit:,}:"
            " store the data elsewhere and enqueue a reference to it, or raise the limit"
        )
    return payload


def unique_key(key: object) -> str:
    """Return a unique key, empty for none. Raises InvalidInput."""
    if key is None:
        return ""
    if not isinstance(key, str) or not key:
        raise InvalidInput(f"unique={key!r}: give text, or leave it out")
    unique_bytes(key)
    return key


def delay_in_ms(delay: object) -> int:
    """Return a delay (whole ms, or a timedelta) in ms. Raises InvalidDuration."""
    if isinstance(delay, timedelta):
        return valid_ms(delay // _MS, "delay")
    return valid_ms(delay, "delay")


def due_in_ms(when: object) -> int:
    """Return a time (Unix ms, or an aware datetime) in Unix ms. Raises InvalidDuration."""
    if isinstance(when, datetime):
        if when.utcoffset() is None:
            raise InvalidDuration(
                f"when={when!r} is naive: give an aware datetime, for example"
                " timezone.make_aware(when)"
            )
        return valid_ms((when - _UNIX_EPOCH) // _MS, f"when={when} as Unix ms")
    if not isinstance(when, int):
        raise InvalidDuration(f"when={when!r}: give an aware datetime or a whole number of Unix ms")
    return valid_ms(when, "when")


def job_under_lease(job: object) -> ClaimedJob:
    """Return a job that was claimed. Raises InvalidInput."""
    if isinstance(job, ClaimedJob):
        return job
    hint = " (claim returns None when there is no job)" if job is None else ""
    raise InvalidInput(f"job={job!r}: give what claim returned{hint}")


def error_text(error: object) -> str:
    """Return the text that a failed job keeps. Raises InvalidInput unless it is text."""
    if isinstance(error, str):
        return error
    raise InvalidInput(f"error={error!r}: give text, for example str(exc) or a traceback")
