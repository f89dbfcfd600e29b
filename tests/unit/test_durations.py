"""Means and percentiles of durations that were counted in buckets."""

from __future__ import annotations

import pytest

from emq_django.protocol.metrics import BOUNDS_MS, Durations


def of(*durations_ms: float) -> Durations:
    counted = Durations()
    for ms in durations_ms:
        counted.add(ms)
    return counted


def test_without_a_duration_there_is_no_mean_and_no_percentile() -> None:
    assert (of().count, of().mean_ms, of().percentile_ms(0.5)) == (0, None, None)


def test_the_mean_is_exact() -> None:
    assert of(1, 2, 6).mean_ms == 3.0


@pytest.mark.parametrize(
    ("durations_ms", "share", "expected_ms"),
    [
        ([0.5, 0.5], 1.0, 1.0),
        ([0.5, 0.5], 0.5, 0.5),
        ([20] * 10, 0.5, 20.0),
        ([20] * 10, 0.0, 10.0),
        ([1, 200], 0.5, 1.0),
        ([1, 200], 0.75, 200.0),
        ([1, 200], 1.0, 300.0),
        ([1, BOUNDS_MS[-1] + 1], 1.0, float(BOUNDS_MS[-1])),
    ],
)
def test_a_percentile_lies_within_the_bucket_of_its_duration(
    durations_ms: list[float], share: float, expected_ms: float
) -> None:
    assert of(*durations_ms).percentile_ms(share) == expected_ms
