"""What a list's URL asks for, and how that becomes one read."""

from __future__ import annotations

import bisect
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emq_django.admin import asking, paging, tokens
from emq_django.admin.asking import Ask, Order, Tab
from emq_django.admin.bands import Hit
from emq_django.protocol.ids import EPOCH_MS, first_id_at, mint
from emq_django.protocol.keyspace import id_bytes, id_text
from emq_django.protocol.records import Blob, Entry

ID = "JOB0123456789a"


def hit(job_id: str) -> Hit:
    nothing = Blob(0, None)
    entry = Entry(job_id, 0.0, True, None, None, None, None, None, None, nothing, nothing)
    return Hit("some", entry)


def query(url: str) -> dict[str, str]:
    return dict(parse_qsl(url.removeprefix("?")))


def read(ids: list[str], ask: Ask, size: int) -> paging.Slice:
    """Read a page of an id-ordered set as the server does."""
    done = paging.plan(ask, EPOCH_MS)
    raw = sorted(id_bytes(one) for one in ids)
    cursor = None if done.place.cursor is None else id_bytes(done.place.cursor)
    if done.place.reverse:
        rest = raw if cursor is None else raw[: bisect.bisect_left(raw, cursor)]
        rest = rest[::-1]
    else:
        rest = raw if cursor is None else raw[bisect.bisect_right(raw, cursor) :]
    hits = [hit(id_text(one)) for one in rest[:size]]
    return paging.cut(ask, done, hits, len(rest) > size)


@given(st.integers(0, 40), st.integers(1, 7), st.sampled_from(Order))
def test_walking_on_and_back_shows_every_id_once(count: int, size: int, order: Order) -> None:
    ids = mint.many(count)
    ask: Ask | None = Ask(order=order)
    pages: list[list[str]] = []
    last = Ask(order=order)

    while ask is not None:
        part = read(ids, ask, size)
        pages.append([row.entry.id for row in part.hits])
        last, ask = ask, part.following

    shown = [one for page in pages for one in page]
    assert shown == (ids if order is Order.FIRST else ids[::-1])
    back: list[list[str]] = []
    ask = last
    while ask is not None:
        part = read(ids, ask, size)
        back.append([row.entry.id for row in part.hits])
        ask = part.previous
    assert back == pages[::-1]


@pytest.mark.parametrize("order", Order)
def test_a_prefix_bounds_the_list_at_both_ends(order: Order) -> None:
    ids = [f"JOB0{tail}000000000" for tail in ("11", "1z", "21", "22", "2z", "31")]

    part = read(ids, Ask(prefix="JOB02", order=order), 10)

    assert sorted(row.entry.id for row in part.hits) == ids[2:5]
    assert part.following is None


def test_a_whole_id_as_prefix_finds_that_id_alone() -> None:
    ids = mint.many(5)

    assert [row.entry.id for row in read(ids, Ask(prefix=ids[2]), 10).hits] == [ids[2]]


def test_a_mint_window_starts_with_the_first_id_of_its_millisecond() -> None:
    now_ms = EPOCH_MS + 10 * 3_600_000
    edge = first_id_at(now_ms - 3_600_000)
    before = first_id_at(now_ms - 3_600_001)

    done = paging.plan(Ask(window="1h"), now_ms)

    part = paging.cut(Ask(window="1h"), done, [hit(edge)], False)
    assert [row.entry.id for row in part.hits] == [edge]
    assert not paging.cut(Ask(window="1h"), done, [hit(before)], False).hits


@given(st.binary(max_size=600))
def test_any_member_survives_the_way_through_a_url(raw: bytes) -> None:
    job_id = id_text(raw)
    token = tokens.cursor_token(job_id)

    if len(raw) > 512:
        assert token is None
    elif raw:
        assert token is not None
        assert tokens.cursor_from(token) == job_id


@given(st.dictionaries(st.sampled_from(sorted(asking.KNOWN | {"page", "p"})), st.text()))
def test_no_query_string_fails(garbage: dict[str, str]) -> None:
    ask, dropped = asking.parse(garbage)
    paging.plan(ask, EPOCH_MS)

    assert set(dropped) <= set(garbage)
    assert asking.parse(query(ask.url())) == (ask, [])


@pytest.mark.parametrize(
    "bad",
    [
        {"after": "JOB"}, {"after": "../../etc"}, {"before": "~%%%"}, {"after": "~é"},
        {"tab": "nowhere"}, {"order": "up"}, {"minted": "1y"}, {"q": "JOB0"}, {"q": "<script>"},
        {"lane": "x"}, {"page": "3"}, {"tab": "active", "q": ID[:7]},
        {"from": "soon"}, {"to": "2026-13-01T00:00"}, {"attempts": "-1"}, {"attempts": "1e9"},
        {"text": "x" * 201}, {"task": "a\0b"}, {"tab": "active", "minted": "1h"}, {"due": "1h"},
        {"tab": "lanes", "text": "x"}, {"tab": "schedule", "due": "1y"}, {"lease": "past"},
        {"after": "~" + "A" * 2_000},
    ],
)  # fmt: skip
def test_a_parameter_that_makes_no_sense_is_dropped_and_named(bad: dict[str, str]) -> None:
    ask, dropped = asking.parse(bad)

    assert dropped == [list(bad)[-1]]
    assert not ask.filtered
    assert (ask.after, ask.before, ask.prefix, ask.window, ask.lane) == (None, None, "", "", "")


def test_a_cursor_of_a_time_ordered_set_carries_its_score() -> None:
    ask, dropped = asking.parse({"tab": "active", "after": ID, "at": "1790000000000.0"})

    assert (ask.after, ask.at, dropped) == (ID, 1790000000000.0, [])
    assert query(ask.url())["at"] == "1790000000000.0"


def test_changing_the_tab_forgets_nothing_but_what_is_told() -> None:
    ask = Ask(tab=Tab.DEAD, prefix="JOB01", order=Order.FIRST)

    assert query(ask.url(after=ID)) == {"tab": "dead", "order": "first", "q": "JOB01", "after": ID}
