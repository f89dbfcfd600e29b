"""What a cluster's nodes say about slots, as values."""

from __future__ import annotations

import pytest
from redis.exceptions import AskError, MovedError, ResponseError

from emq_django.wire.topology import (
    ASKING,
    Topology,
    again,
    is_moved,
    is_redirection,
    read_topology,
    target_node,
)

A, B = ("10.0.0.1", 7000), ("10.0.0.2", 7000)
MIDDLE = b"{123456789}"  # slot 12739


def same(node: tuple[str, int]) -> tuple[str, int]:
    return node


@pytest.mark.parametrize(
    ("ranges", "node"),
    [
        ([(0, 12738, A), (12739, 16383, B)], B),
        ([(12739, 16383, B), (0, 12738, A)], B),
        ([(0, 12739, A), (12740, 16383, B)], A),
        ([(0, 12738, A)], None),
        ([(12740, 16383, B)], None),
        ([(0, 100, A), (12740, 16383, B)], None),
        ([], None),
    ],
)
def test_a_slot_belongs_to_the_range_it_lies_in_or_to_nobody(
    ranges: list[tuple[int, int, tuple[str, int]]], node: tuple[str, int] | None
) -> None:
    assert Topology(ranges).node_of(MIDDLE) == node


def test_a_node_with_several_ranges_is_named_once() -> None:
    assert Topology([(0, 1, A), (2, 3, B), (4, 5, A)]).nodes == (A, B)


@pytest.mark.parametrize("name", [b"", None])
def test_a_node_that_does_not_know_its_own_name_is_the_one_that_was_asked(name: object) -> None:
    topology = read_topology([[0, 16383, [name, 7001, b"id"]]], ("asked", 7000), same)

    assert topology.nodes == (("asked", 7001),)


@pytest.mark.parametrize("name", [b"10.0.0.2", "10.0.0.2"], ids=["bytes", "text"])
def test_an_announced_address_is_mapped_to_the_one_that_is_reached(name: object) -> None:
    reply = [[0, 16383, [name, 7000, b"id"], [b"10.0.0.9", 7000, b"a replica"]]]

    topology = read_topology(reply, A, lambda node: ("localhost", node[1] + 1))

    assert topology.nodes == (("localhost", 7001),)


@pytest.mark.parametrize(
    ("reply", "redirection", "moved"),
    [
        (MovedError("1 10.0.0.2:7000"), True, True),
        (AskError("1 10.0.0.2:7000"), True, False),
        (ResponseError("ERR no"), False, False),
        (b"MOVED 1 10.0.0.2:7000", False, False),
    ],
)
def test_only_moved_and_ask_are_redirections(reply: object, redirection: bool, moved: bool) -> None:
    assert (is_redirection(reply), is_moved(reply)) == (redirection, moved)


@pytest.mark.parametrize(
    ("text", "node"), [("1 10.0.0.2:7000", B), ("1 :7001", ("10.0.0.1", 7001))]
)
def test_a_redirection_without_a_host_means_another_port_of_the_same_host(
    text: str, node: tuple[str, int]
) -> None:
    assert target_node(MovedError(text), A, same) == node


def test_another_node_gets_the_loads_again_and_only_the_commands_it_was_sent_for() -> None:
    load, one, two = ("SCRIPT", "LOAD", "x"), ("EVALSHA", "1"), ("EVALSHA", "2")

    assert again([load, one, two], [2], asking=False) == [load, two]
    assert again([load, one, two], [1, 2], asking=True) == [load, ASKING, one, ASKING, two]
