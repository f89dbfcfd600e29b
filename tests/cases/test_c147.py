"""C147: sync tasks never meet a running loop, and async ones use the async ORM."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.auth.models import Group
from django.test import override_settings

from emq_django import task
from emq_django.task_backend.compat import TaskResultStatus
from tests.cases.commits import alias, groups
from tests.outbox.conftest import postgres

if TYPE_CHECKING:
    from tests.proxy import Proxy
    from tests.task_backend.conftest import Desk

__all__ = ["alias", "groups", "postgres"]


left_behind: list[asyncio.AbstractEventLoop] = []


@task(max_attempts=1)
def counts(alias: str) -> int:
    """Use the plain ORM, which refuses to run where a loop runs."""
    return Group.objects.using(alias).count()


@task(max_attempts=1)
def leaves_a_loop_behind() -> None:
    """Do what a library does that starts a loop and goes on without ending it."""
    left_behind.append(asyncio.new_event_loop())
    asyncio._set_running_loop(left_behind[-1])


@task(max_attempts=2, backoff=0)
async def async_counts(alias: str) -> int:
    return await Group.objects.using(alias).acount()


@task(max_attempts=1)
async def async_counts_plainly(alias: str) -> int:
    return Group.objects.using(alias).count()


def test_sync_tasks_use_the_plain_orm(desk: Desk, alias: str) -> None:
    before = async_counts.using(queue_name=desk.queue).enqueue(alias)
    after = counts.using(queue_name=desk.queue).enqueue(alias)
    desk.run(concurrency=1)

    for result in (before, after):
        result.refresh()
        assert result.return_value == 0


def test_a_loop_that_a_library_left_running_does_not_reach_the_next_task(
    desk: Desk, alias: str
) -> None:
    leaves_a_loop_behind.using(queue_name=desk.queue).enqueue()
    result = counts.using(queue_name=desk.queue).enqueue(alias)
    desk.run(concurrency=1)
    left_behind.pop().close()

    result.refresh()
    assert result.return_value == 0


def test_an_async_task_with_the_plain_orm_fails_once_with_djangos_error(
    desk: Desk, alias: str
) -> None:
    result = async_counts_plainly.using(queue_name=desk.queue).enqueue(alias)
    desk.run(concurrency=1)

    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    (error,) = result.errors
    assert error.exception_class_path == "django.core.exceptions.SynchronousOnlyOperation"


async def test_a_slow_server_holds_up_no_loop(desk: Desk, proxy: Proxy) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.005)
            turns += 1

    with override_settings(EMQ={**settings.EMQ, "CONNECTION": proxy.url}):
        task = counts.using(queue_name=desk.queue)
        await task.aenqueue("default")  # the connection is made, the queue is noted
        proxy.mode = "delay"
        beside = asyncio.create_task(others())
        result = await task.aenqueue("default")
        beside.cancel()

    assert turns >= 3, f"{turns} turns of others in {proxy.delay_s} s"
    assert result.status == TaskResultStatus.READY
