"""Data to text: what is masked, what is escaped, how times and sizes are said."""

from __future__ import annotations

import json
import math
import re
import time
from typing import Any

import pytest
from django.utils import timezone, translation
from hypothesis import given
from hypothesis import strategies as st

from emq_django import errors
from emq_django.admin import redact, render, words
from emq_django.admin.redact import MASK, indent, mask_secrets

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "name",
    [
        "password", "Passwd", "db_pwd", "client_secret", "accessToken", "apiKey", "X-Api-Key",
        "auth", "Authorization", "oauth", "card_number", "creditCard", "cvv", "pass\\u0077ord",
        "credentials", "set-cookie",
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", ['"v-1"', "917", "null", '["v-1", {"x": "v-1"}]', '{"a": "v-1"}'])
def test_values_of_names_that_look_like_secrets_are_masked(name: str, value: str) -> None:
    masked = mask_secrets(f'{{"before": 1, "deep": [{{"{name}": {value}, "after": 2}}]}}')

    assert "v-1" not in masked
    assert "917" not in masked
    found = json.loads(masked)
    assert (found["before"], found["deep"][0]["after"]) == (1, 2)
    assert MASK in json.dumps(found)


@pytest.mark.parametrize(
    "text",
    ['{"author": "ann", "keyword": "x", "keyboard": 1}', "KeyError: 'name'", '{"a": "the token"}',
     "AuthenticationFailed: try again", "no secret here", "", '"a" "b"', "5 of 6"],
)  # fmt: skip
def test_other_text_stays_as_it_is(text: str) -> None:
    assert mask_secrets(text) == text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("password=v-1&x=1", "password=********&x=1"),
        ("{'password': 'v-1', 'b': 1}", "{'password': ********, 'b': 1}"),
        ("Authorization: Bearer v-1\nnext", "Authorization: ********\nnext"),
        ('{"password": "v-1', '{"password": ********'),
        ('5" disk {"password": "v-1"}', '5" disk {"password": ********}'),
        ('{"a": 1}\n{"token": "v-1"}', '{"a": 1}\n{"token": ********}'),
        ('Refused {"key": {"x": "v-1"}}, again', 'Refused {"key": ********}, again'),
    ],
)
def test_text_that_is_not_json_is_searched_as_well(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked


def test_json_inside_a_string_is_masked_too() -> None:
    inner = json.dumps({"password": "v-1", "n": 1})

    masked = json.loads(
        mask_secrets(json.dumps({"body": inner, "url": "https://x/?token=v-1&b=2"}))
    )

    assert json.loads(masked["body"]) == {"password": MASK, "n": 1}
    assert masked["url"] == f"https://x/?token={MASK}&b=2"


@given(JSON)
def test_masking_and_indenting_keep_json_what_it_is(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, separators=(",", ":"))):
        assert json.loads(indent(text)) == value
        masked = mask_secrets(text)
        json.loads(masked)
        if not redact._SECRET.search(text) and "\\u" not in text:
            assert masked == text


def test_numbers_keep_every_digit() -> None:
    text = '{"n": 1.10, "big": 123456789012345678901234567890, "token": 5}'

    assert '"n": 1.10, "big": 123456789012345678901234567890' in mask_secrets(text)


@pytest.mark.parametrize(
    "unit",
    [
        "key",
        '"key":',
        "a ",
        '"',
        "\\",
        '\\"',
        "[",
        '{"key":',
        "key:",
        'key=\\"',
        "key='",
        "token (",
    ],
)
def test_no_payload_makes_masking_slow(unit: str) -> None:
    text = (unit * 65_536)[:65_536]
    started = time.process_time()  # what others do on this machine counts for nothing

    indent(mask_secrets(text))

    assert time.process_time() - started < 1


@given(st.text())
def test_visible_text_holds_nothing_that_hides(text: str) -> None:
    shown = render.visible(text)

    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]", shown
    )
    shown.encode()  # no lone surrogate is left


def test_letters_of_all_scripts_stay() -> None:
    text = "größe 日本語\u3000नमस्ते 🙂 a\u00a0b\ttab\nline"

    assert render.visible(text) == text


def test_one_line_is_one_line_and_short() -> None:
    assert render.one_line("a\n\n  b\tc", 10) == "a b c"
    assert render.one_line("x" * 500, 10) == "xxxxxxxxxx…"


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "under 1 s"), (999, "under 1 s"), (18_000, "18 s"), (192_000, "3 min 12 s"),
     (11_520_000, "3 h 12 min"), (90_000_000, "1 d 1 h"), (-18_000, "18 s")],
)  # fmt: skip
def test_a_span_is_said_in_its_two_largest_units(ms: int, text: str) -> None:
    assert words.span(ms) == text


def test_leases_and_due_times_are_signed_in_words() -> None:
    assert words.lease(19_000, 1_000).words == "18 s left"
    assert words.lease(1_000, 5_000).words == "expired 4 s ago"
    assert words.lease(1_000, 5_000).late
    assert words.due(61_000, 1_000).words == "in 1 min 0 s"
    assert words.due(1_000, 61_000).words == "due since 1 min 0 s"
    assert words.lease(math.inf, 1_000).iso == ""


def test_an_id_from_a_fast_clock_is_not_given_a_negative_age() -> None:
    assert words.minted(61_000, 1_000).words == "1 min 0 s ahead of the server's clock"


def test_a_moment_carries_utc_for_machines_and_the_readers_zone() -> None:
    with timezone.override("Asia/Tokyo"):
        moment = words.stamp(1_704_067_200_123)

    assert moment.iso == "2024-01-01T00:00:00.123Z"
    assert moment.words == "2024-01-01 09:00:00 JST"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1_500, "1.5 kB"), (5_000_000, "5.0 MB")],
)
def test_sizes_are_said_in_units(count: int, text: str) -> None:
    assert words.size(count) == text


def test_numbers_are_said_as_the_reader_writes_them() -> None:
    with translation.override("de"):
        said = (words.size(1_996), words.size(5_250_000), words.exact_span(1_480))

    assert said == ("2,0 kB", "5,2 MB", "1,5 s")
    assert words.exact_span(1_480) == "1.5 s"


def test_every_error_of_the_tree_has_words() -> None:
    unknown = words.problem(ValueError("x")).headline
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    own = [kind for kind in kinds if issubclass(kind, errors.EmqError)]

    assert len(own) > 20
    for kind in own:
        args: tuple[Any, ...] = ("text",)
        if kind is errors.PartlyEnqueued:
            args = ("text", [])
        assert words.problem(kind(*args)).headline != unknown


def test_what_answers_as_something_else_is_not_called_silent() -> None:
    assert (
        words.problem(errors.WrongAddress("x")).headline == "What answers is not the queue server."
    )
