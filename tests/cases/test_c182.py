"""C182: documents and code agree on every setting and option: name, default, unit, what 0 means.

That each name and default stands on the page is tests/django/test_conf.py; here is what else a
reader of the tables relies on.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.core.checks import ERROR
from django.test import override_settings

from emq_django import checks
from emq_django.conf import SettingsError, conf, defaults
from emq_django.task_backend.task import EmqTask

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[2] / "docs" / "reference"
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| (.*?) ?\|$", re.MULTILINE)


def rows(page: str) -> Iterator[tuple[str, str, str]]:
    yield from ROW.findall((DOCS / page).read_text())


def test_every_duration_says_its_unit_in_its_name() -> None:
    documented = {name: words for name, _, words in rows("settings.md") if name.isupper()}
    durations = {name for name, words in documented.items() if words.startswith("How long")}
    assert {"LEASE_MS", "ENQUEUE_DEADLINE_S", "READ_TIMEOUT_S"} <= durations
    assert [name for name in durations if not name.endswith(("_MS", "_S"))] == []
    for place in defaults().values():
        for name, default in place.items():
            if isinstance(default, float):
                assert name.endswith("_S"), f"{name} is {default} of what?"


def test_every_option_of_a_task_stands_in_its_table_with_its_default() -> None:
    documented = {name: default for name, default, _ in rows("tasks.md")}
    own = {"max_attempts", "backoff", "retry_on", "give_up_on", "soft_time_limit_s", "time_limit_s",
           "lane", "unique", "expires_in_s", "lease_ms", "result_ttl_s"}  # fmt: skip

    fields = {name for name in EmqTask.__dataclass_fields__ if name in documented}

    assert fields == own
    for name in own:
        field = EmqTask.__dataclass_fields__[name]
        if documented[name].strip("`") in {"none", "all"} or "the queue's" in documented[name]:
            assert field.default in (None, ()), name
    assert 'EMQ["RESULT_TTL_S"]' in documented["result_ttl_s"]


@pytest.mark.parametrize(
    ("path", "zero"),
    [("MAX_ATTEMPTS", "0 and 1 both mean: never again"), ("HARD_LIMIT_S", "0 for no limit"),
     ("RESULT_TTL_S", "0 keeps none"), ("ENQUEUE_DEADLINE_S", "0 tries once")],
)  # fmt: skip
def test_what_0_means_is_said_where_it_is_taken(path: str, zero: str) -> None:
    (words,) = [words for name, _, words in rows("settings.md") if name == path]
    assert zero in words
    emq: dict[str, Any] = {**settings.EMQ}
    if path in defaults()["EMQ"]:
        emq[path] = 0
    else:
        emq["QUEUES"] = {"q": {path: 0}}

    with override_settings(EMQ=emq):
        assert conf() is not None


def test_a_range_that_is_said_is_the_one_that_is_kept() -> None:
    """ "From 1 to 1000", "at most 500": the value at the end is taken, the next one refused."""
    seen = 0
    for name, default, words in rows("settings.md"):
        found = re.search(r"(?:At|at) most (\d+)|[Ff]rom [\d.]+ to (\d+)", words)
        place = next((one for one, names in defaults().items() if name in names), None)
        if found is None or place is None or not default.strip("`").replace(".", "").isdigit():
            continue
        most = int(found[1] or found[2])
        for value, is_good in ((most, True), (most + 1, False)):
            emq = with_setting(place, name, value)
            if emq is None:
                continue
            with override_settings(EMQ=emq):
                if is_good:
                    assert conf() is not None
                else:
                    with pytest.raises(SettingsError, match=name):
                        conf()
            seen += 1
    assert seen >= 10


def with_setting(place: str, name: str, value: int) -> dict[str, Any] | None:
    if place == "EMQ":
        return {**settings.EMQ, name: value}
    if place == 'EMQ["ADMIN"]':
        return {**settings.EMQ, "ADMIN": {name: value}}
    return None


def test_an_unknown_setting_is_an_error_of_the_system_check() -> None:
    with override_settings(EMQ={**settings.EMQ, "LEESE_MS": 5}):
        (message,) = checks.check_settings()

    assert message.id == "emq.E001"
    assert message.level == ERROR
    assert "LEESE_MS" in message.msg
