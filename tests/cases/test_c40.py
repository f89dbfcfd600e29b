"""C40: 0 means 0, None means the default, and what can't be is refused.

That each setting keeps both apart is shown in tests/django/test_conf.py; here is what follows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.test import override_settings

from emq_django.api import claim, enqueue, enqueue_in, extend, retry
from emq_django.conf import conf, keys
from emq_django.connections import wire_for
from emq_django.errors import ConfigError, InvalidInput
from emq_django.protocol import upkeep
from emq_django.protocol.records import Verdict
from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.worker.processes import Bench

POLL_MS = 500  # an idle worker's longest pause


def _with(**options: Any) -> override_settings:
    return override_settings(EMQ={**settings.EMQ, "QUEUES": {"q": options}})


def test_no_retries_are_one_start_and_dead(bench: Bench) -> None:
    bench.settings = {"MAX_ATTEMPTS": 0, "BACKOFF_BASE_MS": 0}
    job_id = bench.add(**{"raise": "ValueError"})

    bench.burst("--processes", "0")

    assert bench.ledger.count("start") == {job_id: 1}
    assert bench.counts().dead == 1


def test_no_backoff_is_a_second_start_at_once(bench: Bench) -> None:
    bench.settings = {"BACKOFF_BASE_MS": 0, "MAX_ATTEMPTS": 3}
    job_id = bench.add(**{"raise": "ValueError"})

    bench.start("--processes", "0")

    until(lambda: bench.counts().dead == 1, "no try is left")
    starts_ms = [note.time_ns // 1_000_000 for note in bench.ledger.notes("start")]
    assert bench.ledger.count("start") == {job_id: 3}
    assert all(after - before <= POLL_MS + 500 for before, after in pairwise(starts_ms))


def test_no_delay_is_due_at_once(queue: str) -> None:
    where = keys(queue)
    enqueue_in(queue, b"x", 0)
    assert wire_for(where).run(upkeep.promote(where)).moved == 1
    job = claim(queue)
    assert job is not None

    assert retry(job, error="no", delay_ms=0) is Verdict.SCHEDULED
    assert wire_for(where).run(upkeep.promote(where)).moved == 1
    job = claim(queue)
    assert job is not None
    assert retry(job, error="no", delay_ms=0, max_attempts=0) is Verdict.DEAD


def test_none_is_the_default() -> None:
    with _with(LEASE_MS=None, MAX_ATTEMPTS=None, BACKOFF_BASE_MS=None, BACKOFF_CAP_MS=None):
        given = conf().queue("q")
    with _with():
        assert given == conf().queue("q")
    assert (given.lease_ms, given.max_attempts) == (30_000, 5)


@pytest.mark.parametrize(
    "options",
    [{"LEASE_MS": 0}, {"LEASE_MS": -1}, {"MAX_ATTEMPTS": -1}, {"BACKOFF_BASE_MS": -1},
     {"BACKOFF_CAP_MS": -1}, {"HARD_LIMIT_S": -1}],
)  # fmt: skip
def test_a_setting_that_cannot_be_is_refused(options: dict[str, int]) -> None:
    with _with(**options), pytest.raises(ConfigError, match=str(*options.values())):
        conf()


@pytest.mark.parametrize("lease_ms", [0, -1])
def test_a_lease_of_nothing_is_refused(queue: str, lease_ms: int) -> None:
    enqueue(queue, b"x")
    with pytest.raises(InvalidInput):
        claim(queue, lease_ms)
    job = claim(queue)
    assert job is not None
    with pytest.raises(InvalidInput):
        extend(job, lease_ms=lease_ms)
    with pytest.raises(InvalidInput):
        enqueue_in(queue, b"x", -1)
