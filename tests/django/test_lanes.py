"""Lanes from primary keys: the same everywhere, reversible for whole numbers."""

from __future__ import annotations

import subprocess
import sys
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session
from django.utils.functional import SimpleLazyObject

from emq_django.errors import InvalidJobId, InvalidLane
from emq_django.lanes import key_of_lane, lane_for, namespace_of
from emq_django.protocol import ids


@pytest.mark.parametrize("key", [0, 1, 61, 62, 3_843, 3_844, 2**31, 2**63 - 1])
def test_a_whole_number_key_comes_back(key: int) -> None:
    lane = lane_for(User(pk=key))

    assert lane == "USR" + ids.encode(key)
    assert key_of_lane(lane) == key


@pytest.mark.parametrize("key", [-1, 2**63, uuid.UUID(int=7), "text", "5", "ä", ""])
def test_any_other_key_is_hashed_and_always_the_same(key: Any) -> None:
    def lane() -> str:
        return lane_for(Session(pk=key), "SES")

    assert lane() == lane()
    assert ids.is_branded(lane())
    assert lane() != lane_for(Session(pk=str(key) + "x"), "SES")


def test_a_hashed_lane_is_the_same_in_every_process() -> None:
    code = (
        "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.settings';"
        "import django; django.setup();"
        "from django.contrib.sessions.models import Session; from emq_django import lane_for;"
        "print(lane_for(Session(pk='a key')))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == lane_for(Session(pk="a key"))


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("User", "USR"), ("Group", "GRP"), ("Airport", "ARP"), ("Ad", "ADX"), ("A", "AXX"),
        ("AEIOU", "AEI"), ("Überschrift", "BRS"), ("X1y", "XYX"), ("Öä", "XXX"),
    ],
)  # fmt: skip
def test_three_capitals_are_made_from_the_name(name: str, namespace: str) -> None:
    assert namespace_of(name) == namespace
    assert ids.is_branded(namespace + "0" * 11)


def test_two_models_with_one_key_have_two_lanes() -> None:
    assert lane_for(User(pk=5)) != lane_for(Group(pk=5))
    assert lane_for(ContentType(pk=5)) == "CNT" + ids.encode(5)


def test_a_lazy_user_has_the_lane_of_the_user() -> None:
    lazy: Any = SimpleLazyObject(lambda: User(pk=5))

    assert lane_for(lazy) == lane_for(User(pk=5))


def test_a_proxy_model_names_the_lanes_of_its_rows() -> None:
    class Member(User):
        class Meta:
            proxy = True
            app_label = "auth"

    assert lane_for(Member(pk=5)) == lane_for(User(pk=5))
    assert lane_for(Member(pk=5), "MBR") == "MBR" + ids.encode(5)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (User(username="new"), "no primary key yet"),
        (AnonymousUser(), "no primary key"),
        (SimpleLazyObject(AnonymousUser), "no primary key"),
        (SimpleNamespace(pk=(1, None), _meta=None), "no primary key"),
        (User, "no model instance"),
        (SimpleNamespace(pk=5), "no model instance"),
        (None, "model"),
        (5, "model"),
        ("text", "model"),
    ],
)
def test_what_has_no_key_has_no_lane(what: Any, why: str) -> None:
    with pytest.raises(InvalidLane, match=why):
        lane_for(what)


@pytest.mark.parametrize("namespace", ["usr", "US", "USER", "U1R", "", "ÄÖÜ", 5, b"USR"])
def test_a_namespace_is_three_capitals(namespace: Any) -> None:
    with pytest.raises(InvalidLane, match="three capitals"):
        lane_for(User(pk=5), namespace)


@pytest.mark.parametrize("lane", ["", "text", None, 5, "USRzzzzzzzzzzz"])
def test_only_a_lane_has_a_key(lane: Any) -> None:
    with pytest.raises((InvalidLane, InvalidJobId)) as caught:
        key_of_lane(lane)

    assert type(caught.value) is InvalidLane
