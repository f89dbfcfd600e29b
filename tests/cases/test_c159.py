"""C159: of all presses of "retry" one counts; the error of the life before stays readable.

Twenty presses at once: tests/django/test_admin_actions, test_of_twenty_presses_at_once_one_retries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emq_django.protocol import settle
from emq_django.protocol.records import Verdict
from tests.django.conftest import job_url, queue_url, text_of
from tests.django.test_admin_actions import press, said

if TYPE_CHECKING:
    from django.test import Client

    from tests.django.conftest import Jobs


def test_a_retry_from_a_second_tab_does_nothing_whatever_became_of_the_job(
    jobs: Jobs, root: Client
) -> None:
    job_id = jobs.add()
    jobs.run(settle.retry(jobs.keys, jobs.claim(), "ValueError: the first life", 0, 1))
    for _tab in (1, 2):
        assert job_id in text_of(root.get(queue_url(jobs.name, "?tab=dead")))

    first = said(root, press(root, jobs, "dead", "retry", job_id))
    waiting = said(root, press(root, jobs, "dead", "retry", job_id))
    job = jobs.claim()
    running = said(root, press(root, jobs, "dead", "retry", job_id))
    while_it_runs = text_of(root.get(job_url(jobs.name, job_id)))
    ended = jobs.run(settle.complete(jobs.keys, job))
    over = said(root, press(root, jobs, "dead", "retry", job_id))

    assert "Retry selected: 1 done." in first
    for page in (waiting, running, over):
        assert "Retry selected: 0 done, 1 no longer applicable." in page
    assert job.attempts == 2
    assert ended is Verdict.COMPLETED
    assert "Error before it was retried" in while_it_runs
    assert "ValueError: the first life" in while_it_runs
    for part in (jobs.keys.dead, jobs.keys.pending, jobs.keys.active):
        assert jobs.redis.zcard(part) == 0
