"""The worker's arithmetic and texts: no server, no sleeping."""

from __future__ import annotations

import contextlib
import doctest
import json
import re
import threading
from dataclasses import replace
from typing import Any

import pytest

from emq_django.conf import keys
from emq_django.errors import ConfigError, InvalidDuration
from emq_django.protocol import ids
from emq_django.protocol.records import ClaimedJob
from emq_django.worker import failure, handlers, retry
from emq_django.worker.cadence import Cadence
from emq_django.worker.job import Job
from emq_django.worker.leases import Lease
from emq_django.worker.link import Link
from emq_django.worker.log import Quiet
from emq_django.worker.options import QueueOptions, WorkerOptions
from emq_django.worker.outcomes import GiveUp, HardTimeLimit, Retry
from emq_django.worker.pauses import Pauses
from emq_django.worker.retry import Policy
from emq_django.worker.run import handed_over, judge
from emq_django.worker.sources import Source
from emq_django.worker.table import Table
from emq_django.worker.wait import Bell
from tests.worker import zoo

QUEUE = QueueOptions(keys=keys("emails"), handler=zoo.work)


def highest(_low: float, high: float) -> float:
    return high


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize("module", [retry, failure])
def test_the_examples_in_the_docstrings_hold(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


def test_pauses_grow_to_their_cap_and_start_anew() -> None:
    pauses = Pauses(0.1, 0.5)

    grown = [pauses.next_s() for _ in range(4)]
    pauses.reset()

    assert grown == [0.1, 0.2, 0.4, 0.5]
    assert pauses.next_s() == 0.1


def test_spread_pauses_stay_between_their_share_and_the_whole() -> None:
    drawn = [Pauses(1.0, 1.0, spread=0.5).next_s() for _ in range(200)]

    assert 0.5 <= min(drawn) < max(drawn) <= 1.0


def test_full_jitter_reaches_down_to_zero_and_up_to_the_ceiling() -> None:
    drawn = [retry.delay_ms(3, 1_000, 60_000) for _ in range(500)]

    assert 0 <= min(drawn) < 1_000
    assert 3_000 < max(drawn) <= 4_000


@pytest.mark.parametrize("tries", [1, 2, 63, 64, 1_000, 10**9])
def test_a_ceiling_never_passes_its_cap(tries: int) -> None:
    assert retry.ceiling_ms(tries, 1_000, 600_000) <= 600_000


def test_zero_is_a_pause_of_zero() -> None:
    assert retry.delay_ms(5, 0, 600_000) == 0
    assert retry.delay_ms(5, 1_000, 0) == 0


def test_young_jobs_leave_a_mark_of_twice_the_deadline() -> None:
    job_id = ids.mint.one()
    minted_ms = ids.minted_ms(job_id)

    assert retry.done_mark_ms(job_id, minted_ms, 5_000) == 10_000
    assert retry.done_mark_ms(job_id, minted_ms + 9_999, 5_000) == 10_000
    assert retry.done_mark_ms(job_id, minted_ms + 10_000, 5_000) == 0
    assert retry.done_mark_ms(job_id, minted_ms - 60_000, 5_000) == 10_000  # clocks differ
    assert retry.done_mark_ms(job_id, minted_ms, 0) == 0


def test_an_id_of_a_foreign_speaker_leaves_no_mark() -> None:
    assert retry.done_mark_ms("JOB-1", 0, 5_000) == 0


def test_an_interval_is_drawn_below_its_length() -> None:
    cadence = Cadence(1.0, uniform=highest)

    assert [cadence.is_due(now_s) for now_s in (10.0, 10.9, 11.0)] == [True, False, True]
    cadence.hurry()
    assert cadence.is_due(11.0)


def test_a_repeating_event_is_logged_less_and_less() -> None:
    clock = Clock()
    quiet = Quiet(clock)

    logged = []
    for second in range(130):
        clock.now_s = 100.0 + second
        if quiet.may_log("away"):
            logged.append(second)

    assert logged == [0, 10, 30, 70]
    assert quiet.may_log("something else")


def test_an_event_after_a_long_quiet_time_is_logged_at_once() -> None:
    clock = Clock()
    quiet = Quiet(clock)
    quiet.may_log("away")
    clock.now_s += 200

    assert quiet.may_log("away")
    clock.now_s += 10
    assert quiet.may_log("away")


def _raised(exc: BaseException) -> BaseException:
    with contextlib.suppress(BaseException):
        raise exc
    return exc


def test_a_failure_names_type_message_place_and_cause() -> None:
    cause = _raised(KeyError("inner"))
    exc = _raised(zoo.OwnBase("outer"))
    exc.__cause__ = cause

    text = failure.describe(exc)

    assert text.startswith("tests.worker.zoo.OwnBase: outer\nTraceback")
    assert "in _raised" in text
    assert "caused by KeyError: 'inner' (at " in text


def _raised_under(module: str, code: str, **names: object) -> BaseException:
    """Return what ``code`` of a module raises, seen from there."""
    with pytest.raises((AttributeError, InvalidDuration)) as raised:
        exec(code, {"__name__": module, **names})
    assert raised.value.__traceback__ is not None
    return raised.value.with_traceback(raised.value.__traceback__.tb_next)


def test_a_traceback_begins_with_the_first_frame_that_is_not_ours() -> None:
    def code_of_a_job() -> None:
        Retry("again", in_ms="soon")  # type: ignore[arg-type]

    theirs = failure.describe(_raised_under("emq_django.worker.run", "job()", job=code_of_a_job))
    ours = failure.describe(_raised_under("emq_django.worker.run", "None.x"))
    other = failure.describe(_raised_under("emq_django_extras", "None.x"))

    frames = re.findall(r"^  File .* in (.*)$", theirs, re.MULTILINE)
    assert frames[0] == "code_of_a_job"
    assert "__init__" in frames[1:]  # what it called of ours
    assert "in <module>" in ours
    assert "in <module>" in other


def test_a_hostile_exception_is_described_all_the_same() -> None:
    exc = _raised(zoo.Hostile())

    assert failure.describe(exc).startswith("tests.worker.zoo.Hostile: (no message")
    assert "SystemExit" in failure.brief(exc)


def test_a_cycle_of_causes_ends() -> None:
    exc = ValueError("a")
    exc.__context__ = KeyError("b")
    exc.__context__.__context__ = exc

    assert len(failure.describe(exc)) < 1_000


def test_a_huge_message_is_cut_and_its_size_told() -> None:
    exc = _raised(ValueError("x" * 10_000_000))

    assert len(failure.describe(exc)) < 2_000
    assert "(10,000,000 characters)" in failure.describe(exc)
    assert len(failure.brief(exc)) <= 301


def test_a_deep_recursion_keeps_the_innermost_frames() -> None:
    try:
        zoo.RAISERS["RecursionError"]()
    except RecursionError as exc:
        text = failure.describe(exc)

    assert text.count("in _recurse") == 20


def test_a_group_names_its_members() -> None:
    text = failure.describe(ExceptionGroup("several", [ValueError("a"), KeyError("b")]))

    assert "- ValueError: a" in text
    assert "- KeyError: 'b'" in text


def test_no_text_forges_a_log_line() -> None:
    line = failure.one_line("a\r\n\x1b[31m\u2028\udc80b")

    assert line == "a\\r\\n\\x1b[31m\\u2028\\udc80b"


def _lease(**job: int) -> Lease:
    options = replace(QUEUE, max_attempts=3, backoff_base_ms=100, backoff_cap_ms=1_000)
    claimed = ClaimedJob("JOB00000000001", b"", 1, "emails", None, **job)
    return Lease(Source(options, Link(wire=None)), claimed, 0.0)  # type: ignore[arg-type]


def test_failed_runs_and_lost_leases_count_towards_the_pause() -> None:
    waits = []

    def pause(tries: int) -> int:
        waits.append(tries)
        return 7

    job = handed_over(_lease(failures=1, stalled=2))
    outcome = judge(ValueError(), job, Policy(max_attempts=3, pause_ms=pause))

    assert waits == [4]
    assert (outcome.delay_ms, outcome.max_attempts) == (7, 3)
    assert outcome.is_last(job.tries)


def test_a_queue_without_policies_of_its_jobs_has_one_for_all() -> None:
    lease = _lease()
    policy = lease.source.options.policy(handed_over(lease))

    assert policy.max_attempts == 3
    assert 0 <= policy.pause_ms(1) <= 100
    assert 0 <= policy.pause_ms(9) <= 1_000


@pytest.mark.parametrize(
    ("exc", "max_attempts"),
    [(KeyError(), 9), (LookupError(), 9), (ValueError(), 0), (IndexError(), 0), (Retry(), 9)],
    ids=["kind", "itself", "other", "given up", "asked for"],
)
def test_a_policy_says_which_exceptions_are_worth_another_run(
    exc: Exception, max_attempts: int
) -> None:
    policy = Policy(
        max_attempts=9, pause_ms=lambda _: 0, retry_on=(LookupError,), give_up_on=(IndexError,)
    )

    assert judge(exc, handed_over(_lease()), policy).max_attempts == max_attempts


@pytest.mark.parametrize(
    "pause",
    [
        pytest.param(lambda _: 1 / 0, id="raises"),
        pytest.param(lambda _: -1, id="negative"),
        pytest.param(lambda _: None, id="none"),
        pytest.param(lambda _: 1e300, id="endless"),
    ],
)
def test_a_pause_that_can_t_be_had_is_the_usual_one(pause: Any) -> None:
    outcome = judge(ValueError(), handed_over(_lease()), Policy(max_attempts=9, pause_ms=pause))

    assert 0 <= outcome.delay_ms <= 1_000


@pytest.mark.parametrize(
    ("kinds", "max_attempts"),
    [({}, 9), ({"retry_on": (Exception,)}, 9), ({"retry_on": (HardTimeLimit,)}, 9),
     ({"retry_on": (OSError,)}, 0), ({"give_up_on": (HardTimeLimit,)}, 0)],
    ids=["all", "any exception", "named", "others only", "given up"],
)  # fmt: skip
def test_a_policy_says_whether_a_run_that_the_hard_limit_ends_is_worth_another(
    kinds: dict[str, Any], max_attempts: int
) -> None:
    lease, region = _lease(failures=1), Table(1, 1).region(0)
    lease.note_in(region, 0)
    lease.begins()
    job = handed_over(lease)
    policy = Policy(max_attempts=9, pause_ms=lambda tries: 100 * tries, **kinds)

    job.set_policy(policy)
    assert region.slots()[0].max_attempts is None  # nothing limits it
    job.set_hard_limit_s(60)
    job.set_policy(policy)

    assert (region.slots()[0].max_attempts, region.slots()[0].pause_ms) == (max_attempts, 200)


def test_each_failed_run_is_one_line_of_json() -> None:
    job = replace(handed_over(_lease(), "worker-1"), attempts=4)
    outcome = judge(ValueError("a\nb"), job, Policy(max_attempts=9, pause_ms=lambda _: 0), 5)

    line = json.loads(outcome.record)
    assert b"\n" not in outcome.record
    assert line["f"] > line.pop("s") == 5
    assert (line["e"], line["w"], line["a"]) == ("builtins.ValueError", "worker-1", 4)
    assert line["t"] == "ValueError: a\nb\n"


def test_a_line_of_json_keeps_the_end_of_a_long_traceback() -> None:
    job = handed_over(_lease())
    policy = Policy(max_attempts=9, pause_ms=lambda _: 0)

    long = json.loads(judge(ValueError("x" * 10_000 + "end"), job, policy).record)["t"]
    hostile = json.loads(judge(Hostile(), job, policy).record)

    assert len(long) < 3_100
    assert long.startswith("ValueError: xxx")
    assert long.endswith("end\n")
    assert hostile["e"].endswith("Hostile")


class Hostile(Exception):
    def __str__(self) -> str:
        raise SystemExit


@pytest.mark.parametrize(
    ("exc", "delay_ms", "max_attempts"),
    [(Retry("later", in_ms=5_000), 5_000, 3), (Retry(in_ms=0), 0, 3), (Retry("x"), 7, 3),
     (GiveUp("no"), 7, 0)],
)  # fmt: skip
def test_job_code_says_when_or_whether_to_run_again(
    exc: Exception, delay_ms: int, max_attempts: int
) -> None:
    policy = Policy(max_attempts=3, pause_ms=lambda _: 7)
    outcome = judge(exc, handed_over(_lease()), policy)

    assert (outcome.delay_ms, outcome.max_attempts) == (delay_ms, max_attempts)


def test_a_retry_refuses_a_pause_that_is_none() -> None:
    with pytest.raises(InvalidDuration, match="in_ms"):
        Retry(in_ms=-1)


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("handlers", "give a dotted path"),
        ("tests.worker.nowhere.work", "can't be imported"),
        ("tests.worker.zoo.nothing", "has no 'nothing'"),
        ("tests.worker.zoo.LEDGER", "is str, not a function"),
        ("tests.worker.test_pure.async_handler", "async"),
    ],
)
def test_a_handler_that_cannot_be_used_is_refused_with_its_setting(path: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy) as caught:
        handlers.load(path, "emails")

    assert f'EMQ["QUEUES"][\'emails\']["HANDLER"] = {path!r}' in str(caught.value)


async def async_handler(job: Job) -> None:
    """What a raw handler may not be."""


@pytest.mark.parametrize(
    "wrong",
    [{"concurrency": 0}, {"concurrency": 10_000}, {"grace_s": -1}, {"poll_ms": 0},
     {"order": "any"}, {"queues": ()}],
)  # fmt: skip
def test_options_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        WorkerOptions(**{"queues": (QUEUE,), **wrong})


@pytest.mark.parametrize("wrong", [{"lease_ms": 0}, {"max_attempts": -1}, {"lease_ms": True}])
def test_queue_options_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="'emails'"):
        replace(QUEUE, **wrong)


def test_a_job_made_by_a_test_holds_its_lease() -> None:
    assert not Job(id="JOB00000000001", payload=b"").lease_lost


def test_a_ring_before_the_wait_ends_it() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()

    assert bell.wait(10)
    assert not bell.wait(0)


def test_a_bell_rings_across_threads() -> None:
    bell = Bell()
    threading.Timer(0.01, bell.ring).start()

    assert bell.wait(10)
