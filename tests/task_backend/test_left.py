"""`emq_job` and what a finished task left: its result, in safe words; nothing can be done to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.operating.shell import run_here
from tests.task_backend import zoo

if TYPE_CHECKING:
    from emq_django.task_backend.results import EmqTaskResult
    from tests.task_backend.conftest import Desk

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ended(desk: Desk) -> EmqTaskResult[..., list[object]]:
    result = zoo.echo.using(queue_name=desk.queue).enqueue({"password": "sesame", "to": "ann"})
    desk.run()
    return result


@pytest.mark.parametrize("named", [True, False])
def test_the_result_of_a_finished_task_is_shown_and_its_secrets_are_not(
    desk: Desk, ended: EmqTaskResult[..., list[object]], *, named: bool
) -> None:
    job_id = ended.id.partition(":")[2]
    arguments = (ended.id,) if named else (job_id, "--queue", desk.queue)

    said = run_here("emq_job", *arguments)
    as_json = json.loads(run_here("emq_job", *arguments, "--json").out)

    assert said.code == 0
    assert "place     finished; this is what it left" in said.out
    assert "task      tests.task_backend.zoo.echo" in said.out
    assert "value (" in said.out
    assert '"to": "ann"' in said.out
    assert "sesame" not in said.out + json.dumps(as_json)
    assert (as_json["id"], as_json["queue"], as_json["finished"]) == (job_id, desk.queue, True)
    assert '"to": "ann"' in as_json["contents"]["value"]["shown"]


@pytest.mark.parametrize("action", ["--cancel", "--retry", "--remove", "--release"])
def test_nothing_can_be_done_to_a_job_that_has_finished(
    ended: EmqTaskResult[..., list[object]], action: str
) -> None:
    outcome = run_here("emq_job", ended.id, action)

    assert (outcome.code, outcome.out) == (1, "")
    assert "it has finished and only its result is left: nothing was done" in outcome.err
    ended.refresh()
    assert ended.return_value == [[{"password": "sesame", "to": "ann"}], {}]


def test_the_arguments_of_a_finished_task_can_be_had_as_they_were(
    ended: EmqTaskResult[..., list[object]],
) -> None:
    outcome = run_here("emq_job", ended.id, "--raw")

    assert outcome.code == 0
    assert json.loads(outcome.out)["args"] == [{"password": "sesame", "to": "ann"}]


@pytest.mark.parametrize(
    ("size", "remark"), [(2_000, "too large to show"), (300_000, "too large to have been kept")]
)
def test_a_large_value_is_said_by_its_size(desk: Desk, size: int, remark: str) -> None:
    with desk.set(ADMIN={"PAYLOAD_MAX_BYTES": 1_000}):
        result = zoo.returns.using(queue_name=desk.queue).enqueue(size)
        desk.run()

        outcome = run_here("emq_job", result.id)

    assert outcome.code == 0
    assert f"value ({size + 2:,} bytes)\n    ({remark})" in outcome.out
    assert len(outcome.out) < 1_500
