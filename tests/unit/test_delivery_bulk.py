"""Many admissions, flush by flush, driven by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.delivery import Admission, Flush, Patience, bulk, drive
from emq_django.delivery.bulk import CALL_BYTES, FLUSH_CALLS
from emq_django.delivery.drivers import Carried
from emq_django.errors import (
    EmqError,
    PartlyEnqueued,
    ProtocolError,
    ReplyLost,
    ServerBusy,
    ServerFull,
    Unreachable,
    WrongType,
)
from emq_django.protocol import keyspace
from emq_django.protocol.enqueue import BULK_IDS, Readmission
from emq_django.protocol.ids import mint
from emq_django.protocol.records import Receipt, Verdict
from tests.unit.steps import Clock, Takes, play

if TYPE_CHECKING:
    from tests.unit.steps import Played

QUEUE = keyspace.queue("q")
LANE = "USR0NSuyFGSM3w"
ENQUEUED, DUPLICATE = Verdict.ENQUEUED, Verdict.DUPLICATE


def jobs(count: int, payload: bytes = b"p", lane: str | None = None) -> list[Admission]:
    return [Admission(QUEUE, payload, None, lane) for _ in range(count)]


def named(*ids: str, payload: bytes = b"p") -> list[Admission]:
    return [Admission(QUEUE, payload, job_id, None) for job_id in ids]


def good(step: Flush) -> list[Any]:
    """Everything is new and everything is admitted."""
    return [
        Readmission.ADMITTED
        if call.script.name == "readmit"
        else [ENQUEUED] * ((len(call.args) - 1) // 2)
        for call in step.calls
    ]


def all_fail(error: EmqError) -> Any:
    return lambda step: [error] * len(step.calls)


def ids_of(call: Any) -> list[Any]:
    return list(call.args[1::2]) if call.script.name == "enqueue_many" else [call.args[0]]


class Bench:
    """One patience on a counted clock."""

    def __init__(self, deadline_s: float = 5.0) -> None:
        self.clock = Clock()
        self.patience = Patience(deadline_s, 5.0, self.clock)

    def admit(self, what: Sequence[Admission], answers: Any) -> Played:
        return play(bulk(what, self.patience), self.clock, answers)


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --- how a bulk is cut ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "calls_of_flushes"),
    [
        (0, []),
        (1, [1]),
        (100, [1]),
        (101, [2]),
        (999, [10]),
        (1_000, [10]),
        (1_001, [10, 1]),
        (8_000, [10] * 8),
    ],
)
def test_a_bulk_is_cut_by_ids(bench: Bench, count: int, calls_of_flushes: list[int]) -> None:
    played = bench.admit(jobs(count), repeat(good))

    assert [len(calls) for calls, _ in played.flushes] == calls_of_flushes
    sizes = [len(ids_of(call)) for calls, _ in played.flushes for call in calls]
    assert sum(sizes) == count
    assert max(sizes, default=0) <= BULK_IDS
    assert [receipt.verdict for receipt in played.result] == [ENQUEUED] * count


def test_a_bulk_is_cut_by_bytes(bench: Bench) -> None:
    payload = b"x" * (CALL_BYTES // 2)

    played = bench.admit(jobs(25, payload), repeat(good))

    assert [len(calls) for calls, _ in played.flushes] == [FLUSH_CALLS, 3]
    assert {len(ids_of(call)) for calls, _ in played.flushes for call in calls} == {1, 2}


def test_an_item_larger_than_a_call_goes_alone(bench: Bench) -> None:
    sizes = [1, CALL_BYTES * 11, 1, CALL_BYTES + 1, 1, 1]
    what = [Admission(QUEUE, b"x" * size, None, None) for size in sizes]

    played = bench.admit(what, repeat(good))

    sent = [[len(ids_of(call)) for call in calls] for calls, _ in played.flushes]
    assert sent == [[1], [1], [1, 1, 2]]
    assert len(played.result) == len(sizes)


def test_receipts_come_in_input_order_whatever_the_answers(bench: Bench) -> None:
    ids = [mint.one() for _ in range(250)]
    verdicts = [ENQUEUED if n % 3 else DUPLICATE for n in range(250)]
    by_id = dict(zip(ids, verdicts, strict=True))

    played = bench.admit(
        named(*ids), [lambda step: [[by_id[one] for one in ids_of(c)] for c in step.calls]]
    )

    assert played.result == [Receipt(i, v) for i, v in by_id.items()]


def test_every_call_names_the_lane(bench: Bench) -> None:
    played = bench.admit(jobs(150, lane=LANE), repeat(good))

    assert [call.args[0] for call in played.flushes[0][0]] == [LANE, LANE]
    assert played.flushes[0][0][0].keys[0] == QUEUE.lane(LANE)


# --- sent again ----------------------------------------------------------------------------------


def test_only_what_a_passing_error_kept_out_is_sent_again(bench: Bench) -> None:
    def second_fails(step: Flush) -> list[Any]:
        answers = good(step)
        answers[1] = ServerBusy("busy")
        return answers

    played = bench.admit(jobs(300), [second_fails, good])

    assert played.flushed == [["enqueue_many"] * 3, ["enqueue_many"]]
    assert ids_of(played.flushes[0][0][1]) == ids_of(played.flushes[1][0][0])
    assert all(receipt.verdict is ENQUEUED for receipt in played.result)


def test_what_may_have_got_through_is_readmitted_one_by_one(bench: Bench) -> None:
    def last_lost(step: Flush) -> list[Any]:
        return [*good(step)[:-1], ReplyLost("lost")]

    played = bench.admit(jobs(250), [last_lost, lambda step: [Readmission.SAME] * len(step.calls)])

    assert played.flushed == [["enqueue_many"] * 3, ["readmit"] * 50]
    assert [i for call in played.flushes[1][0] for i in ids_of(call)] == ids_of(
        played.flushes[0][0][2]
    )
    assert all(receipt.verdict is ENQUEUED for receipt in played.result)


def test_lost_and_refused_items_go_again_in_one_flush_each_in_its_way(bench: Bench) -> None:
    played = bench.admit(jobs(200), [lambda _: [ReplyLost("lost"), ServerBusy("busy")], good])

    assert played.flushed[1] == ["enqueue_many"] + ["readmit"] * 100
    assert all(receipt.verdict is ENQUEUED for receipt in played.result)


def test_a_readmission_that_is_lost_stays_a_readmission(bench: Bench) -> None:
    lost = all_fail(ReplyLost("lost"))

    played = bench.admit(jobs(2), [lost, lost, all_fail(Unreachable("no")), good])

    assert played.flushed == [["enqueue_many"], *([["readmit"] * 2] * 3)]
    assert all(receipt.verdict is ENQUEUED for receipt in played.result)


@pytest.mark.parametrize("found", list(Readmission))
def test_what_a_readmission_of_a_caller_id_found(bench: Bench, found: Readmission) -> None:
    one = mint.one()

    played = bench.admit(named(one), [all_fail(ReplyLost("lost")), [found]])

    expected = DUPLICATE if found is Readmission.OTHER else ENQUEUED
    assert played.result == [Receipt(one, expected)]


def test_an_id_given_twice_is_admitted_once_also_after_a_lost_reply(bench: Bench) -> None:
    one = mint.one()
    lost = all_fail(ReplyLost("lost"))

    plain = bench.admit(named(one, one), [[[ENQUEUED, DUPLICATE]]])
    after = bench.admit(named(one, one), [lost, [Readmission.SAME, Readmission.SAME]])

    assert plain.result == after.result == [Receipt(one, ENQUEUED), Receipt(one, DUPLICATE)]


# --- minted again --------------------------------------------------------------------------------


def test_taken_ids_are_minted_again_together_and_elsewhere(bench: Bench, moves: list[int]) -> None:
    played = bench.admit(
        jobs(4), [[[ENQUEUED, DUPLICATE, ENQUEUED, DUPLICATE]], [[DUPLICATE, ENQUEUED]], good]
    )

    sent = [ids_of(calls[0]) for calls, _ in played.flushes]
    assert [len(ids) for ids in sent] == [4, 2, 1]
    assert len({one for ids in sent for one in ids}) == 7
    expected = [sent[0][0], sent[2][0], sent[0][2], sent[1][1]]
    assert played.result == [Receipt(one, ENQUEUED) for one in expected]
    assert moves == [1, 1], "once for all items of a round"


def test_a_lost_item_that_turns_out_to_be_taken_is_sent_as_new(bench: Bench) -> None:
    played = bench.admit(
        jobs(2), [all_fail(ReplyLost("lost")), [Readmission.SAME, Readmission.OTHER], good]
    )

    assert played.flushed == [["enqueue_many"], ["readmit"] * 2, ["enqueue_many"]]
    assert played.result[1].id == ids_of(played.flushes[2][0][0])[0]
    assert all(receipt.verdict is ENQUEUED for receipt in played.result)


def test_ids_that_are_always_taken_end_the_bulk(bench: Bench) -> None:
    taken = repeat(lambda step: [[DUPLICATE] * len(ids_of(call)) for call in step.calls])

    played = bench.admit(jobs(3), taken)

    assert type(played.error) is ProtocolError
    assert len(played.flushes) == 10


def test_a_via_that_takes_nothing_ends_the_bulk() -> None:
    class Full:
        calls = 0

        def run(self, call: Any) -> Any:
            self.calls += 1
            return [DUPLICATE] * len(ids_of(call))

    via = Full()

    with pytest.raises(ProtocolError, match="10 new ids"):
        drive(Carried(via), bulk(jobs(3), Patience(0)))

    assert via.calls == 10


def test_a_server_that_fails_while_ids_are_minted_again_ends_the_bulk(bench: Bench) -> None:
    played = bench.admit(jobs(2), [[[ENQUEUED, DUPLICATE]], *repeat(all_fail(ServerFull("f")), 1)])

    assert isinstance(played.error, PartlyEnqueued)
    first, second = played.error.outcomes
    assert isinstance(first, Receipt)
    assert isinstance(second, ServerFull)


def test_a_taken_id_is_not_sent_to_a_server_that_just_gave_up(bench: Bench) -> None:
    def half(step: Flush) -> list[Any]:
        return [[DUPLICATE] * 100, ServerFull("full")]

    played = bench.admit(jobs(200), [half])

    assert len(played.flushes) == 1
    assert isinstance(played.error, ServerFull)


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ServerFull, WrongType])
def test_an_error_that_does_not_pass_stops_the_bulk(bench: Bench, error: type[EmqError]) -> None:
    raised = error("no")

    played = bench.admit(jobs(2_500), [good, all_fail(raised)])

    assert len(played.flushes) == 2
    assert played.pauses == []
    assert isinstance(played.error, PartlyEnqueued)
    assert "1000 of 2500" in str(played.error)
    outcomes = played.error.outcomes
    assert all(isinstance(one, Receipt) for one in outcomes[:1_000])
    assert all(one is raised for one in outcomes[1_000:])


def test_the_error_that_kept_everything_out_is_raised_itself(bench: Bench) -> None:
    raised = ServerFull("full")

    played = bench.admit(jobs(2_500), [all_fail(raised)])

    assert played.error is raised


def test_duplicates_are_not_counted_as_admitted(bench: Bench) -> None:
    what = named(*(mint.one() for _ in range(200)))

    played = bench.admit(what, [[[ENQUEUED, DUPLICATE] * 50, ServerFull("full")]])

    assert "50 of 200" in str(played.error)


def test_items_that_were_never_sent_are_not_said_to_be_lost(bench: Bench) -> None:
    played = bench.admit(jobs(2_100), [good, *repeat(all_fail(ReplyLost("lost")), 999)])

    assert isinstance(played.error, PartlyEnqueued)
    outcomes = played.error.outcomes
    lost, unsent = outcomes[1_000:2_000], outcomes[2_000:]
    ids = ids_of(played.flushes[1][0][0])
    assert [type(one) for one in lost] == [ReplyLost] * 1_000
    assert all(i in str(one) for i, one in zip(ids, lost[:100], strict=True))
    assert [type(one) for one in unsent] == [Unreachable] * 100


def test_an_item_may_be_in_whatever_its_readmission_ended_with(bench: Bench) -> None:
    played = bench.admit(
        jobs(200), [lambda _: [[ENQUEUED] * 100, ReplyLost("lost")], all_fail(ServerFull("full"))]
    )

    assert isinstance(played.error, PartlyEnqueued)
    assert [type(one) for one in played.error.outcomes[100:]] == [ReplyLost] * 100


def test_a_bulk_that_may_be_in_is_not_said_to_be_out(bench: Bench) -> None:
    played = bench.admit(
        jobs(200),
        [lambda _: [ServerFull("full"), ReplyLost("lost")], *[all_fail(ServerFull("full"))]],
    )

    assert type(played.error) is ReplyLost


# --- the deadline --------------------------------------------------------------------------------


def test_the_deadline_counts_from_the_last_flush_that_got_through(bench: Bench) -> None:
    slow = Takes(4.5, good)

    played = bench.admit(jobs(5_000), repeat(slow))

    assert played.error is None
    assert played.took_s > 20


def test_a_bulk_gives_up_at_its_deadline(bench: Bench) -> None:
    played = bench.admit(
        jobs(3_000), [good, *repeat(Takes(0.2, all_fail(ServerBusy("busy"))), 999)]
    )

    assert isinstance(played.error, PartlyEnqueued)
    assert 4.5 < played.took_s <= 5
    assert bench.patience.down
    assert all((timeout_s or 0) <= 5 for _, timeout_s in played.flushes)


def test_while_the_server_is_down_a_bulk_tries_once_for_a_second(bench: Bench) -> None:
    bench.patience.down = True

    played = bench.admit(jobs(3_000), [Takes(9, all_fail(ReplyLost("lost")))])

    assert played.took_s == 1
    assert type(played.error) is ReplyLost


def test_a_bulk_that_finds_the_server_up_again_has_its_patience_back(bench: Bench) -> None:
    bench.patience.down = True

    played = bench.admit(jobs(2_000), [good, all_fail(ServerBusy("busy")), good])

    assert len(played.result) == 2_000
    assert [timeout_s for _, timeout_s in played.flushes][:2] == [1.0, None]
    assert not bench.patience.down


def test_nothing_is_tried_again_without_a_deadline() -> None:
    played = Bench(deadline_s=0).admit(jobs(2), [all_fail(ServerBusy("busy"))])

    assert isinstance(played.error, ServerBusy)
    assert len(played.flushes) == 1
