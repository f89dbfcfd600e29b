"""Whole numbers with units."""

from __future__ import annotations

import pytest

from emq_django.errors import InvalidDuration, InvalidInput
from emq_django.protocol.numbers import LARGEST_BATCH, LARGEST_MS, ms_of, valid_count, valid_ms

NO_WHOLE_NUMBERS = [True, False, 1.0, "2", b"3", None, float("nan"), float("inf"), 1j]


@pytest.mark.parametrize("value", [0, 1, LARGEST_MS])
def test_a_whole_number_in_range_passes(value: int) -> None:
    assert valid_ms(value, "delay_ms") == value


@pytest.mark.parametrize("value", [*NO_WHOLE_NUMBERS, -1, LARGEST_MS + 1, 10**30])
def test_other_ms_are_refused_by_name_and_value(value: object) -> None:
    with pytest.raises(InvalidDuration, match="delay_ms=") as caught:
        valid_ms(value, "delay_ms")

    assert repr(value) in str(caught.value)


def test_a_lease_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidDuration, match=r"lease_ms=0: .* from 1 to"):
        valid_ms(0, "lease_ms", least=1)


@pytest.mark.parametrize("value", [1, LARGEST_BATCH])
def test_a_count_in_range_passes(value: int) -> None:
    assert valid_count(value, "limit") == value


@pytest.mark.parametrize("value", [*NO_WHOLE_NUMBERS, 0, -1, LARGEST_BATCH + 1])
def test_other_counts_are_refused_by_name_and_value(value: object) -> None:
    with pytest.raises(InvalidInput, match="limit=") as caught:
        valid_count(value, "limit")

    assert repr(value) in str(caught.value)


def test_the_largest_lease_added_to_now_is_exact_in_the_servers_doubles() -> None:
    assert LARGEST_MS + 2**51 < 2**53


@pytest.mark.parametrize(
    ("score", "ms"),
    [(b"1795972464751", 1795972464751), (b"1.5", 1), (b"-1", -1), (b"", None), (b"inf", None),
     (b"-inf", None)],
)  # fmt: skip
def test_a_score_is_read_as_ms_unless_it_is_infinite(score: bytes, ms: int | None) -> None:
    assert ms_of(score) == ms
