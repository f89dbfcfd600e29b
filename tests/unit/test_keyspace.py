"""Queue names, keys and slots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emq_django.errors import InvalidQueueName
from emq_django.protocol.keyspace import (
    QUEUES_KEY,
    VERSION_KEY,
    id_bytes,
    id_text,
    queue,
    slot,
    valid_new_queue,
)

SLOTS = {
    "q": 11958, "orders": 105, "emails": 3728, "default": 5718, "q1": 7450, "123456789": 12739,
    "a b": 9817, "x:y": 13385, "очередь": 8784,
}  # fmt: skip


@pytest.mark.parametrize(("name", "number"), SLOTS.items())
def test_all_keys_of_a_queue_share_the_slot_of_its_name(name: str, number: int) -> None:
    q = queue(name)
    keys = [q.base, q.pending, q.active, q.schedule, q.dead, q.ring, q.meta]
    keys += [q.row("JOB0KHTOWnGLuC"), q.lane("USR0KHTOWnGLuC")]

    assert {slot(key) for key in keys} == {number}


@pytest.mark.parametrize(
    ("key", "number"),
    [
        (VERSION_KEY, 9051),
        (QUEUES_KEY, 9051),
        (b"emq:{emq}:pending", 9051),
        (b"emq:{}:pending", 7387),  # an empty tag: the whole key counts
        (b"123456789", 12739),
        (b"emq:{a{b}:x", slot(b"a{b")),
        (b"emq:{a}b}:x", slot(b"a")),
        (b"{open", slot(b"{open")),
    ],
)
def test_the_slot_of_a_key(key: bytes, number: int) -> None:
    assert slot(key) == number


def test_the_keys_of_a_queue() -> None:
    q = queue("emails", "t-")

    assert (q.name, q.wire_name, q.base) == ("emails", "t-emails", b"emq:{t-emails}:")
    assert q.pending == b"emq:{t-emails}:pending"
    assert q.active == b"emq:{t-emails}:active"
    assert q.schedule == b"emq:{t-emails}:schedule"
    assert q.dead == b"emq:{t-emails}:dead"
    assert q.ring == b"emq:{t-emails}:ring"
    assert q.meta == b"emq:{t-emails}:meta"
    assert q.row("JOB0KHTOWnGLuC") == b"emq:{t-emails}:job:JOB0KHTOWnGLuC"
    assert q.lane("USR0KHTOWnGLuC") == b"emq:{t-emails}:g:USR0KHTOWnGLuC:pending"
    assert repr(q) == "<Queue 't-emails'>"


@pytest.mark.parametrize("name", ["", "a{b", "a}b", "a\0b", "{", "\ud800", None, 1, b"q", 1.5])
def test_a_name_that_cannot_stand_between_braces_is_refused(name: str) -> None:
    with pytest.raises(InvalidQueueName, match="is not a queue name") as caught:
        queue(name)

    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("prefix", ["{", "t}", "\0"])
def test_a_prefix_is_held_to_the_same_rule(prefix: str) -> None:
    with pytest.raises(InvalidQueueName):
        queue("q", prefix)


@pytest.mark.parametrize(
    "name",
    [
        "emq",
        "x" * 129,
        "ü" * 65,
        " ",
        " a",
        "a ",
        "a\n",
        "a\tb",
        "\x7f",
        "a\u200bb",
        "\u202ea",
        "a\xa0b",
    ],
)
def test_a_new_queue_has_a_stricter_rule_than_an_old_one(name: str) -> None:
    q = queue(name)

    with pytest.raises(InvalidQueueName, match="can't be a new queue"):
        valid_new_queue(q)


@pytest.mark.parametrize("name", ["x" * 128, "emq2", "a b:c/d", "очередь"])
def test_what_a_new_queue_may_be_called(name: str) -> None:
    q = queue(name)

    assert valid_new_queue(q) is q


def test_a_prefix_makes_the_reserved_name_harmless_and_counts_for_the_length() -> None:
    assert valid_new_queue(queue("emq", "t-")).wire_name == "t-emq"
    with pytest.raises(InvalidQueueName, match="129 bytes"):
        valid_new_queue(queue("x" * 127, "t-"))


def test_a_prefix_does_not_hide_white_space_before_the_name() -> None:
    with pytest.raises(InvalidQueueName, match=r"'t- a' can't be a new queue"):
        valid_new_queue(queue(" a", "t-"))


@given(st.binary(max_size=40))
def test_an_id_that_a_foreign_speaker_made_up_keeps_its_bytes(raw: bytes) -> None:
    assert id_bytes(id_text(raw)) == raw
