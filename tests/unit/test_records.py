"""Records are values: equal, frozen, and named as the protocol names them."""

from __future__ import annotations

import dataclasses

import pytest

from emq_django.protocol import records
from emq_django.protocol.records import ClaimedJob, JobSet, JobState


def test_states_and_sets_are_spelled_as_on_the_wire() -> None:
    assert {state.value for state in JobState} == {
        "pending", "active", "scheduled", "dead", "awaiting_children",
    }  # fmt: skip
    assert {job_set.value for job_set in JobSet} == {"pending", "active", "schedule", "dead"}


def test_a_try_is_a_failed_run_or_a_lost_lease_and_not_a_claim() -> None:
    job = ClaimedJob("JOB00000000001", b"", 9, "q", failures=2, stalled=1)

    assert job.tries == 3


@pytest.mark.parametrize(
    "record",
    [one for one in vars(records).values() if dataclasses.is_dataclass(one)],
    ids=lambda one: one.__name__,
)
def test_records_are_frozen_and_slotted(record: type) -> None:
    assert record.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert "__slots__" in vars(record)
