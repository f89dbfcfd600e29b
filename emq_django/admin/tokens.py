"""Ids as a URL or a form carries them. Foreign speakers make up ids of any bytes.

The question before a copy carries the ids of the copies: sent twice, it makes the same jobs, which
the server knows. What else would be done a second time by a form that is sent twice carries a token
of one use, which the server marks as used.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Sequence
from typing import Final

from django.core import signing

from emq_django.protocol.ids import is_branded, mint
from emq_django.protocol.keyspace import id_bytes, id_text

ANSWER_S: Final = 24 * 3_600  # how long an answer to a question is taken
_LONGEST_CURSOR_BYTES = 512
_SALT: Final = "emq_django.admin.copies"
_ONCE_SALT: Final = "emq_django.admin.once"


def cursor_token(job_id: str) -> str | None:
    """Return an id as a URL carries it; None for a foreign member that is too long to carry."""
    if is_branded(job_id):
        return job_id
    raw = id_bytes(job_id)
    if len(raw) > _LONGEST_CURSOR_BYTES:
        return None
    return "~" + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def cursor_from(token: str) -> str | None:
    """Return the id of a cursor, or None when the token is none of ours."""
    if is_branded(token):
        return token
    if not token.startswith("~") or not token.isascii() or len(token) > 2 * _LONGEST_CURSOR_BYTES:
        return None
    try:
        raw = base64.b64decode(token[1:] + "=" * (-(len(token) - 1) % 4), b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return id_text(raw) or None


def copies_token(values: Sequence[str]) -> str:
    """Return new ids for the copies of what was selected, as a form carries them."""
    ids = mint.many(len(values))
    return signing.dumps(dict(zip(values, ids, strict=True)), salt=_SALT, compress=True)


def copies_from(token: str) -> dict[str, str]:
    """Return the new id of each selected value; none for a token that is old or none of ours."""
    try:
        found: dict[str, str] = signing.loads(token, salt=_SALT, max_age=ANSWER_S)
    except signing.BadSignature:
        return {}
    return found


def once_token() -> str:
    """Return what a form carries that is good for one send."""
    return signing.dumps(secrets.token_urlsafe(12), salt=_ONCE_SALT)


def once_from(token: str) -> str:
    """Return which send a token is good for; nothing for one that is old or none of ours."""
    try:
        found: str = signing.loads(token, salt=_ONCE_SALT, max_age=ANSWER_S)
    except signing.BadSignature:
        return ""
    return found
