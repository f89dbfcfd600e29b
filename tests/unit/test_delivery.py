"""One admission against a deadline, step by step; the bulk is in test_delivery_bulk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.delivery import Admission, Patience, Run, admission, adrive, drive
from emq_django.delivery.drivers import AsyncCarried, Carried, aadmit, admit
from emq_django.delivery.patience import FIRST_PAUSE_S, LEAST_ATTEMPT_S, LONGEST_PAUSE_S
from emq_django.errors import (
    AccessRefused,
    EmqError,
    KindRefused,
    NotReplicated,
    PersistenceFailed,
    ProtocolError,
    ReplyLost,
    ServerBusy,
    ServerFull,
    ServerReadOnly,
    Unreachable,
    WrongType,
)
from emq_django.protocol import ids, keyspace
from emq_django.protocol.enqueue import Readmission
from emq_django.protocol.records import Receipt, Verdict
from tests.unit.steps import Clock, Takes, play

if TYPE_CHECKING:
    from tests.unit.steps import Played

QUEUE = keyspace.queue("q")
JOB_ID = "JOB0NSuyFGSM3w"
LANE = "USR0NSuyFGSM3w"
PASSING = [ServerBusy, ServerReadOnly, NotReplicated]
NOT_PASSING = [ServerFull, AccessRefused, PersistenceFailed, WrongType, KindRefused]
RAN = [Verdict.ENQUEUED, Readmission.ADMITTED]


def job(job_id: str | None = None, **more: Any) -> Admission:
    return Admission(QUEUE, b"payload", job_id, more.pop("lane", None), **more)


class Bench:
    """One patience on a counted clock."""

    def __init__(self, deadline_s: float = 5.0, read_s: float = 5.0) -> None:
        self.clock = Clock()
        self.patience = Patience(deadline_s, read_s, self.clock)

    def admit(self, answers: Any, what: Admission | None = None) -> Played:
        return play(admission(what or job(), self.patience), self.clock, answers)


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --- the first attempt ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "script", "verdict"),
    [
        (job(), "enqueue", Verdict.ENQUEUED),
        (job(lane=LANE), "enqueue_lane", Verdict.ENQUEUED),
        (job(mode="at", number=5), "schedule", Verdict.SCHEDULED),
        (job(mode="in", number=5), "schedule", Verdict.SCHEDULED),
        (job(mode="in", number=5, lane=LANE), "schedule", Verdict.SCHEDULED),
    ],
)
def test_a_good_admission_is_one_call(
    bench: Bench, what: Admission, script: str, verdict: Verdict
) -> None:
    played = bench.admit([verdict], what)

    assert played.scripts == [script]
    assert played.timeouts == [None]
    assert played.pauses == []
    assert played.result == Receipt(played.ids[0], verdict)


def test_a_caller_id_that_is_taken_is_a_duplicate(bench: Bench) -> None:
    played = bench.admit([Verdict.DUPLICATE], job(JOB_ID))

    assert played.result == Receipt(JOB_ID, Verdict.DUPLICATE)
    assert len(played.runs) == 1


def test_a_minted_id_that_is_taken_is_minted_again_elsewhere(
    bench: Bench, moves: list[int]
) -> None:
    played = bench.admit([Verdict.DUPLICATE, Verdict.DUPLICATE, Verdict.ENQUEUED])

    assert played.result == Receipt(played.ids[2], Verdict.ENQUEUED)
    assert len(set(played.ids)) == 3
    assert moves == [1, 1]


def test_ten_taken_ids_end_the_admission(bench: Bench) -> None:
    played = bench.admit(repeat(Verdict.DUPLICATE))

    assert isinstance(played.error, ProtocolError)
    assert len(set(played.ids)) == 10


@pytest.mark.parametrize("error", NOT_PASSING)
def test_an_error_that_does_not_pass_is_raised_at_once(bench: Bench, error: type[EmqError]) -> None:
    raised = error("no")

    played = bench.admit([raised])

    assert played.error is raised
    assert len(played.runs) == 1
    assert not bench.patience.down


@pytest.mark.parametrize(
    ("deadline_s", "read_s", "limit"), [(2, 5, 2), (5, 30, 5), (5, 5, None), (5, 0.5, None)]
)
def test_a_first_attempt_is_limited_where_its_connection_would_wait_longer(
    deadline_s: float, read_s: float, limit: float | None
) -> None:
    played = Bench(deadline_s, read_s).admit([Verdict.ENQUEUED])

    assert played.timeouts == [limit]


# --- sent again ----------------------------------------------------------------------------------


@pytest.mark.parametrize("error", PASSING)
def test_a_passing_error_is_sent_again_as_it_was(bench: Bench, error: type[EmqError]) -> None:
    played = bench.admit([error("1"), error("2"), Verdict.ENQUEUED])

    assert played.scripts == ["enqueue"] * 3
    assert played.result == Receipt(played.ids[0], Verdict.ENQUEUED)
    assert len(set(played.ids)) == 1
    assert len(played.pauses) == 2


def test_a_first_send_that_came_late_may_still_be_a_duplicate(bench: Bench) -> None:
    played = bench.admit([ServerBusy("1"), Verdict.DUPLICATE], job(JOB_ID))

    assert played.result == Receipt(JOB_ID, Verdict.DUPLICATE)


@pytest.mark.parametrize("error", PASSING)
def test_a_passing_error_that_stays_is_raised_at_the_deadline(
    bench: Bench, error: type[EmqError]
) -> None:
    played = bench.admit(error(str(n)) for n in range(10_000))

    assert isinstance(played.error, error)
    assert 4.9 < played.took_s <= 5
    assert 15 < len(played.runs) < 60
    assert all((limit or 1) > LEAST_ATTEMPT_S - 0.001 for limit in played.timeouts)
    assert bench.patience.down


def test_pauses_grow_to_a_limit_and_are_spread(bench: Bench) -> None:
    played = bench.admit(repeat(ServerBusy("busy")))

    assert FIRST_PAUSE_S / 2 <= played.pauses[0] <= FIRST_PAUSE_S
    assert max(played.pauses) <= LONGEST_PAUSE_S
    assert all(pause_s >= LONGEST_PAUSE_S / 2 for pause_s in played.pauses[6:-2])
    assert len(set(played.pauses)) == len(played.pauses)


@pytest.mark.parametrize("seconds", [0.0, 0.3, 0.9, 2.5, 60.0])
@pytest.mark.parametrize("error", [ReplyLost, ServerBusy])
@pytest.mark.parametrize("read_s", [0.4, 5.0, 30.0])
def test_no_attempt_may_take_longer_than_what_is_left(
    seconds: float, error: type[EmqError], read_s: float
) -> None:
    bench = Bench(5.0, read_s)

    played = bench.admit(repeat(Takes(min(seconds, read_s), error("no"))))

    assert played.error is not None
    assert played.took_s <= 5.001
    assert all((limit or 0) <= read_s for limit in played.timeouts)


def test_a_deadline_of_zero_tries_once_and_remembers_nothing() -> None:
    bench = Bench(deadline_s=0)

    played = bench.admit([Unreachable("no")])

    assert isinstance(played.error, Unreachable)
    assert played.timeouts == [None]
    assert not bench.patience.down


# --- refused -------------------------------------------------------------------------------------


def test_a_refused_connection_gives_up_after_a_second(bench: Bench) -> None:
    played = bench.admit(Unreachable(str(n)) for n in range(1_000))

    assert type(played.error) is Unreachable
    assert 0.6 < played.took_s <= 0.9
    assert bench.patience.down


def test_a_connection_that_timed_out_was_not_refused(bench: Bench) -> None:
    def silent(step: Run) -> EmqError:
        error = Unreachable("no connection: timed out")
        error.__cause__ = ConnectionError("of the driver")
        error.__cause__.__context__ = TimeoutError("of the socket")
        return error

    played = bench.admit(repeat(Takes(0.3, silent)))

    assert type(played.error) is Unreachable
    assert 4.5 < played.took_s <= 5


def test_the_second_counts_from_the_refusal_and_not_from_the_call(bench: Bench) -> None:
    busy = [Takes(0.5, ServerBusy("busy"))] * 4

    played = bench.admit([*busy, *(Unreachable("no") for _ in range(1_000))])

    assert type(played.error) is Unreachable
    assert 2.6 < played.took_s <= 3.6


def test_a_refusal_in_between_is_forgotten(bench: Bench) -> None:
    answers = [Takes(0.1, Unreachable("no")), Takes(0.1, ServerBusy("busy"))] * 1_000

    played = bench.admit(answers)

    assert 4.5 < played.took_s <= 5


def test_a_refused_send_was_no_send(bench: Bench) -> None:
    played = bench.admit([Unreachable("no"), Verdict.ENQUEUED])

    assert played.scripts == ["enqueue", "enqueue"]


# --- lost replies --------------------------------------------------------------------------------


def test_after_a_lost_reply_every_send_is_a_readmission(bench: Bench) -> None:
    played = bench.admit(
        [ReplyLost("1"), Unreachable("2"), ServerBusy("3"), Readmission.SAME], job(JOB_ID)
    )

    assert played.scripts == ["enqueue", "readmit", "readmit", "readmit"]
    assert set(played.ids) == {JOB_ID}
    assert played.result == Receipt(JOB_ID, Verdict.ENQUEUED)


@pytest.mark.parametrize("found", [Readmission.SAME, Readmission.ADMITTED, Readmission.DONE])
@pytest.mark.parametrize("job_id", [None, JOB_ID])
@pytest.mark.parametrize(
    ("mode", "success"),
    [("now", Verdict.ENQUEUED), ("in", Verdict.SCHEDULED), ("at", Verdict.SCHEDULED)],
)
def test_a_job_that_is_there_or_done_was_admitted(
    bench: Bench, found: Readmission, job_id: str | None, mode: str, success: Verdict
) -> None:
    what = job(job_id, mode=mode, number=7, lane=LANE)

    played = bench.admit([ReplyLost("lost"), found], what)

    assert played.result == Receipt(played.ids[0], success)
    assert played.runs[1][0].args[1:5] == (b"payload", LANE, mode, 7)


def test_a_caller_id_with_other_bytes_is_a_duplicate(bench: Bench) -> None:
    played = bench.admit([ReplyLost("lost"), Readmission.OTHER], job(JOB_ID))

    assert played.result == Receipt(JOB_ID, Verdict.DUPLICATE)


def test_a_minted_id_with_other_bytes_is_minted_again_and_sent_as_new(bench: Bench) -> None:
    played = bench.admit([ReplyLost("lost"), Readmission.OTHER, Verdict.ENQUEUED])

    assert played.scripts == ["enqueue", "readmit", "enqueue"]
    assert played.ids[0] == played.ids[1] != played.ids[2]
    assert played.result == Receipt(played.ids[2], Verdict.ENQUEUED)


def test_minting_again_starts_no_second_deadline(bench: Bench) -> None:
    played = bench.admit(
        [Takes(2, ReplyLost("lost")), Takes(2, Readmission.OTHER), *repeat(ServerBusy("b"), 99)]
    )

    assert played.took_s <= 5
    limit = played.timeouts[2]
    assert limit is not None
    assert limit <= 1


@pytest.mark.parametrize(
    "last", [ReplyLost, Unreachable, ServerBusy, ServerFull, AccessRefused, WrongType]
)
def test_the_error_is_a_lost_reply_once_a_reply_was_lost(
    bench: Bench, last: type[EmqError]
) -> None:
    errors = [last(f"{n}.") for n in range(1_000)]

    played = bench.admit([ReplyLost("lost"), *errors], job(JOB_ID))

    assert type(played.error) is ReplyLost
    assert JOB_ID in str(played.error)
    assert ".." not in str(played.error)
    assert played.error.__cause__ in errors


def test_a_lost_reply_does_not_hide_that_the_kind_was_refused(bench: Bench) -> None:
    played = bench.admit([ReplyLost("lost"), KindRefused("kind")], job("USR0NSuyFGSM3w"))

    assert type(played.error) is KindRefused


# --- a server that is known to be down -----------------------------------------------------------


def test_while_the_server_is_down_a_call_tries_once_for_a_second(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "emq_django.enqueue"):
        bench.admit(repeat(Takes(9, ReplyLost("lost"))))
        second = bench.admit([Takes(9, ReplyLost("lost"))])
        third = bench.admit([Takes(0.9, Verdict.ENQUEUED)])
        fourth = bench.admit([ServerBusy("busy"), Verdict.ENQUEUED])

    assert (second.timeouts, second.took_s) == ([1.0], 1.0)
    assert type(second.error) is ReplyLost
    assert third.result is not None
    assert fourth.result is not None
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING", "INFO"]


def test_one_try_is_no_longer_than_the_deadline_or_the_connection() -> None:
    for bench in (Bench(0.2, 5), Bench(5, 0.2)):
        bench.patience.down = True

        assert bench.admit([Verdict.ENQUEUED]).timeouts == [0.2]


def test_a_call_that_began_while_the_server_was_up_keeps_its_deadline(bench: Bench) -> None:
    def goes_down(step: Run) -> EmqError:
        del step
        bench.patience.down = True  # as another thread's call finds
        return ServerBusy("busy")

    played = bench.admit([goes_down, ServerBusy("busy"), Verdict.ENQUEUED])

    assert played.result is not None
    assert not bench.patience.down


def test_an_error_that_says_the_server_is_there_keeps_it_down(bench: Bench) -> None:
    bench.patience.down = True

    bench.admit([ServerFull("full")])

    assert bench.patience.down  # "until one succeeds"


# --- the drivers ---------------------------------------------------------------------------------

Driver = Callable[[Any, Any], Any]


def awaited(wire: Any, steps: Any) -> Any:
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(adrive(wire, steps))


class Wire:
    """Answers in turn; raises what is an exception. `twin` is the same, awaited."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.ids: list[Any] = []
        self.timeouts: list[float | None] = []

    def run(self, call: Any, timeout_s: float | None = None) -> Any:
        self.asked.append(call.script.name)
        self.ids.append(call.args[0])
        self.timeouts.append(timeout_s)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def run_many(self, calls: Any, timeout_s: float | None) -> Any:
        self.asked += [call.script.name for call in calls]
        return self.answers.pop(0)


