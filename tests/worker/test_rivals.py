"""Which tree asks for a job of which all have heard: pure decisions."""

from __future__ import annotations

import math

import pytest

from emq_django.worker.rivals import Rivals


def half(low: float, high: float) -> float:
    return (low + high) / 2


def highest(_low: float, high: float) -> float:
    return high


def lowest(low: float, _high: float) -> float:
    return low


def among(others: int, uniform: object = half) -> Rivals:
    rivals = Rivals(uniform)  # type: ignore[arg-type]
    rivals.others = others
    return rivals


def test_a_tree_alone_asks_at_once_always() -> None:
    rivals = among(0)
    rivals.lost(9.0)

    rivals.changed(10.0)

    assert rivals.ask_at_s() == 10.0


def test_the_winner_of_the_last_race_asks_at_once_and_a_loser_holds_back() -> None:
    winner, loser = among(9), among(9)
    winner.won(9.0)
    loser.lost(9.0)

    winner.changed(10.0)
    loser.changed(10.0)

    assert winner.ask_at_s() == 10.0
    assert loser.ask_at_s() == pytest.approx(10.014)  # a head start, and half of 9 x 2 ms


def test_the_echo_of_its_own_take_does_not_cost_the_winner_its_lead() -> None:
    rivals = among(9)
    rivals.won(10.0)
    rivals.lost(10.05)

    rivals.changed(11.0)

    assert rivals.ask_at_s() == 11.0


@pytest.mark.parametrize(("overheard", "at_s"), [(True, 10.003), (False, 10.0)])
def test_a_process_that_has_heard_of_a_job_itself_has_a_moment_to_take_it(
    *, overheard: bool, at_s: float
) -> None:
    rivals = among(0)
    rivals.has_lookout = True

    rivals.changed(10.0, overheard=overheard)
    rivals.changed(10.001, overheard=overheard)  # the moment does not begin anew

    assert rivals.ask_at_s() == at_s


def test_without_one_nobody_waits_for_it() -> None:
    rivals = among(0)

    rivals.changed(10.0, overheard=True)

    assert rivals.ask_at_s() == 10.0


def test_what_came_beside_a_take_is_asked_for_unless_who_took_asks_again_in_time() -> None:
    rivals, in_time = among(0), among(0)
    for one in (rivals, in_time):
        one.changed(10.0)  # the take's own change, or another job
        one.took(10.001)
    in_time.empty(10.0005, 10.002)

    assert rivals.ask_at_s() == pytest.approx(10.004)
    assert in_time.ask_at_s() == math.inf


def test_a_take_is_no_reason_to_ask_where_nothing_was_heard() -> None:
    rivals = among(0)

    rivals.took(10.0)

    assert rivals.ask_at_s() == math.inf


def test_of_trees_that_have_won_nothing_yet_none_asks_at_once() -> None:
    rivals = among(9)

    rivals.changed(10.0)

    assert rivals.ask_at_s() == pytest.approx(10.014)


def test_a_second_change_soon_after_the_first_says_that_the_job_is_gone() -> None:
    rivals = among(60, highest)
    rivals.changed(10.0)

    rivals.changed(10.001)

    assert rivals.ask_at_s() == math.inf


def test_a_few_trees_doubt_that_it_is_gone() -> None:
    rivals = among(60, lowest)
    rivals.changed(10.0)

    rivals.changed(10.001)

    assert 10.001 < rivals.ask_at_s() < 10.02


def test_the_change_made_by_whoever_was_quicker_is_no_reason_to_ask_again() -> None:
    rivals = among(60, highest)
    rivals.changed(10.0)
    rivals.asked()
    rivals.changed(10.14)
    rivals.asked()

    rivals.changed(10.141)
    rivals.lost(10.142)

    assert rivals.ask_at_s() == math.inf


def test_the_winner_asks_at_every_change() -> None:
    rivals = among(60, highest)
    rivals.won(9.0)
    rivals.changed(10.0)
    rivals.asked()

    rivals.changed(10.001)

    assert rivals.ask_at_s() == 10.001


def test_what_waits_for_a_free_child_is_not_forgotten_at_the_next_change() -> None:
    rivals = among(60, highest)
    rivals.seen(10.0)

    rivals.changed(10.001)
    rivals.changed(10.002)

    assert rivals.ask_at_s() == 10.0


def test_of_two_trees_the_other_one_always_doubts() -> None:
    rivals = among(1)
    rivals.lost(9.0)
    rivals.changed(10.0)

    rivals.changed(10.0001)

    assert rivals.ask_at_s() < 10.01


def test_a_change_heard_after_the_last_take_was_sent_is_asked_for() -> None:
    rivals = among(0)
    rivals.changed(10.0)
    rivals.asked()
    rivals.changed(10.5)

    rivals.empty(asked_s=10.4, now_s=10.6)

    assert rivals.ask_at_s() <= 10.6


def test_a_change_heard_before_the_last_take_was_sent_is_dealt_with() -> None:
    rivals = among(0)
    rivals.changed(10.0)

    rivals.empty(asked_s=10.1, now_s=10.2)

    assert rivals.ask_at_s() == math.inf


def test_what_was_seen_after_the_last_take_was_sent_is_asked_for() -> None:
    """Where nothing is announced, a look is all that is known."""
    rivals = among(0)
    rivals.asked()
    rivals.seen(10.5)

    rivals.empty(asked_s=10.4, now_s=10.6)

    assert rivals.ask_at_s() <= 10.6


def test_what_a_process_left_is_dealt_with_when_a_take_finds_nothing() -> None:
    rivals = among(0)
    rivals.told(10.5)

    rivals.empty(asked_s=10.4, now_s=10.6)

    assert rivals.ask_at_s() == math.inf


def test_the_trees_spread_over_a_time_that_grows_with_their_number_up_to_a_quarter_second() -> None:
    longest = [among(others, highest).hold_back_s() for others in (0, 1, 10, 63, 500)]

    assert longest == pytest.approx([0, 0.004, 0.025, 0.131, 0.255])
