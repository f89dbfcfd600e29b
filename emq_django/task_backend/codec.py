"""The payload of a task's job: one JSON envelope, versioned, signed where the settings ask for it.

Pure: no settings, no registry, no server. A task is named by its import path; what that path may
stand for is decided in ``registry``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from django.core.signing import BadSignature, Signer

from emq_django.errors import InvalidArguments
from emq_django.task_backend.compat import normalize_json
from emq_django.task_backend.failures import PayloadRefused

VERSION: Final = 1

_PLAIN: Final = frozenset({str, int, bool, type(None)})  # come back from JSON as they went in
_PATH: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")


class Envelope(NamedTuple):
    """What a payload says. Times are Unix ms by the producer's clock."""

    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    priority: int = 0
    run_after_ms: int | None = None
    expires_ms: int | None = None
    trace: dict[str, str] | None = None  # W3C trace context: traceparent, tracestate


def normal(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments as the worker will see them.

    Raises:
        InvalidArguments: JSON has no such value (NaN, half a surrogate pair, two keys that become
            the same text).
        TypeError, ValueError: what Django raises for types that JSON does not have.
    """
    if all(type(value) in _PLAIN for value in (*args, *kwargs.values())):
        return list(args), dict(kwargs)
    try:
        both = [normalize_json(args), normalize_json(kwargs)]
    except RecursionError as exc:
        raise InvalidArguments(
            "the arguments are nested too deeply, or contain themselves"
        ) from exc
    except TypeError as exc:
        raise TypeError(
            f"{exc}. JSON has no such thing, so {_culprit(args, kwargs)} can't be sent: pass what"
            " the task can read or look up, such as a primary key or text."
        ) from exc
    text = json_text(both)
    normal_args, normal_kwargs = json.loads(text, object_pairs_hook=_without_clash)
    return normal_args, normal_kwargs


def _culprit(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return which argument Django can't turn into JSON."""
    placed = [(f"argument {place}", value) for place, value in enumerate(args, 1)]
    named = [(f"argument {name!r}", value) for name, value in kwargs.items()]
    for which, value in placed + named:
        try:
            normalize_json(value)
        except TypeError:
            return which
    return "an argument"


def json_text(value: Any) -> str:
    """Return a value as compact JSON. Raises InvalidArguments, or TypeError for a strange type."""
    try:
        return _encode(value)
    except RecursionError as exc:
        raise InvalidArguments("a value is nested too deeply for JSON") from exc
    except ValueError as exc:
        raise InvalidArguments(
            f"a value can't be JSON: {exc}. Give None or text in place of NaN and infinity"
        ) from exc


def carried(value: Any) -> tuple[bytes, Any]:
    """Return what a task returned as JSON, and as it comes back from there."""
    if value is None:  # as most do
        return b"null", None
    text = json_text(normalize_json(value)).encode("utf-8", "surrogatepass")
    return text, json.loads(text)


def canonical(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return arguments as text that is the same for the same arguments."""
    return json.dumps(normal(args, kwargs), sort_keys=True, allow_nan=False)


def encode(envelope: Envelope) -> bytes:
    """Return an envelope with ``normal`` arguments as bytes."""
    fields: dict[str, Any] = {
        "v": VERSION,
        "task": envelope.task,
        "args": envelope.args,
        "kwargs": envelope.kwargs,
    }
    if envelope.priority:
        fields["priority"] = envelope.priority
    if envelope.run_after_ms is not None:
        fields["run_after"] = envelope.run_after_ms
    if envelope.expires_ms is not None:
        fields["expires"] = envelope.expires_ms
    if envelope.trace:
        fields["trace"] = envelope.trace
    try:
        return json_text(fields).encode()
    except UnicodeEncodeError as exc:
        raise InvalidArguments(
            "a text holds half of a surrogate pair, which is not valid Unicode and can't be sent"
        ) from exc


def decode(payload: bytes) -> Envelope:
    """Return what an envelope says. Raises PayloadRefused for anything that is none."""
    try:
        fields = _decode(payload.decode())
    except (ValueError, RecursionError) as exc:
        raise PayloadRefused(f"the payload is no task: not JSON ({exc})") from exc
    if not isinstance(fields, dict) or not isinstance(fields.get("task"), str):
        raise PayloadRefused("the payload is no task: JSON, but without the name of a task")
    if fields.get("v") != VERSION:
        raise PayloadRefused(
            f"the payload is version {fields.get('v')!r} of the envelope and this worker reads"
            f" version {VERSION}: it was sent by another release of emq_django"
        )
    envelope = Envelope(
        task=fields["task"],
        args=fields.get("args", []),
        kwargs=fields.get("kwargs", {}),
        priority=fields.get("priority", 0),
        run_after_ms=fields.get("run_after"),
        expires_ms=fields.get("expires"),
        trace=fields.get("trace"),
    )
    _check(envelope)
    return envelope


def sign(payload: bytes, queue: str) -> bytes:
    """Return an envelope with a signature behind it, good for this queue alone."""
    return _signer(queue).sign(payload.decode()).encode()


def verified(payload: bytes, queue: str, *, required: bool) -> bytes:
    """Return the envelope without its signature.

    A signature that is there must be right, also when none is required. Raises PayloadRefused.
    """
    if not payload.startswith(b"{"):
        raise PayloadRefused(
            "the payload is no task: not JSON as a task's enqueue makes it; raw bytes are for a"
            " queue with a HANDLER"
        )
    if payload.endswith(b"}"):
        if required:
            raise PayloadRefused(
                'the payload is not signed, and EMQ["SIGN_PAYLOADS"] runs signed ones only'
            )
        return payload
    try:
        return _signer(queue).unsign(payload.decode()).encode()
    except (BadSignature, ValueError) as exc:
        raise PayloadRefused(
            f"the payload's signature is wrong for queue {queue!r}: it was changed, or signed with"
            " another SECRET_KEY"
        ) from exc


def _signer(queue: str) -> Signer:
    return Signer(salt=f"emq_django.task:{queue}")


def _check(envelope: Envelope) -> None:
    is_well_formed = (
        type(envelope.args) is list
        and type(envelope.kwargs) is dict
        and type(envelope.priority) is int
        and type(envelope.run_after_ms or 0) is int
        and type(envelope.expires_ms or 0) is int
        and type(envelope.trace or {}) is dict
        and _PATH.fullmatch(envelope.task)
    )
    if not is_well_formed:
        raise PayloadRefused("the payload is no task: a field of the envelope is of another type")


def _without_clash(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidArguments(
            f"two keys of a dict both become {twice!r} in JSON: give text keys that differ"
        )
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# Made once: `json.loads` makes a decoder for each call that has a wish.
_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode
_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
).encode
