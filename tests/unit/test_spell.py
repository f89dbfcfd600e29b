"""Two spellings of one Call."""

from __future__ import annotations

import pytest

from emq_django.protocol import claim, enqueue, keyspace
from emq_django.wire.spell import NATIVE, pause_read, script_load, spell
from tests.samples import SAMPLES

Q = keyspace.queue("q")
ENQUEUE = enqueue.enqueue(Q, "JOB0KHTOWnGLuC", b"payload")
CLAIM = claim.claim(Q, 30_000)


@pytest.mark.parametrize("name", SAMPLES)
def test_on_wire_4_every_call_is_an_evalsha(name: str) -> None:
    call = SAMPLES[name][0](Q)

    command = spell(call, 4)

    assert command[:3] == ("EVALSHA", call.script.sha, len(call.keys))
    assert command[3:] == (*call.keys, *call.args)
    assert pause_read(call, 4) is None
    assert script_load(call) == ("SCRIPT", "LOAD", call.script.text)


def test_on_wire_6_enqueue_and_claim_are_native() -> None:
    assert spell(ENQUEUE, 6) == (
        "EMQ.ENQUEUE", 2, b"emq:{q}:job:JOB0KHTOWnGLuC", b"emq:{q}:pending", "JOB0KHTOWnGLuC",
        b"payload",
    )  # fmt: skip
    assert spell(CLAIM, 6) == (
        "EMQ.CLAIM", 3, b"emq:{q}:pending", b"emq:{q}:active", b"emq:{q}:", 30_000,
    )  # fmt: skip


def test_on_wire_6_the_pause_is_read_before_a_claim_only() -> None:
    assert pause_read(CLAIM, 6) == ("HGET", b"emq:{q}:meta", "paused")
    assert pause_read(ENQUEUE, 6) is None


@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - NATIVE))
def test_on_wire_6_everything_else_is_an_evalsha_too(name: str) -> None:
    call = SAMPLES[name][0](Q)

    assert spell(call, 6) == spell(call, 4)
    assert pause_read(call, 6) is None
