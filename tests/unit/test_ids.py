"""Branded ids: the codec, the vectors of the protocol, validation, and the mint."""

from __future__ import annotations

import random
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emq_django.errors import InvalidJobId, InvalidLane
from emq_django.protocol import ids
from emq_django.protocol.ids import EPOCH_MS, MAX_VALUE, Mint

VECTORS = [  # number, id, Unix ms
    (0, "JOB00000000000", 1704067200000),
    (1, "JOB00000000001", 1704067200000),
    (61, "JOB0000000000z", 1704067200000),
    (62, "JOB00000000010", 1704067200000),
    (4095, "JOB00000000143", 1704067200000),
    (4096, "JOB00000000144", 1704067200000),
    (4194304, "JOB0000000Hb84", 1704067200001),
    (274557032793636864, "JOB0KHTOWnGLuC", 1769526697641),
    (320636799581945856, "JOB0NgWEfAEJfs", 1780512970164),
    (385478619566194688, "JOB0STUlGXw73g", 1795972464751),
    (9223372036854775807, "JOBAzL8n0Y58m7", 3903090455551),
]
REFUSED = [
    "job0KHTOWnGLuC", "JOB0KHTOWnGLu", "JOB0KHTOWnGLuCC", "JOB0KHTOWnGLu-", "JOBAzL8n0Y58m8",
    "JOBB0000000000", "JOBa0000000000", "JOBzzzzzzzzzzz", "J0B00000000000", "JOB-0000000000",
    "JOB 0000000000", "JOB0KHTOWnGLü1", "JOB\u0660KHTOWnGLuC", "ÄOB0KHTOWnGLuC", "JOB0KHTOWnGLu\n",
    "JOB0KHTOWnGLuC\n", "\0OB0KHTOWnGLuC", "", "JOB",
]  # fmt: skip
NOT_TEXT = [None, 0, 1.5, ["JOB0KHTOWnGLuC"], bytearray(b"JOB0KHTOWnGLuC")]

values = st.integers(0, MAX_VALUE)


@pytest.mark.smoke
@pytest.mark.parametrize(("number", "job_id", "unix_ms"), VECTORS)
def test_the_vectors_of_the_protocol(number: int, job_id: str, unix_ms: int) -> None:
    assert "JOB" + ids.encode(number) == job_id
    assert ids.decode(job_id) == number
    assert ids.minted_ms(job_id) == unix_ms


@given(values)
def test_every_number_survives_the_round_trip(number: int) -> None:
    job_id = "JOB" + ids.encode(number)

    assert len(job_id) == 14
    assert ids.valid_job_id(job_id) == job_id
    assert ids.decode(job_id) == number


@given(values, values)
def test_byte_order_is_numeric_order(one: int, other: int) -> None:
    assert (ids.encode(one).encode() < ids.encode(other).encode()) == (one < other)


@given(st.text("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", min_size=11,
               max_size=11))  # fmt: skip
def test_digits_are_an_id_exactly_when_their_number_is_in_range(digits: str) -> None:
    number = 0
    for digit in digits:
        number = number * 62 + ids._VALUE_OF[digit]

    assert ids.is_branded("JOB" + digits) == (number <= MAX_VALUE)


@pytest.mark.parametrize("number", [-1, MAX_VALUE + 1])
def test_a_number_out_of_range_is_refused(number: int) -> None:
    with pytest.raises(InvalidJobId, match=str(number)):
        ids.encode(number)


@pytest.mark.parametrize("bad", [*REFUSED, *NOT_TEXT])
def test_what_is_no_branded_id_is_refused_by_name(bad: str) -> None:
    with pytest.raises(InvalidJobId) as job_error:
        ids.valid_job_id(bad)
    with pytest.raises(InvalidLane) as lane_error:
        ids.valid_lane(bad)

    assert repr(bad) in str(job_error.value)
    assert repr(bad) in str(lane_error.value)


def test_other_bytes_than_ascii_are_refused() -> None:
    with pytest.raises(InvalidJobId):
        ids.valid_job_id(b"JOB0KHTOWnGL\xc3\xbc")


def test_text_and_bytes_are_the_same_id_and_any_namespace_passes_on_this_side() -> None:
    assert ids.valid_job_id(b"JOB0KHTOWnGLuC") == ids.valid_job_id("JOB0KHTOWnGLuC")
    assert ids.valid_job_id("ORD0KHTOWnGLuC") == "ORD0KHTOWnGLuC"
    assert ids.valid_lane(b"USR0KHTOWnGLuC") == "USR0KHTOWnGLuC"


@pytest.mark.parametrize(
    ("unix_ms", "first"),
    [
        (EPOCH_MS, "JOB00000000000"),
        (EPOCH_MS + 1, "JOB0000000Hb84"),
        (0, "JOB00000000000"),
        (10**15, "JOB" + ids.encode(MAX_VALUE >> 22 << 22)),
    ],
)
def test_the_bound_of_a_mint_time(unix_ms: int, first: str) -> None:
    assert ids.first_id_at(unix_ms) == first


# --- The mint -------------------------------------------------------------------------------------

NOW_NS = (EPOCH_MS + 1_000_000) * 1_000_000


class Clock:
    def __init__(self) -> None:
        self.ns = NOW_NS

    def __call__(self) -> int:
        return self.ns


def _mint(clock: Clock) -> Mint:
    return Mint(node=5, clock=clock, random_bits=lambda bits: 0)


def test_an_id_holds_ms_node_and_sequence() -> None:
    value = ids.decode(_mint(Clock()).one())

    assert (value >> 22, value >> 12 & 1023, value & 4095) == (1_000_000, 5, 0)


