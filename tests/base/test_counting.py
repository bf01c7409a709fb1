"""Numbers agree with their nouns."""

from __future__ import annotations

from lorentzrec.base.counting import Count, Share, with_counts


def test_the_noun_agrees_with_the_number() -> None:
    assert [f"{Count(n):item is|items are} live" for n in (0, 1, 2, 1234)] == [
        "0 items are live",
        "1 item is live",
        "2 items are live",
        "1,234 items are live",
    ]


def test_other_formats_are_those_of_an_integer() -> None:
    assert (f"{Count(1234)}", f"{Count(1234):,}", f"{Count(7):>3}") == ("1234", "1,234", "  7")


def test_a_small_share_is_not_zero_percent() -> None:
    assert [f"{Share(share):%}" for share in (0.00025, 1 / 3, 0.5, 1)] == ["0.025%", "33.3%", "50%", "100%"]
    assert with_counts("{share:%} of all", {"share": 0.00025}) == "0.025% of all"


def test_only_integers_are_counted() -> None:
    assert with_counts("{n:row|rows} of {name}, {p:.1%}", {"n": 1, "name": "x", "p": 0.5}) == "1 row of x, 50.0%"
