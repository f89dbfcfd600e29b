"""The table that a tree shares, read as a parent reads it."""

from __future__ import annotations

import os
import time

import pytest

from emq_django.conf import keys
from emq_django.protocol.records import ClaimedJob
from emq_django.worker.leases import Lease
from emq_django.worker.link import Link
from emq_django.worker.options import QueueOptions
from emq_django.worker.sources import Source
from emq_django.worker.table import Region, State, Table
from tests.worker import zoo

LATER_S = time.monotonic() + 1_000


@pytest.fixture
def region() -> Region:
    return Table(3, 4).region(1)


def hold(region: Region, job_id: str = "JOB00000000001", token: int = 7) -> int:
    return region.hold(2, job_id, token, 1, 30_000, LATER_S)


def test_what_is_held_can_be_read(region: Region) -> None:
    place = hold(region)
    region.started(place, deadline_s=LATER_S + 5)

    (slot,) = region.slots()

    assert (slot.id, slot.token, slot.queue, slot.tries) == ("JOB00000000001", 7, 2, 1)
    assert (slot.state, slot.lease_ms) == (State.STARTED, 30_000)
    assert (slot.until_s, slot.deadline_s) == (LATER_S, LATER_S + 5)


def test_a_limit_that_comes_later_keeps_the_time_at_which_the_run_began(region: Region) -> None:
    place = hold(region)
    region.started(place)
    (before,) = region.slots()

    region.limited(place, LATER_S + 5)

    assert region.slots() == [before._replace(deadline_s=LATER_S + 5)]


@pytest.mark.parametrize(
    ("given", "read"),
    [((0, 0), (0, 0)), ((3, 7_000), (3, 7_000)), ((2**52, 2**52), (2**32 - 2, 2**32 - 1))],
    ids=["none", "some", "too large for the table"],
)
def test_what_becomes_of_a_run_that_the_limit_ends_can_be_read(
    region: Region, given: tuple[int, int], read: tuple[int, int]
) -> None:
    place = hold(region, "x" * 64)
    (before,) = region.slots()
    assert before.max_attempts is None

    region.judged_by(place, *given)

    assert region.slots() == [before._replace(max_attempts=read[0], pause_ms=read[1])]
    region.drop(place)
    assert region.slots() == []
    hold(region)
    assert region.slots()[0].max_attempts is None


def test_the_parent_sees_which_job_was_asked_to_end(region: Region) -> None:
    hold(region)
    (slot,) = region.slots()

    region.ask_to_end(slot)

    assert region.slots() == [slot._replace(asked_to_end=True)]


def test_a_dropped_slot_is_used_again(region: Region) -> None:
    places = [hold(region, f"JOB0000000000{number}") for number in range(4)]
    assert hold(region) == -1
    region.drop(places[2])

    assert hold(region, "JOB00000000009") == places[2]
    assert [slot.id[-1] for slot in region.slots()] == ["0", "1", "9", "3"]


def test_an_id_that_is_too_long_is_not_noted(region: Region) -> None:
    assert hold(region, "x" * 65) == -1
    assert hold(region, "x" * 64) == 0
    assert region.slots()[0].id == "x" * 64


@pytest.mark.parametrize("job_id", ["JOB00000000001", "ä€", "\udc80raw"])
def test_any_id_comes_back_as_it_was(region: Region, job_id: str) -> None:
    hold(region, job_id)

    assert region.slots()[0].id == job_id


def test_a_lease_that_the_parent_renewed_ends_later(region: Region) -> None:
    place = hold(region)
    region.helped(place, LATER_S + 60)

    assert region.slots()[0].until_s == LATER_S + 60
    assert region.helped_until_s(place) == LATER_S + 60


def test_connections_come_and_go(region: Region) -> None:
    for number in (5, 6, 2**40):
        region.connected(number)
    region.disconnected(6)

    assert sorted(region.connections()) == [5, 2**40]


def test_a_cleared_region_is_empty_and_its_neighbours_are_not() -> None:
    table = Table(2, 4)
    first, second = table.region(0), table.region(1)
    for region in (first, second):
        hold(region)
        region.connected(9)
        region.appoint(True)
        region.hears(True)

    first.clear()

    assert not first.slots()
    assert not first.connections()
    assert not first.is_appointed()
    assert not first.is_hearing()
    assert second.is_appointed()
    assert second.is_hearing()
    assert len(second.slots()) == 1
    assert time.monotonic() - first.beat_s() < 10


def test_a_parent_reads_what_its_child_wrote(region: Region) -> None:
    pid = os.fork()
    if pid == 0:
        region.started(hold(region))
        os._exit(0)
    os.waitpid(pid, 0)

    assert [slot.state for slot in region.slots()] == [State.STARTED]


def test_who_leaves_the_table_writes_nothing_there_any_more(region: Region) -> None:
    """Not even meanwhile: from then on the place may be another job's."""
    queue = QueueOptions(keys=keys("q"), handler=zoo.work)
    lease = Lease(
        Source(queue, Link(None)),  # type: ignore[arg-type]
        ClaimedJob("JOB00000000001", b"", 7, "q"),
        0.0,
    )

    class Watched(Region):
        def drop(self, index: int) -> None:
            super().drop(index)
            assert hold(self, "JOB00000000002", 8) == index
            lease.renewed(0.0)  # as the keeper's thread may do at this moment
            lease.ends()

    watched = Watched(region._map, region._at, 4)
    lease.note_in(watched, 0)
    lease.leave()

    (slot,) = watched.slots()
    assert (slot.id, slot.state, slot.until_s) == ("JOB00000000002", State.HELD, LATER_S)
