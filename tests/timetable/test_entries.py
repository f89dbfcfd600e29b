"""Entries of the settings and of the decorator: names, refusals, and what operators do to them."""

from __future__ import annotations

import json
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import override_settings

from emq_django import periodic
from emq_django.errors import ConfigError
from emq_django.task_backend import registry
from emq_django.timetable import operate
from emq_django.timetable.entries import Entry, entries
from emq_django.timetable.slots import Cron, Every
from tests.task_backend.conftest import TASKS
from tests.timetable import zoo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.timetable.conftest import Table

TICK = "tests.timetable.zoo.tick"


@pytest.fixture(autouse=True)
def _forget_discovery() -> Iterator[None]:
    with override_settings(TASKS=TASKS):
        yield
    registry._discovered = False


def configured(**entry: Any) -> dict[str, Entry]:
    emq = {**settings.EMQ, "TASK_MODULES": [], "PERIODIC": {"one": {"TASK": TICK, **entry}}}
    with override_settings(EMQ=emq):
        return entries()


def test_the_decorator_leaves_the_task_as_it_is(declared: dict[str, Entry]) -> None:
    decorated = periodic("*/5 * * * *", tz="Europe/Berlin", args=[1], kwargs={"a": 2})(zoo.tick)

    assert decorated is zoo.tick
    entry = declared[TICK]
    assert isinstance(entry.schedule, Cron)
    assert entry.schedule.zone.key == "Europe/Berlin"
    assert (entry.args, entry.kwargs, entry.task) == ((1,), {"a": 2}, zoo.tick)


def test_a_name_of_its_own_survives_a_renamed_function(declared: dict[str, Entry]) -> None:
    periodic(every=60, name="sweep")(zoo.tick)

    assert list(declared) == ["sweep"]
    assert declared["sweep"].schedule == Every(60_000)


def test_two_schedules_of_one_task_need_names(declared: dict[str, Entry]) -> None:
    periodic(every=60)(zoo.tick)

    with pytest.raises(ConfigError, match="name="):
        periodic(every=90)(zoo.tick)
    periodic(every=90, name="other")(zoo.tick)
    assert len(declared) == 2


