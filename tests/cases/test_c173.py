"""C173: a retention is what it says: so many seconds, 0 for none, and nothing else is taken."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.test import override_settings

from emq_django import task
from emq_django.conf import SettingsError, conf, keys
from emq_django.task_backend.compat import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
)
from tests.cases import tasks
from tests.task_backend import zoo
from tests.worker.processes import until

if TYPE_CHECKING:
    from tests.task_backend.conftest import Desk


def ttl_ms(client: Any, desk: Desk, result: Any) -> int:
    job_id = result.id.rpartition(":")[2].encode()
    kept: int = client.pttl(keys(desk.queue).row_base + job_id + b":result")
    return kept


@pytest.mark.parametrize(
    ("task", "setting", "kept_s"),
    [
        (zoo.add, 5, 5), (zoo.add, 0, 0), (zoo.add, None, 86_400),
        (tasks.keeps_for_5_s, 0, 5), (tasks.keeps_nothing, 60, 0),
    ],
)  # fmt: skip
def test_a_result_is_kept_for_as_long_as_its_setting_says(
    desk: Desk, redis_client: Any, task: Any, setting: int | None, kept_s: int
) -> None:
    arguments = {"a": 1} if task is zoo.add else {}
    with desk.set(RESULT_TTL_S=setting):
        result = task.using(queue_name=desk.queue).enqueue(**arguments)
        desk.run()

        if kept_s:
            assert kept_s * 1_000 - 5_000 < ttl_ms(redis_client, desk, result) <= kept_s * 1_000
            result.refresh()
            assert result.status == TaskResultStatus.SUCCESSFUL
        else:
            with pytest.raises(TaskResultDoesNotExist):
                task_backends["default"].get_result(result.id)


@pytest.mark.slow
def test_a_result_that_is_kept_for_5_s_is_read_at_3_and_gone_at_7(desk: Desk) -> None:
    with desk.set():
        result = tasks.keeps_for_5_s.using(queue_name=desk.queue).enqueue()
        desk.run()
        result.refresh()
        assert result.return_value == 1

        until(lambda: is_gone(result.id), "it is gone", 15)


async def test_what_is_asked_of_a_result_after_its_time_is_the_field_s_own_answer(
    desk: Desk,
) -> None:
    """By each of the four ways; what the caller has already stays as it was read."""
    with desk.set(RESULT_TTL_S=0.1):
        add = zoo.add.using(queue_name=desk.queue)
        result = await add.aenqueue(1, b=2)
        await sync_to_async(desk.run)()
        await sync_to_async(until)(lambda: is_gone(result.id), "it is gone", 15)

        for asks in (result.refresh, lambda: add.get_result(result.id)):
            with pytest.raises(TaskResultDoesNotExist, match="not kept any more"):
                await sync_to_async(asks)()
        with pytest.raises(TaskResultDoesNotExist, match="not kept any more"):
            await result.arefresh()
        with pytest.raises(TaskResultDoesNotExist, match="not kept any more"):
            await add.aget_result(result.id)
        assert (result.status, result.args) == (TaskResultStatus.READY, [1])


def is_gone(result_id: str) -> bool:
    try:
        task_backends["default"].get_result(result_id)
    except TaskResultDoesNotExist:
        return True
    return False


@pytest.mark.parametrize("value", ["5", -1, True, float("nan"), [], timedelta(seconds=5)])
def test_what_is_no_number_of_seconds_is_refused_in_the_settings(value: Any) -> None:
    with (
        override_settings(EMQ={**settings.EMQ, "RESULT_TTL_S": value}),
        pytest.raises(SettingsError, match=r"RESULT_TTL_S.*seconds from 0"),
    ):
        conf()


@pytest.mark.parametrize("value", ["5", -1, True, float("nan"), timedelta(seconds=-1)])
def test_what_is_no_duration_is_refused_on_a_task(value: Any) -> None:
    with pytest.raises(InvalidTask, match=r"result_ttl_s=.*seconds \(or a timedelta\)"):
        task(result_ttl_s=value)(tasks.keeps_nothing.func)


@pytest.mark.parametrize("name", ["RESULT_TTL", "RESULT_TLL_S", "result_ttl_s", "KEEP_RESULT_S"])
def test_a_misspelt_name_is_refused_and_the_nearest_one_named(name: str) -> None:
    with (
        override_settings(EMQ={**settings.EMQ, name: 5}),
        pytest.raises(SettingsError, match="RESULT_TTL_S"),
    ):
        conf()
