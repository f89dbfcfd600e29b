"""C113: a server that is away for long is a few lines in the log, and one when it is back."""

from __future__ import annotations

import re
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.worker.processes import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers import Server
    from tests.worker.processes import Bench


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("away_s", "most"), [(12, 12), pytest.param(120, 30, marks=pytest.mark.nightly)]
)
def test_an_outage_is_told_in_few_short_lines(
    bench: Bench, fresh_server: Callable[..., Server], away_s: float, most: int
) -> None:
    server = fresh_server(appendonly=True)
    bench.url = f"redis://:sesame@127.0.0.1:{server.port}/0"
    with server.client() as client:
        client.config_set("requirepass", "sesame")
    worker = bench.start("--processes", "1", "--concurrency", "8")
    worker.wait_for_log("tells this worker of new jobs")  # all that a start says is said
    before = len(worker.log().splitlines())
    server.stop()
    time.sleep(away_s)  # what is logged meanwhile is the point
    away = worker.log().splitlines()[before:]
    server.start()
    with server.client() as client:
        client.config_set("requirepass", "sesame")

    until(lambda: "works again" in worker.log(), "it is back", timeout_s=60)
    worker.signal(signal.SIGTERM)
    assert worker.exit_code() == 0
    assert 1 <= len(away) <= most, "\n".join(away)
    assert max(len(line.encode()) for line in away) <= 4_096
    assert " ERROR " in away[0]
    assert f"redis://127.0.0.1:{server.port}/0" in away[0]
    assert "sesame" not in worker.log()
    assert "Traceback" not in worker.log()
    back = re.findall(r"INFO server \S+ works again", worker.log())
    assert 1 <= len(back) <= 2  # the parent's connection, and the child's