def test_10000_ids_of_a_frozen_clock_rise_and_use_3_ms() -> None:
    mint = _mint(Clock())

    minted = [mint.one() for _ in range(10_000)]

    assert minted == sorted(set(minted))
    assert {ids.minted_ms(job_id) - EPOCH_MS for job_id in minted} == {1_000_000, 1_000_001,
                                                                       1_000_002}  # fmt: skip
    assert {ids.decode(job_id) >> 12 & 1023 for job_id in minted} == {5}


def test_ids_go_on_rising_when_the_clock_steps_back_and_follow_it_when_it_is_ahead_again() -> None:
    clock = Clock()
    mint = _mint(clock)
    first = mint.one()

    clock.ns -= 5_000_000_000
    during = [mint.one() for _ in range(10_000)]
    clock.ns += 6_000_000_000
    later = mint.one()

    assert [first, *during, later] == sorted({first, *during, later})
    assert ids.minted_ms(later) == clock.ns // 1_000_000


def test_the_end_of_a_ms_is_borrowed_from_the_next() -> None:
    mint = _mint(Clock())
    mint.many(4096)

    value = ids.decode(mint.one())

    assert (value >> 22, value & 4095) == (1_000_001, 0)


def test_many_ids_come_in_order_and_before_the_next_one() -> None:
    mint = _mint(Clock())
    before = mint.one()

    minted = [before, *mint.many(5_000), mint.one(), *mint.many(1), *mint.many(0), mint.one()]

    assert len(minted) == 5_004
    assert minted == sorted(set(minted))


def test_the_sequence_of_a_new_ms_starts_at_random_in_the_lower_half() -> None:
    clock = Clock()
    mint = Mint(clock=clock)
    starts = set()
    for _ in range(200):
        clock.ns += 1_000_000
        starts.add(ids.decode(mint.one()) & 4095)

    assert len(starts) > 50
    assert max(starts) < 2048


def test_8_threads_mint_ids_that_are_all_different_and_rise_in_each_thread() -> None:
    per_thread: list[list[str]] = [[] for _ in range(8)]
    start = threading.Barrier(8)

    def work(minted: list[str]) -> None:
        start.wait()
        for _ in range(400):
            minted.append(ids.mint.one())
            minted += ids.mint.many(3)

    threads = [threading.Thread(target=work, args=(minted,)) for minted in per_thread]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(minted == sorted(minted) for minted in per_thread)
    assert len({job_id for minted in per_thread for job_id in minted}) == 8 * 1_600


def test_a_moved_mint_goes_on_as_another_node_in_the_next_ms_and_its_ids_still_rise() -> None:
    clock = Clock()
    mint = Mint(node=5, clock=clock, random_bits=lambda bits: bits)
    before = [mint.one() for _ in range(3)]
    mint.move()
    after = [mint.one() for _ in range(3)]
    clock.ns += 2_000_000
    later = mint.one()

    assert [*before, *after, later] == sorted({*before, *after, later})
    assert {ids.minted_ms(job_id) - EPOCH_MS for job_id in after} == {1_000_001}
    assert {ids.decode(job_id) >> 12 & 1023 for job_id in [*after, later]} == {10}


def test_a_mint_that_moves_while_others_mint_keeps_each_of_their_runs_in_order() -> None:
    mint = Mint()
    over = threading.Event()

    def move() -> None:
        while not over.is_set():
            mint.move()

    mover = threading.Thread(target=move)
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    mover.start()
    runs = [mint.many(20) for _ in range(300)]
    over.set()
    mover.join()
    sys.setswitchinterval(before_s)

    assert [run for run in runs if run != sorted(run)] == []
    assert runs == sorted(runs)


def test_a_mint_that_met_a_run_of_another_with_its_node_meets_no_more_of_it() -> None:
    run = set(_mint(Clock()).many(20_000))
    drawn = {10: 6, 11: 0}
    mint = Mint(node=5, clock=Clock(), random_bits=lambda bits: drawn[bits])
    assert set(mint.many(50)) <= run

    mint.move()

    assert run.isdisjoint(mint.many(20_000))


def test_another_namespace_can_be_minted() -> None:
    assert ids.is_branded(ids.mint.one("USR"))
    assert ids.mint.many(2, "EVT")[1].startswith("EVT")


def test_seeding_the_global_generator_does_not_make_two_mints_alike() -> None:
    random.seed(1)
    one = Mint(clock=Clock())
    random.seed(1)
    other = Mint(clock=Clock())

    assert {one.one() for _ in range(3)} != {other.one() for _ in range(3)}


FORKING = """
import contextlib, os, random
from emq_django.protocol.ids import mint
mint.one()
random.seed(1)
for held in (contextlib.nullcontext(), mint._lock, contextlib.nullcontext(), mint._lock):
    read, write = os.pipe()
    with held:  # as if another thread were minting at this moment
        pid = os.fork()
        if pid == 0:
            os.write(write, "\\n".join(mint.many(200)).encode())
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(write)
    print(os.read(read, 100_000).decode())
    os.close(read)
print("\\n".join(mint.many(200)))
"""


def test_forked_children_mint_ids_of_their_own() -> None:
    # A process of its own: this one may have threads, and must not be forked then.
    done = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, check=True, timeout=20
    )
    minted = done.stdout.split()

    assert len(set(minted)) == len(minted) == 1_000
    assert all(ids.is_branded(job_id) for job_id in minted)
    assert len({ids.decode(job_id) >> 12 & 1023 for job_id in minted}) > 1