class AsyncWire(Wire):
    async def run(self, call: Any, timeout_s: float | None = None) -> Any:
        await asyncio.sleep(0)
        return super().run(call, timeout_s)

    async def run_many(self, calls: Any, timeout_s: float | None) -> Any:
        await asyncio.sleep(0)
        return super().run_many(calls, timeout_s)


@pytest.fixture(params=[(drive, Wire), (awaited, AsyncWire)], ids=["sync", "async"])
def driver(request: pytest.FixtureRequest) -> tuple[Driver, type[Wire]]:
    pair: tuple[Driver, type[Wire]] = request.param
    return pair


RUNS: dict[str, list[Any]] = {
    "good": [Verdict.ENQUEUED],
    "taken": [Verdict.DUPLICATE, Verdict.ENQUEUED],
    "busy": [ServerBusy("1"), Verdict.ENQUEUED],
    "busy, then taken": [ServerBusy("1"), Verdict.DUPLICATE, Verdict.ENQUEUED],
    "lost": [ReplyLost("1"), Readmission.SAME],
    "lost, then another's": [ReplyLost("1"), Readmission.OTHER, Verdict.ENQUEUED],
    "full": [ServerFull("1")],
    "lost, then full": [ReplyLost("1"), ServerFull("2")],
}


@pytest.mark.parametrize("job_id", [None, JOB_ID])
@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("name", RUNS)
def test_the_short_way_of_a_good_admission_keeps_all_the_rules(
    driver: tuple[Driver, type[Wire]], name: str, down: bool, job_id: str | None
) -> None:
    run, wire_class = driver

    def outcome(act: Callable[[Any, Patience], Any]) -> tuple[Any, ...]:
        wire, patience = wire_class(*RUNS[name]), Patience(5)
        patience.down = down
        ids.mint.reset()
        try:
            ended: Any = act(wire, patience).verdict
        except EmqError as exc:
            ended = type(exc)
        return ended, wire.asked, wire.timeouts[:1], patience.down, len(set(wire.ids))

    def short(wire: Any, patience: Patience) -> Any:
        if wire_class is Wire:
            return admit(wire, job(job_id), patience)
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            return runner.run(aadmit(wire, job(job_id), patience))

    assert outcome(short) == outcome(
        lambda wire, patience: run(wire, admission(job(job_id), patience))
    )


