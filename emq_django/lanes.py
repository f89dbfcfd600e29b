"""Names for lanes: a branded id from a model's primary key, and back.

A lane is a queue within a queue, served in turn with the others: one per tenant, user or project
keeps one flood from delaying everybody else. On the wire it is a branded id of any namespace.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from emq_django.errors import InvalidLane
from emq_django.protocol import ids

if TYPE_CHECKING:
    from django.db.models import Model

_VOWELS = frozenset("AEIOU")


def lane_for(instance: Model, namespace: str | None = None) -> str:
    """Return the lane of a model instance: the same for the same primary key, everywhere.

    A whole-number key can be read back with ``key_of_lane``. Any other kind (a UUID, text) is
    hashed to 63 bits and can't. ``namespace`` is three capitals; without it they are made from the
    model's name: first letter, then consonants (``User`` gives ``USR``).

    Raises:
        InvalidLane: the instance has no primary key yet, or the namespace is not three capitals.
    """
    options = getattr(instance, "_meta", None)
    key = getattr(instance, "pk", None)
    if key is None or (isinstance(key, tuple) and None in key):
        what = "has no primary key" if options is None else "has no primary key yet"
        raise InvalidLane(f"{instance!r} {what}: give a saved instance of a model")
    if options is None or isinstance(instance, type):
        raise InvalidLane(f"{instance!r} is no model instance: give one")
    if isinstance(key, int) and 0 <= key <= ids.MAX_VALUE:
        number = key
    else:
        digest = hashlib.sha256(str(key).encode()).digest()
        number = int.from_bytes(digest[:8], "big") >> 1
    # A proxy model is another name for the same rows, so it names the same lanes.
    prefix = namespace_of(options.concrete_model.__name__) if namespace is None else namespace
    return ids.valid_lane(f"{prefix}{ids.encode(number)}")


def key_of_lane(lane: str) -> int:
    """Return the whole-number key inside a lane made by ``lane_for``. Raises InvalidLane."""
    return ids.decode(ids.valid_lane(lane))


def namespace_of(model_name: str) -> str:
    """Return three capitals for a model's name: first letter, consonants, then what is left."""
    letters = [char for char in model_name.upper() if "A" <= char <= "Z"]
    rest = letters[1:]
    ranked = [char for char in rest if char not in _VOWELS] + [c for c in rest if c in _VOWELS]
    return "".join((letters[:1] + ranked)[:3]).ljust(3, "X")
