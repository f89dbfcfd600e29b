"""Many processes that mint the same ids at the same time: no job is dropped, none is doubled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from emq_django.conf import keys

if TYPE_CHECKING:
    from collections.abc import Iterator


def stored(client: Any, queue: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield (id, payload) of each pending job."""
    named = keys(queue)
    job_ids = client.zrange(named.pending, 0, -1)
    for start in range(0, len(job_ids), 5_000):
        part = job_ids[start : start + 5_000]
        with client.pipeline(transaction=False) as pipe:
            for job_id in part:
                pipe.hget(named.row_base + job_id, "payload")
            yield from zip(part, pipe.execute(), strict=True)


@pytest.mark.server
@pytest.mark.parametrize(
    ("processes", "jobs"),
    [
        pytest.param(4, 250, marks=pytest.mark.slow),
        pytest.param(64, 10_000, marks=[pytest.mark.stress, pytest.mark.timeout(1_800)]),
    ],
)
def test_no_job_is_dropped_and_none_doubled_when_ids_collide(
    queue: str, redis_client: Any, processes: int, jobs: int
) -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    with ExitStack() as running:
        children = [
            running.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.stress.minting", queue, f"p{number}", str(jobs)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=environment,
                    text=True,
                )
            )
            for number in range(processes)
        ]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
        said = [json.loads(child.communicate()[0]) for child in children]

    expected = {f"p{number}:{job}" for number in range(processes) for job in range(jobs)}
    payloads = [payload.decode() for _, payload in stored(redis_client, queue)]
    told = [job_id for one in said for job_id in one["ids"]]
    assert len(payloads) == len(expected)
    assert set(payloads) == expected
    assert len(told) == len(set(told)) == len(expected)
    assert {job_id.decode() for job_id, _ in stored(redis_client, queue)} == set(told)
    minted = sum(one["minted"] for one in said)
    assert minted > len(expected), "no ids collided: the test did not test"
