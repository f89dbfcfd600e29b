"""C125: on a cluster everything of a queue is in one slot, and many queues are asked one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import override_settings
from django.urls import reverse
from redis.exceptions import ResponseError

from emq_django import control, enqueue, enqueue_in, enqueue_many
from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol.keyspace import slot
from emq_django.protocol.records import Verdict
from emq_django.workers import worker_for
from tests.kinds import Kind, open_kind
from tests.operating.shell import run_here
from tests.samples import LANE, SAMPLES, fill
from tests.task_backend import zoo
from tests.task_backend.conftest import TASKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.test import Client

    from tests.servers import Server

NAMES = ("a", "b", "ünïcode")


@pytest.fixture(
    scope="module",
    params=[1, pytest.param(3, marks=pytest.mark.nightly)],
    ids=lambda n: f"{n} nodes",
)
def cluster(request: pytest.FixtureRequest, server: Server) -> Iterator[Kind]:
    with open_kind("cluster", server, masters=request.param) as kind:
        yield kind


@pytest.fixture(autouse=True)
def _on_the_cluster(cluster: Kind) -> Iterator[None]:
    queues = {name: {"HANDLER": "builtins.repr"} for name in NAMES}
    with cluster.settings(QUEUES={**queues, "tasks": {}}):
        yield


def crossings(cluster: Kind) -> int:
    """Return how often a server refused a command, or one of a script, for its several slots."""
    found = 0
    for base in {keys(name).base for name in (*NAMES, "tasks")}:
        with cluster.client(base) as client:
            errors = client.info("errorstats")
        found += sum(said["count"] for error, said in errors.items() if "CROSSSLOT" in error)
    return found


def test_the_count_sees_a_script_that_crosses(server: Server) -> None:
    """What the other tests say is none is seen where there is one."""
    with open_kind("cluster", server, masters=1) as other, other.settings():
        with other.client(b"") as client, pytest.raises(ResponseError, match="same slot"):
            client.execute_command("EVAL", "return 1", 2, "a", "b")
        assert crossings(other) > 0


@pytest.mark.parametrize("name", NAMES)
def test_every_script_stays_in_the_slot_of_its_queue(cluster: Kind, name: str) -> None:
    q = keys(name)
    with cluster.client(q.base) as client:
        slots = set()
        for script, samples in SAMPLES.items():
            for sample in samples:
                call = sample(q)
                fill(client, q, script)
                wire_for(q).run(call)
                there = client.keys(q.base + b"*")
                slots |= {client.execute_command("CLUSTER", "KEYSLOT", key) for key in there}
                of_call = {client.execute_command("CLUSTER", "KEYSLOT", key) for key in call.keys}
                assert len(of_call) <= 1, script
        client.delete(*client.keys(q.base + b"*"))

    assert slots == {slot(q.base)}
    assert crossings(cluster) == 0


def test_workers_bring_back_promote_and_end_the_jobs_of_all_queues(cluster: Kind) -> None:
    for name in NAMES:
        enqueue(name, b"plain")
        enqueue(name, b"in a lane", lane=LANE)
        enqueue(name, b"one at a time", unique="k")
        twice = enqueue(name, b"one at a time", unique="k")
        assert twice.verdict is Verdict.DUPLICATE
        enqueue_many(name, [b"x"] * 20)
        enqueue_in(name, b"later", 1)
        gone = wire_for(keys(name)).run(SAMPLES["claim"][0](keys(name)))
        assert gone is not None
        control.extend_many(name, [gone], 1)

    ended = worker_for(NAMES, burst=True).run()

    assert ended.exit_code == 0
    for name in NAMES:
        counts = control.counts(name)
        left = (counts.waiting, counts.active, counts.scheduled, counts.dead)
        assert (left, counts.completed) == ((0, 0, 0, 0), 24)
    assert crossings(cluster) == 0


def test_unique_tasks_and_their_results_are_read_back(cluster: Kind) -> None:
    with override_settings(TASKS=TASKS):
        unique = zoo.unique_by_key.using(queue_name="tasks")
        first, second = unique.enqueue(), unique.enqueue()
        added = zoo.add.using(queue_name="tasks").enqueue(1, b=2)
        worker_for(["tasks"], burst=True).run()
        added.refresh()

    assert second.id == first.id
    assert added.return_value == 3
    assert crossings(cluster) == 0


@pytest.mark.django_db
def test_pages_and_commands_over_many_queues_ask_each(cluster: Kind, root: Client) -> None:
    for name in NAMES:
        enqueue_many(name, [b"x"] * 3)

    page = root.get(reverse("admin:emq_django_queue_changelist")).content.decode()
    shown = [
        run_here(*words) for words in (("emq_queues",), ("emq_health",), ("emq_doctor", "--fix"))
    ]
    purged = [run_here("emq_queue", name, "obliterate", "--yes", "--force") for name in NAMES]

    assert all(name in page for name in NAMES)
    assert all(name in shown[0].out for name in NAMES)
    assert [one.code for one in (*shown, *purged)] == [0] * 6, [
        one.text for one in (*shown, *purged)
    ]
    assert [control.counts(name).waiting for name in NAMES] == [0, 0, 0]
    assert crossings(cluster) == 0