def test_a_module_that_is_imported_again_replaces_its_entries(declared: dict[str, Entry]) -> None:
    periodic(every=60)(zoo.tick)
    again = zoo.tick.using()  # an equal task that is another object, as a reload makes it

    periodic(every=90)(again)

    assert declared[TICK].schedule == Every(90_000)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({}, "one of the two"),
        ({"CRON": "* * * * *", "EVERY_S": 5}, "one of the two"),
        ({"EVERY_S": 5, "TZ": "UTC"}, "no time zone"),
        ({"CRON": "* * * *"}, "fields"),
        ({"CRON": "* * * * *", "TZ": "Europe/Atlantis"}, "no time zone"),
        ({"CRON": "* * * * *", "TZ": "../etc"}, "no time zone"),
        ({"CRON": "* * * * *", "TZ": 5}, "no time zone"),
        ({"EVERY_S": 0}, "one second"),
        ({"EVERY_S": 5, "CATCH_UP": "some"}, "skip, one, all"),
        ({"EVERY_S": 5, "CATCH_UP_MAX": 0}, "catch_up_max"),
        ({"EVERY_S": 5, "LATE_S": -1}, "late_s"),
        ({"EVERY_S": 5, "ARGS": "text"}, "give a list"),
        ({"EVERY_S": 5, "KWARGS": []}, "give a dict"),
        ({"EVERY_S": 5, "TASK": "tick"}, "dotted path"),
        ({"EVERY_S": 5, "TASK": None}, "give .TASK."),
        ({"EVRY_S": 5}, "EVERY_S"),
    ],
)
def test_an_entry_that_cannot_work_is_refused_by_name(entry: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        configured(**entry)

    assert "one" in str(caught.value)


def test_names_are_checked_too() -> None:
    emq = {**settings.EMQ, "TASK_MODULES": [], "PERIODIC": {"": {"TASK": TICK, "EVERY_S": 5}}}
    with override_settings(EMQ=emq), pytest.raises(ConfigError, match="needs a name"):
        entries()


def test_one_name_in_settings_and_module_is_refused(declared: dict[str, Entry]) -> None:
    periodic(every=60, name="one")(zoo.tick)

    with pytest.raises(ConfigError, match="choose another"):
        configured(EVERY_S=5)
    assert declared


def test_what_is_no_task_is_refused() -> None:
    with pytest.raises(ConfigError, match="above @task"):
        periodic(every=60)(configured)  # type: ignore[type-var]


def test_the_check_says_what_is_wrong() -> None:
    from emq_django.checks import check_periodic

    emq = {**settings.EMQ, "TASK_MODULES": [], "PERIODIC": {"one": {"TASK": TICK}}}
    with override_settings(EMQ=emq):
        messages = check_periodic()
    gone = {"one": {"TASK": f"{TICK}tock", "EVERY_S": 5}}
    with override_settings(EMQ={**emq, "PERIODIC": gone}):
        messages += check_periodic()

    narrow = "tests.task_backend.zoo.add"
    misfit = {"one": {"TASK": narrow, "EVERY_S": 5, "ARGS": [1], "KWARGS": {"dry_run": True}}}
    with override_settings(EMQ={**emq, "PERIODIC": misfit}):
        messages += check_periodic()

    assert [message.id for message in messages] == ["emq.E010"] * 3
    assert "unexpected keyword argument 'dry_run'" in messages[2].msg
    assert "'one'" in messages[2].msg
    assert "one of the two" in messages[0].msg
    assert "no such task" in messages[1].msg
    assert check_periodic() == []


# --- operators -----------------------------------------------------------------------------------


def command(*arguments: str) -> str:
    out = StringIO()
    call_command("emq_periodic", *arguments, stdout=out)
    return out.getvalue()


def test_a_list_of_what_could_not_be_asked_is_no_success(table: Table) -> None:
    out = StringIO()
    with table.of(tick={"EVERY_S": 60}):
        away = {**settings.EMQ, "CONNECTION": "redis://127.0.0.1:1"}
        with override_settings(EMQ=away), pytest.raises(CommandError) as caught:
            call_command("emq_periodic", "--json", stdout=out)

    assert caught.value.returncode == 2
    assert json.loads(out.getvalue())[0]["trouble"]


def test_the_list_shows_what_the_server_knows(table: Table) -> None:
    with table.of(tick={"CRON": "0 9 * * *", "TZ": "Asia/Tokyo"}, other={"EVERY_S": 60}):
        table.keeper().tick()
        text, facts = command(), json.loads(command("--json"))

    assert "name  " in text
    assert "09:00:00 JST" in text
    assert [one["name"] for one in facts] == ["other", "tick"]
    assert facts[1]["next"].endswith("T00:00:00+00:00")
    assert facts[1]["task"] == TICK
    assert facts[1]["paused_since"] is None
    assert facts[1]["last_slot"] is not None


def test_pause_resume_and_fire(table: Table) -> None:
    with table.of(tick={"EVERY_S": 3_600}):
        assert command("pause", "tick") == "tick: paused\n"
        assert command("pause", "tick") == "tick: paused, as it was\n"
        assert json.loads(command("--json"))[0]["paused_since"]
        assert "paused" in command()
        assert table.jobs() == 0
        fired = json.loads(command("fire", "tick", "--json"))
        assert json.loads(command("resume", "tick", "--json"))["changed"] is True
        assert command("resume", "tick") == "tick: running, as it was\n"

    assert fired["job"].startswith(f"{table.queue}:JOB")
    assert table.jobs() == 1


def test_commands_that_name_nothing_are_refused(table: Table) -> None:
    with table.of(tick={"EVERY_S": 3_600}):
        for action in ("pause", "resume", "fire"):
            with pytest.raises(CommandError, match="Did you mean 'tick'") as unknown:
                command(action, "tik")
            assert unknown.value.returncode == 1
        with pytest.raises(CommandError, match="Give the name") as unnamed:
            command("pause")
        assert unnamed.value.returncode == 2
    assert "EMQ['PERIODIC']" in command()


def test_a_task_that_is_gone_is_listed_with_its_trouble(table: Table) -> None:
    with table.of(gone={"EVERY_S": 5, "TASK": "tests.timetable.zoo.gone"}, tick={"EVERY_S": 5}):
        standings = operate.standings()

    assert [bool(one.trouble) for one in standings] == [True, False]
