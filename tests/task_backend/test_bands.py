"""A queue with priorities is three on the wire and one to people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.test import Client, override_settings
from django.urls import reverse

from emq_django import control, testing
from emq_django.admin.links import Links
from emq_django.conf import conf, keys
from tests.operating import shell
from tests.task_backend import zoo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.task_backend.conftest import Desk

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def desk(desk: Desk) -> Iterator[Desk]:
    """A queue with priorities and a job in each band."""
    desk.queues[desk.queue] = {"PRIORITIES": True, "EVENTS": True}
    with desk.set():
        task = zoo.noted.using(queue_name=desk.queue)
        for priority in (-5, 0, 5):
            task.using(priority=priority).enqueue(str(priority))
        yield desk


def bands(desk: Desk) -> list[str]:
    return [f"{desk.queue}.high", desk.queue, f"{desk.queue}.low"]


def paused(desk: Desk) -> list[bool]:
    return [desk.counts(band).paused for band in bands(desk)]


def test_what_the_settings_say_of_a_queue_holds_for_its_bands(desk: Desk) -> None:
    assert [keys(band).events for band in bands(desk)] == [True] * 3
    assert conf().bands(f"{desk.queue}.high") == (f"{desk.queue}.high",)


def test_the_name_of_a_band_is_taken() -> None:
    with (
        override_settings(EMQ={"QUEUES": {"mail": {"PRIORITIES": True}, "mail.low": {}}}),
        pytest.raises(ImproperlyConfigured, match=r"'mail\.low', which is a band of 'mail'"),
    ):
        conf()


def test_a_pause_holds_for_all_bands(desk: Desk) -> None:
    assert control.pause(desk.queue)
    assert not control.pause(desk.queue)
    assert paused(desk) == [True] * 3
    desk.run()
    assert desk.notes() == []

    assert control.resume(desk.queue)
    desk.run()
    assert len(desk.notes()) == 3


async def test_a_pause_by_async_code_holds_for_all_bands(desk: Desk) -> None:
    assert await control.apause(desk.queue)
    assert paused(desk) == [True] * 3
    assert await control.aresume(desk.queue)
    assert paused(desk) == [False] * 3


def test_one_band_can_be_paused_by_its_own_name(desk: Desk) -> None:
    control.pause(f"{desk.queue}.low")

    assert paused(desk) == [False, False, True]


def test_run_pending_runs_all_bands(desk: Desk) -> None:
    assert len(testing.run_pending(desk.queue)) == 3


def test_a_command_acts_on_all_bands(desk: Desk) -> None:
    assert shell.run_here("emq_queue", desk.queue, "pause").out == f"{desk.queue}: paused\n"
    assert paused(desk) == [True] * 3
    assert shell.run_here("emq_queue", desk.queue, "pause").out.endswith(", as it was\n")
    shell.run_here("emq_queue", desk.queue, "resume")
    assert paused(desk) == [False] * 3

    said = shell.run_here("emq_queue", desk.queue, "drain", "--yes").out

    assert said == f"{desk.queue}: 3 jobs were removed\n"
    assert [desk.counts(band).pending for band in bands(desk)] == [0, 0, 0]


def test_the_dead_of_all_bands_are_retried_and_all_are_obliterated(desk: Desk) -> None:
    task = zoo.returns_a_set.using(queue_name=desk.queue)
    testing.run_pending(desk.queue)
    for priority in (-5, 0, 5):
        task.using(priority=priority).enqueue()
    testing.run_pending(desk.queue, raise_errors=False)

    assert "3 jobs wait again" in shell.run_here("emq_queue", desk.queue, "retry-dead").out
    assert "3 jobs with it" in shell.run_here("emq_queue", desk.queue, "obliterate", "--yes").out


def test_lists_show_one_queue_with_the_sum(desk: Desk) -> None:
    control.pause(f"{desk.queue}.high")

    (line,) = json.loads(shell.run_here("emq_queues", desk.queue, "--json").out)["queues"]
    everything = json.loads(shell.run_here("emq_queues", "--json").out)["queues"]

    assert (line["pending"], line["state"]) == (3, "paused")
    assert [one["name"] for one in everything if one["name"].startswith(desk.queue)] == [desk.queue]


def test_the_admin_shows_one_queue_and_pauses_all_bands(desk: Desk, client: Client) -> None:
    client.force_login(User.objects.create_superuser("root"))
    url = Links("admin").queue(desk.queue) or ""

    overview = client.get(reverse("admin:emq_django_queue_changelist")).content.decode()
    page = client.get(url).content.decode()
    client.post(url, {"action": "pause", "confirmed": "1"})

    assert f">{desk.queue}<" in overview
    assert f">{desk.queue}.high<" not in overview
    assert "<dt>Waiting</dt><dd>3</dd>" in page
    assert f"{desk.queue}.low" in page  # where the least urgent job is
    assert paused(desk) == [True] * 3
    assert 'value="resume"' in client.get(url).content.decode()
