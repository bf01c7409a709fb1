"""The numbers of a small shop, counted by hand."""

from __future__ import annotations

import pytest

from lorentzrec.data.interactions import Interactions
from lorentzrec.data.summary import summarise


def test_numbers_by_hand() -> None:
    data = Interactions.from_pairs(
        ["ann", "ann", "ann", "ann", "bob"],
        ["tea", "cup", "tea", "pot", "tea"],
        [10, 10, 20, 30, 86_400],
        orders=["a", "a", "b", "c", "d"],
    )
    found = summarise(data)
    assert (found.customers, found.items, found.events, found.orders) == (2, 3, 5, 4)
    assert found.density == pytest.approx(4 / 6), "tea of ann counts once"
    assert found.repeats == pytest.approx(1 / 5)
    assert found.ties == pytest.approx(1 / 3), "one of three pairs of consecutive events"
    assert (found.first_time, found.last_time) == (10, 86_400)
    assert found.order_sizes == {"smallest": 1, "25%": 1, "50%": 1, "75%": 1, "90%": 2, "99%": 2, "largest": 2}
    assert found.history_lengths == {"smallest": 1, "25%": 1, "50%": 1, "75%": 4, "90%": 4, "99%": 4, "largest": 4}
    assert (found.item_events["smallest"], found.item_events["50%"], found.item_events["largest"]) == (1, 1, 3)


def test_what_is_not_known_is_none() -> None:
    found = summarise(Interactions.from_pairs(["ann", "bob"], ["tea", "tea"]))
    assert (found.ties, found.first_time, found.last_time, found.orders, found.order_sizes) == (None,) * 5
    dated = Interactions.from_pairs(["ann", "ann"], ["tea", "cup"], [0, 1])
    assert summarise(dated, dated=False).first_time is None


def test_customers_and_items_of_other_parts_do_not_count() -> None:
    data = Interactions.from_pairs(["ann", "ann", "bob"], ["tea", "cup", "pot"], [1, 2, 3])
    found = summarise(data.select(data.user_rows == data.users.row("ann")))
    assert (found.customers, found.items, found.density) == (1, 2, 1.0)
