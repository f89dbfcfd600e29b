"""Whatever stands in a queue's keys, a script fails before its first write or loses no job.

Every sample Call of every script meets every key with every wrong type, and rows with every kind of
damage. A refusal is a typed error and leaves every key as it was; a script that goes on leaves each
job that it found in a set in exactly one set, with its payload, or has ended it as it was asked to.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from emq_django import errors
from emq_django.protocol.records import Verdict
from tests import samples
from tests.conformance.conserved import check_conserved
from tests.queue_state import broken_laws, check_invariants, read_state
from tests.samples import KEYS, SAMPLES, fill
from tests.samples_operating import OPERATING_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from emq_django.protocol.keyspace import Queue
    from tests.samples import Command
    from tests.speakers import SyncSpeaker

NIGHTLY = bool(os.environ.get("EMQ_TEST_NIGHTLY"))
PUT: dict[bytes, Callable[[bytes], Command]] = {
    b"string": lambda key: ("SET", key, "x"),
    b"hash": lambda key: ("HSET", key, "x", "x"),
    b"list": lambda key: ("RPUSH", key, "x"),
    b"set": lambda key: ("SADD", key, "x"),
    b"zset": lambda key: ("ZADD", key, "0", "x"),
}
ROWS = sorted(value for name, value in vars(samples).items() if str(value).startswith("JOB"))
OLD_ROWS = [job_id for job_id in ROWS if job_id not in {samples.NEW, samples.NEW_TOO}]
CASES = [
    pytest.param(name, number, id=f"{name}-{number}")
    for name, calls in SAMPLES.items()
    for number in range(len(calls))
]


def wrong_types(right: bytes) -> list[bytes]:
    """Return types that a key should not have: one, and all of them in the nightly profile."""
    wrong = [kind for kind in PUT if kind != right]
    return wrong if NIGHTLY else wrong[:1]


@pytest.mark.parametrize(("name", "number"), CASES)
def test_the_sample_state_is_lawful_and_stays_so(
    sync_speaker: SyncSpeaker, client: Any, bare_q: Queue, name: str, number: int
) -> None:
    assert broken_laws(fill(client, bare_q, name)) == []

    sync_speaker.run(SAMPLES[name][number](bare_q))

    if (name, number) != ("obliterate", 0):  # that one stops half way
        check_invariants(client, bare_q)


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_key_of_a_wrong_type_costs_no_job(
    sync_speaker: SyncSpeaker, client: Any, bare_q: Queue, name: str, number: int
) -> None:
    refused = [
        _run_damaged(sync_speaker, client, bare_q, name, number, [("DEL", key), PUT[wrong](key)])
        for key, right in KEYS.items()
        for wrong in wrong_types(right)
    ]
    assert any(refused) == (name not in NEVER_REFUSED)


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_row_of_a_wrong_type_costs_no_job(
    sync_speaker: SyncSpeaker, client: Any, bare_q: Queue, name: str, number: int
) -> None:
    """One row, and all rows at once."""
    for wrong in wrong_types(b"hash"):
        damages: list[list[Command]] = [
            [("DEL", f"job:{job_id}"), PUT[wrong](b"job:" + job_id.encode())] for job_id in ROWS
        ]
        damages.append([command for damage in damages for command in damage])
        for damage in damages if NIGHTLY else damages[-1:]:
            _run_damaged(sync_speaker, client, bare_q, name, number, damage)


NUMBERS = [
    b"abc", b"1.5", b"9" * 20, b"-1", b"007", b"", b"1e3", b"9007199254740991", None,
]  # fmt: skip
MORE_NUMBERS = [
    b"00", b"+1", b" 1", b"1 ", b"1\0", b"0x10", b"inf", b"nan", b"9007199254740990",
    b"9007199254740992", b"9223372036854775807",
]  # fmt: skip
ODD = [b"", b"\0\xff\r\n", b"x" * 1_000, samples.OTHER_LANE.encode(), None]
WORKERS = [b"", b"\0\xff\r\n", b":3", b"w:1", b"w:03", b":", None]
DAMAGES: list[tuple[str, bytes | None]] = [
    *(
        (field, value)
        for field in ("attempts", "failures", "stalled")
        for value in ([*NUMBERS, *MORE_NUMBERS] if NIGHTLY or field == "attempts" else NUMBERS)
    ),
    *((field, value) for field in ("group", "state", "payload", "unique") for value in ODD),
    *(("worker", value) for value in WORKERS),
]


def put_field(key: str, field: str, value: bytes | None) -> Command:
    return ("HDEL", key, field) if value is None else ("HSET", key, field, value)


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_damaged_field_costs_no_job(
    sync_speaker: SyncSpeaker, client: Any, bare_q: Queue, name: str, number: int
) -> None:
    """All rows get the same damage at once: each script meets it on its own job."""
    for field, value in DAMAGES:
        damage = [put_field(f"job:{job_id}", field, value) for job_id in OLD_ROWS]
        _run_damaged(sync_speaker, client, bare_q, name, number, damage)


COUNTERS = {
    "glimit": samples.LANE, "gactive": samples.LANE, "gweight": samples.LANE,
    "dj:turns": samples.LANE, "metrics:completed": "count", "metrics:failed": "count",
    "repeat:tick": "every_ms", "meta": "concurrency",
}  # fmt: skip


@pytest.mark.parametrize(("name", "number"), CASES)
def test_damaged_counters_cost_no_job(
    sync_speaker: SyncSpeaker, client: Any, bare_q: Queue, name: str, number: int
) -> None:
    for value in NUMBERS:
        everywhere = [put_field(key, field, value) for key, field in COUNTERS.items()]
        for damage in (everywhere, *([one] for one in everywhere if NIGHTLY)):
            _run_damaged(sync_speaker, client, bare_q, name, number, damage)


ADD: dict[bytes, Callable[[bytes, bytes], Command]] = {
    b"zset": lambda key, member: ("ZADD", key, "0", member),
    b"list": lambda key, member: ("LPUSH", key, member),
    b"set": lambda key, member: ("SADD", key, member),
    b"hash": lambda key, member: ("HSET", key, member, "1"),
}


@pytest.mark.parametrize(("name", "number"), CASES)
def test_members_that_are_no_ids_cost_no_job(
    sync_speaker: SyncSpeaker, client: Any, bare_q: Queue, name: str, number: int
) -> None:
    for member in (b"", b"\xff\0", b"00000", b"JOB0KHTOWnGLuC:logs", b"a:b}{"):
        damage = [ADD[kind](key, member) for key, kind in KEYS.items() if kind in ADD]
        _run_damaged(sync_speaker, client, bare_q, name, number, damage)


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_job_whose_id_another_speaker_made_up_is_kept_like_any_other(
    sync_speaker: SyncSpeaker, client: Any, bare_q: Queue, name: str, number: int
) -> None:
    damage: list[Command] = []
    for place, state in (
        (b"pending", "pending"),
        (b"active", "active"),
        (b"schedule", "scheduled"),
    ):
        for odd in (b"", b"\xff", b"JOB:logs"):
            job_id = b"0" + place + odd  # before every branded id, due and expired
            damage.append(("ZADD", place, "0", job_id))
            row = ("payload", "p", "state", state, "attempts", "1")
            damage.append(("HSET", b"job:" + job_id, *row))

    _run_damaged(sync_speaker, client, bare_q, name, number, damage)


@pytest.mark.parametrize(("name", "number"), CASES)
def test_odd_scores_cost_no_job(
    sync_speaker: SyncSpeaker, client: Any, bare_q: Queue, name: str, number: int
) -> None:
    places = fill(client, bare_q, name).places
    for score in ("-inf", "inf", "-1", "1.5", "1e300", "9007199254740992"):
        damage: list[Command] = [
            ("ZADD", held[0], score, job_id) for job_id, held in places.items()
        ]
        damage.append(("ZADD", "repeat", score, "tick"))
        _run_damaged(sync_speaker, client, bare_q, name, number, damage)


# Another slot's key, or no key but rows, or a look that takes what it finds.
NEVER_REFUSED = {"register", "registered", "row", "result", "update_payload", "progress", "payload"}
NEVER_REFUSED |= {"cancelled", "once"}
NEVER_REFUSED |= OPERATING_SAMPLES.keys() - {
    "depth_note", "mend", "periodic_fire", "periodic_look", "periodic_pause",
}  # fmt: skip # keys that carry a time in their names

NO_NUMBERS = ["0", "-1", "inf", "-inf", "nan", "0x10", "1e3", "", " 1 ", "1.5", "9" * 20, "\0", "x"]
FLAGS = {
    ("complete", 3), ("retry", 5), ("delay", 4), ("reap", 2), ("page", 4), ("obliterate", 0),
    ("sift", 4), ("sift", 7),
    ("remove", 0), ("complete_many", 0), ("hand_back", 2), ("hand_back", 5), ("hand_back", 8),
    ("hand_back", 11), ("mend", 0), ("take", 6), ("take", 7), ("promote", 1),
    ("periodic_pause", 1), ("park", 5),
}  # fmt: skip
TOKENS = {
    ("complete", 1), ("retry", 1), ("release", 1), ("delay", 1), ("extend", 1), ("extend_many", 2),
    ("extend_many", 4), ("complete_many", 2), ("complete_many", 6), ("park", 1),
    ("hand_back", 4), ("hand_back", 7), ("hand_back", 10), ("cancelled", 1), ("cancelled", 3),
}  # fmt: skip
# Where 0 says "none" or is a number like another, and where "" says "none".
ZERO = {
    ("schedule", 3), ("readmit", 4), ("readmit", 6), ("complete", 2), ("retry", 2), ("retry", 3),
    ("delay", 3),
    ("take", 5), ("reap", 1), ("page", 5), ("row", 1), ("lane_limit", 1), ("limit_queue", 0),
    ("limit_queue", 1), ("repeat_register", 3), ("complete_many", 3), ("complete_many", 4),
    ("complete_many", 7), ("complete_many", 8), ("complete_many", 10), ("complete_many", 11),
    ("complete", 4), ("complete", 5), ("complete", 6), ("park", 2), ("park", 3),
    ("hand_back", 0), ("hand_back", 1), ("reap", 3), ("sift", 5), ("sift", 8), ("payload", 0),
    ("sift", 10), ("sift", 11), ("sift", 12),
    ("metrics_flush", 0), ("worker_beat", 2), ("periodic_fire", 1), ("periodic_fire", 6),
    ("trim_dead", 1), ("trim_dead", 3),
}  # fmt: skip
EMPTY = {("limit_queue", 0), ("limit_queue", 1), ("repeat_register", 3)}


@pytest.mark.parametrize(("name", "number"), CASES)
def test_an_argument_that_is_no_number_is_refused_on_the_server_too(
    sync_speaker: SyncSpeaker, client: Any, bare_q: Queue, name: str, number: int
) -> None:
    """Arguments are sent raw, as another program could: the builders would not let them through."""
    call = SAMPLES[name][number](bare_q)
    for place, argument in enumerate(call.args):
        if not isinstance(argument, int) or (name, place) in FLAGS | TOKENS:
            continue
        for bad in NO_NUMBERS:
            if (bad == "0" and (name, place) in ZERO) or (bad == "" and (name, place) in EMPTY):
                continue
            before = fill(client, bare_q, name)
            args = (*call.args[:place], bad, *call.args[place + 1 :])

            with pytest.raises(errors.ScriptFailed, match="EMQARG"):
                sync_speaker.run(call._replace(args=args))

            assert read_state(client, bare_q) == before, (place, bad)


@pytest.mark.parametrize("token", ["", "0", "2", "03", " 3", "3 ", "3.0", "0x3", "\0", "-3"])
@pytest.mark.parametrize("name", ["complete", "retry", "release", "delay", "extend", "park"])
def test_a_token_is_compared_as_text(
    sync_speaker: SyncSpeaker, client: Any, bare_q: Queue, name: str, token: str
) -> None:
    before = fill(client, bare_q)
    call = SAMPLES[name][0](bare_q)

    verdict = sync_speaker.run(call._replace(args=(call.args[0], token, *call.args[2:])))

    assert verdict is Verdict.STALE
    assert read_state(client, bare_q) == before


@pytest.mark.parametrize("name", ["enqueue", "enqueue_lane", "enqueue_many", "schedule", "readmit"])
@pytest.mark.parametrize("kind", ["", "JO", "job0KHTOWnGLuC", "ORD0KHTOWnGLuC", "\0JOB", " JOB"])
def test_every_way_in_has_the_kind_gate(
    sync_speaker: SyncSpeaker, client: Any, bare_q: Queue, name: str, kind: str
) -> None:
    place = 3 if name == "enqueue_many" else 0  # the second id of the bulk: the first one is good
    call = SAMPLES[name][0](bare_q)
    args = (*call.args[:place], kind, *call.args[place + 1 :])

    with pytest.raises(errors.KindRefused):
        sync_speaker.run(call._replace(args=args))

    assert read_state(client, bare_q).keys == {}


@pytest.mark.parametrize("pairs", [0.5, 1.5, 1_000.5, 1_001, 4_000, 8_000])
def test_a_bulk_of_half_a_pair_or_too_many_is_refused_before_the_first_row(
    client: Any, sync_speaker: SyncSpeaker, bare_q: Queue, pairs: float
) -> None:
    call = SAMPLES["enqueue_many"][0](bare_q)
    flat: list[bytes | str | int] = [""]
    for n in range(int(pairs)):
        flat += [f"JOB{n:011}", b""]
    if pairs % 1:
        flat.append("JOBA0000000000")

    with pytest.raises(errors.ScriptFailed, match="EMQARG"):
        sync_speaker.run(call._replace(args=tuple(flat)))

    assert read_state(client, bare_q).keys == {}


def _run_damaged(
    speaker: SyncSpeaker,
    client: Any,
    q: Queue,
    name: str,
    number: int,
    damage: Sequence[Command],
) -> bool:
    """Run a Call on a damaged queue and check what it did; True when it was refused."""
    before = fill(client, q, name, damage)
    try:
        outcome: Any = speaker.run(SAMPLES[name][number](q))
    except errors.ProtocolError as exc:
        outcome = exc
    after = read_state(client, q)
    if isinstance(outcome, Exception):
        assert isinstance(outcome, errors.WrongType | errors.ScriptFailed)
        assert after == before, f"it wrote and then failed: {outcome}; {damage}"
        return True
    check_conserved(name, before, after, outcome)
    return False
