"""Branded ids: codec, validation and the mint.

An id is 14 bytes: three capitals (the namespace) and eleven base-62 digits of a 63-bit number,
``ms << 22 | node << 12 | sequence`` with ms counted from 2024-01-01 UTC. The alphabet ascends by
byte, so byte order of ids is numeric order, and mint order within a process.

The mint is the one place in this layer with a clock, a lock and randomness. No key is built here.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from random import Random

from emq_django.errors import InvalidJobId, InvalidLane

EPOCH_MS = 1_704_067_200_000  # 2024-01-01T00:00:00Z
MAX_VALUE = 2**63 - 1
JOB = "JOB"

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PAIRS = [high + low for high in _DIGITS for low in _DIGITS]  # two digits per division
_VALUE_OF = {text: value for texts in (_DIGITS, _PAIRS) for value, text in enumerate(texts)}
_LARGEST = "AzL8n0Y58m7"  # encode(MAX_VALUE): one comparison is the range check
_SHAPE = re.compile(r"[A-Z]{3}[0-9A-Za-z]{11}", re.ASCII)

_NODE_BITS, _SEQUENCE_BITS = 10, 12
# A new millisecond starts at a random sequence below this, so that two processes that drew the
# same node rarely meet; the other half of the range is left for ids minted in the same ms.
_START_BITS = 11


def encode(value: int) -> str:
    """Return the eleven digits of ``value`` (0 to 2**63 - 1)."""
    if not 0 <= value <= MAX_VALUE:
        raise InvalidJobId(f"{value!r} is outside the range of an id, 0 to 2**63 - 1")
    return _encode(value)


def _encode(value: int) -> str:
    value, e = divmod(value, 3844)
    value, d = divmod(value, 3844)
    value, c = divmod(value, 3844)
    value, b = divmod(value, 3844)
    value, a = divmod(value, 3844)
    pairs = _PAIRS
    return _DIGITS[value] + pairs[a] + pairs[b] + pairs[c] + pairs[d] + pairs[e]


def decode(branded: str) -> int:
    """Return the number inside a branded id. Raises InvalidJobId when it is not one."""
    return _decode(valid_job_id(branded))


def _decode(branded: str) -> int:
    value = _VALUE_OF[branded[3]]
    for at in (4, 6, 8, 10, 12):
        value = value * 3844 + _VALUE_OF[branded[at : at + 2]]
    return value


def is_branded(text: str) -> bool:
    """Tell whether ``text`` is a branded id of any namespace."""
    return _SHAPE.fullmatch(text) is not None and text[3:] <= _LARGEST


def valid_job_id(job_id: str | bytes) -> str:
    """Return ``job_id`` as text. Raises InvalidJobId unless it is a branded id.

    The namespace is not looked at: the kind gate is the server's (``KindRefused``).
    """
    text = _text(job_id)
    if text is None or not is_branded(text):
        raise InvalidJobId(
            f"{job_id!r} is not a job id: 14 characters, three capitals and eleven base-62 digits,"
            f" at most {JOB}{_LARGEST}. Leave job_id out to have one minted."
        )
    return text


def valid_lane(lane: str | bytes) -> str:
    """Return ``lane`` as text. Raises InvalidLane unless it is a branded id of any namespace."""
    text = _text(lane)
    if text is None or not is_branded(text):
        raise InvalidLane(
            f"{lane!r} is not a lane: lanes are named by branded ids, three capitals and eleven"
            " base-62 digits, such as lane_for(user) makes from a primary key."
        )
    return text


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str) else None


def minted_ms(branded: str) -> int:
    """Return the mint time of an id in Unix ms, by the clock of its producer."""
    return _ms(decode(branded))


@lru_cache(maxsize=1_024)
def minted_or_none(text: str) -> int | None:
    """Return the mint time of an id in Unix ms, None for one that another speaker made up.

    A worker asks twice about each job that it runs, within a moment.
    """
    return _ms(_decode(text)) if is_branded(text) else None


def _ms(value: int) -> int:
    return (value >> (_NODE_BITS + _SEQUENCE_BITS)) + EPOCH_MS


def first_id_at(unix_ms: int, namespace: str = JOB) -> str:
    """Return the smallest id of a millisecond: the bound of a mint-time range."""
    ms = min(max(unix_ms - EPOCH_MS, 0), MAX_VALUE >> (_NODE_BITS + _SEQUENCE_BITS))
    return namespace + _encode(ms << (_NODE_BITS + _SEQUENCE_BITS))


class Mint:
    """Mints rising ids for one process. Thread-safe; starts anew in a forked child.

    ``_last`` is ``ms << 12 | sequence``. The next one is the larger of the current ms and
    ``_last + 1``: more ids than a ms holds borrow from the next, and a clock that steps back keeps
    counting up. ``clock`` returns Unix ns; it and ``random_bits`` are arguments for tests.
    """

    def __init__(
        self,
        *,
        node: int | None = None,
        clock: Callable[[], int] = time.time_ns,
        random_bits: Callable[[int], int] | None = None,
    ) -> None:
        self._given_node = node
        self._given_bits = random_bits
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Draw a new node and forget the sequence, as a forked child must."""
        # An instance of its own: application code that seeds the global one must not make every
        # process mint the same ids.
        self._bits = self._given_bits or Random(os.urandom(16)).getrandbits  # noqa: S311
        node = self._bits(_NODE_BITS) if self._given_node is None else self._given_node
        self._node = node << _SEQUENCE_BITS
        self._last = 0
        self._lock = threading.Lock()

    def one(self, namespace: str = JOB) -> str:
        """Return one new id, larger than every id this process minted before."""
        with self._lock:
            value = self._value(self._next())
        return namespace + _encode(value)

    def many(self, count: int, namespace: str = JOB) -> list[str]:
        """Return ``count`` new ids in ascending order."""
        with self._lock:
            first = self._next()
            self._last = first + max(count - 1, 0)
            values = [self._value(last) for last in range(first, first + count)]
        return [namespace + _encode(value) for value in values]

    def move(self) -> None:
        """Go on as another node, from the next ms: an id of this one met another job's row.

        Whoever drew the same node may be in the middle of a run of ids, a bulk's say, and the
        next ones would meet it one after the other.
        """
        with self._lock:
            self._node = self._bits(_NODE_BITS) << _SEQUENCE_BITS
            next_ms = (self._last >> _SEQUENCE_BITS) + 1
            self._last = next_ms << _SEQUENCE_BITS | self._bits(_START_BITS)

    def _next(self) -> int:
        now = (self._clock() // 1_000_000 - EPOCH_MS) << _SEQUENCE_BITS
        last = now | self._bits(_START_BITS) if now > self._last else self._last + 1
        self._last = last
        return last

    def _value(self, last: int) -> int:
        return last >> _SEQUENCE_BITS << 22 | self._node | last & 0xFFF


mint = Mint()
os.register_at_fork(after_in_child=mint.reset)
