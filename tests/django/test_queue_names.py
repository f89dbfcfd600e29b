"""A name that no new queue may have is refused at every door, in the same words."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import override_settings

from emq_django import api, control, task
from emq_django import outbox as outbox_app
from emq_django.checks import check_periodic
from emq_django.conf import SettingsError, conf, keys
from emq_django.errors import ConfigError, InvalidInput
from emq_django.task_backend.backend import EmqBackend
from emq_django.task_backend.compat import InvalidTask
from emq_django.timetable.entries import entries
from emq_django.workers import options_for
from tests.task_backend import zoo
from tests.task_backend.conftest import TASKS

if TYPE_CHECKING:
    from collections.abc import Callable

ODD = [" ", "emails ", "\tx", "line\nbreak", "\u202eabc", "zero\u200bwidth"]
RULE = "can't be a new queue: a name is made of characters that can be seen"

DOORS: dict[str, Callable[[str], object]] = {
    "enqueue": lambda name: api.enqueue(name, b"x"),
    "enqueue_in": lambda name: api.enqueue_in(name, b"x", 5),
    "enqueue_at": lambda name: api.enqueue_at(name, b"x", datetime.now(UTC)),
    "enqueue_many": lambda name: api.enqueue_many(name, [b"x"]),
    "on commit": lambda name: api.enqueue(name, b"x", on_commit=True),
    "outbox": lambda name: outbox_app.enqueue(name, b"x"),
    "repeat": lambda name: control.register_repeat(name, "r", 1_000, b"x"),
    "task": lambda name: zoo.add.using(queue_name=name),
    "worker": lambda name: options_for([name]),
    "emq_worker": lambda name: call_command("emq_worker", name, burst=True),
    "emq_enqueue": lambda name: call_command("emq_enqueue", name, "x", stdout=StringIO()),
}


@pytest.mark.django_db
@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_is_refused_before_anything_is_sent(
    name: str, monitor: Callable[[], Any]
) -> None:
    with override_settings(TASKS=TASKS), monitor() as recording:
        said = {door: _refusal(enter, name) for door, enter in DOORS.items()}

    assert {door for door, words in said.items() if RULE not in words} == set(), said
    assert {door for door, words in said.items() if repr(name)[1:-1] not in words} == set(), said
    prefix = conf().queue_prefix.encode()
    assert not [words for words in recording.commands if prefix in b" ".join(words)]


@pytest.mark.parametrize("name", ["", "a{b", "a\0b", "emq", "x" * 129])
def test_what_the_protocol_forbids_is_refused_there_too(name: str) -> None:
    with override_settings(TASKS=TASKS, EMQ={**settings.EMQ, "QUEUE_PREFIX": ""}):
        for door in ("enqueue", "enqueue_many", "repeat", "task", "worker", "emq_worker"):
            assert _refusal(DOORS[door], name), door


@pytest.mark.parametrize("name", [None, 7, b"emails", ["emails"]])
def test_what_is_no_text_is_refused_there_too(name: Any) -> None:
    with override_settings(TASKS=TASKS):
        for door in ("enqueue", "enqueue_many", "repeat", "worker"):
            assert "give text" in _refusal(DOORS[door], name), door
    with override_settings(TASKS=TASKS), pytest.raises(InvalidTask, match="give text"):
        task(queue_name=name)(zoo.add.func)


@pytest.mark.parametrize("name", ODD)
def test_the_settings_refuse_it(name: str) -> None:
    with override_settings(EMQ={"QUEUES": {name: {}}}), pytest.raises(SettingsError, match=RULE):
        conf()
    with (
        override_settings(EMQ={"QUEUE_PREFIX": "\u200b"}),
        pytest.raises(SettingsError, match=RULE),
    ):
        conf()
    (found,) = EmqBackend("default", {"QUEUES": [name]}).check()
    assert (found.id, RULE in found.msg) == ("emq.E021", True)


def test_the_queues_of_a_backend_are_a_list_of_names() -> None:
    with pytest.raises(SettingsError, match="'emails': give a list"):
        EmqBackend("default", {"QUEUES": "emails"})
    found = EmqBackend("default", {"QUEUES": [7, "fine", None]}).check()
    assert [one.id for one in found] == ["emq.E021", "emq.E021"]


def test_a_periodic_entry_refuses_it() -> None:
    entry = {"TASK": "tests.task_backend.zoo.add", "EVERY_S": 60, "QUEUE": " "}
    emq = {**settings.EMQ, "TASK_MODULES": [], "PERIODIC": {"one": entry}}
    with override_settings(TASKS=TASKS, EMQ=emq):
        with pytest.raises(ConfigError, match=f"QUEUE.* is ' '.*{RULE}"):
            entries()["one"].check()
        (found,) = check_periodic()
    assert (found.id, RULE in found.msg) == ("emq.E010", True)


def test_a_queue_that_has_such_a_name_can_be_read_and_removed(
    redis_client: Any,
) -> None:
    redis_client.zadd(keys(" ").pending, {"JOB00000000001": 0})

    assert control.counts(" ").pending == 1
    call_command("emq_queue", " ", "obliterate", yes=True, stdout=StringIO())

    assert control.counts(" ").pending == 0


def _refusal(enter: Callable[[Any], object], name: Any) -> str:
    """Return what is said at a door that stays shut."""
    with pytest.raises((InvalidInput, InvalidTask, CommandError)) as caught:
        enter(name)
    return str(caught.value)
