"""C157: the active list has the busy, the overdue and the vanished, and says which is which."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from django.test import override_settings

from emq_django.protocol import claim
from tests.django.conftest import queue_url, text_of

if TYPE_CHECKING:
    from django.test import Client

    from tests.django.conftest import Jobs

ZONE = "Asia/Kathmandu"


def test_a_live_lease_an_expired_one_and_a_ghost(jobs: Jobs, root: Client) -> None:
    busy, late, ghost = (jobs.add() for _ in range(3))
    jobs.run(claim.take(jobs.keys, "w1", 30_000, 3))
    jobs.redis.zadd(jobs.keys.active, {late: 1_700_000_000_000})
    jobs.redis.delete(jobs.keys.row(ghost))

    with override_settings(TIME_ZONE=ZONE):
        page = text_of(root.get(queue_url(jobs.name, "?tab=active")))

    rows = {
        job_id: row
        for row in re.findall(r"<tbody>.*?</tbody>", page, re.DOTALL)
        for job_id in (busy, late, ghost)
        if job_id in row
    }
    assert len(rows) == 3
    assert re.search(r"<bdi>\d+ s left</bdi>", rows[busy])
    assert f'value="{busy}.1"' in rows[busy]  # its token: an action is about this claim
    assert "w1:1" in rows[busy]
    assert "expired" in rows[late]
    # 1_700_000_000_000 is 22:13:20 UTC; the viewer's clock says:
    assert 'title="2023-11-15 03:58:20 +0545"' in rows[late], ZoneInfo(ZONE)
    assert "row is missing" in rows[ghost]
    assert "<dt>Active</dt><dd>3</dd>" in page
    assert "<dt>Expired leases</dt>" in page
    assert jobs.redis.zcard(jobs.keys.active) == 3