def test_the_short_way_counts_the_deadline_from_its_own_attempt() -> None:
    clock = Clock()
    patience = Patience(5, 5, clock)

    class Slow(Wire):
        def run(self, call: Any, timeout_s: float | None = None) -> Any:
            clock.now_s += 4.97
            return super().run(call, timeout_s)

    with pytest.raises(ServerBusy):
        admit(Slow(ServerBusy("1"), Verdict.ENQUEUED), job(), patience)


def test_the_short_way_keeps_its_deadline_when_another_call_finds_the_server_down() -> None:
    patience = Patience(5)

    class Falls(Wire):
        def run(self, call: Any, timeout_s: float | None = None) -> Any:
            patience.down = True
            return super().run(call, timeout_s)

    wire = Falls(ServerBusy("1"), Verdict.ENQUEUED)

    assert admit(wire, job(), patience).verdict is Verdict.ENQUEUED
    assert not patience.down


def test_both_drivers_run_the_same_steps(driver: tuple[Driver, type[Wire]]) -> None:
    run, wire_class = driver
    wire = wire_class(ServerBusy("1"), ReplyLost("2"), Readmission.SAME)

    receipt = run(wire, admission(job(JOB_ID), Patience(5)))

    assert receipt == Receipt(JOB_ID, Verdict.ENQUEUED)
    assert wire.asked == ["enqueue", "enqueue", "readmit"]


class Foreign(BaseException):
    """Neither ours nor an Exception: like KeyboardInterrupt or a cancellation."""


@pytest.mark.parametrize("error", [ValueError("theirs"), Foreign()])
def test_what_is_not_ours_passes_through_and_ends_the_steps(
    driver: tuple[Driver, type[Wire]], error: BaseException
) -> None:
    run, wire_class = driver
    steps = admission(job(), Patience(5))

    with pytest.raises(type(error)) as caught:
        run(wire_class(error), steps)

    assert caught.value is error
    with pytest.raises(StopIteration):
        next(steps)


def test_an_exhausted_via_is_an_error_and_no_result() -> None:
    class Exhausted:
        def run(self, call: Any) -> Any:
            raise StopIteration("looks like the end of the steps")

    with pytest.raises(StopIteration):
        drive(Carried(Exhausted()), admission(job(), Patience(0)))


async def test_a_cancelled_admission_ends_its_steps() -> None:
    steps: Any = admission(job(), Patience(5))

    class Hanging:
        async def run(self, call: Any) -> Any:
            await asyncio.sleep(60)  # cancelled long before

    task = asyncio.ensure_future(adrive(AsyncCarried(Hanging()), steps))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps.gi_frame is None
