"""The reality check against numbers computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from lorentzrec.data.interactions import Interactions
from lorentzrec.evaluation import reality_check
from lorentzrec.evaluation.reality_check import Baselines, check_reality, find_repeats, sample_customers
from lorentzrec.model.reality_check import CheckedSystem, RealityCheck
from tests.evaluation.fixed_scores import FixedScores, events

TRAIN = events([("x", "a"), ("y", "a"), ("z", "a"), ("w", "b"), ("v", "b"), ("w", "c"), ("w", "d"), ("v", "c")])
"""Popularity is a 3, b 2, c 2, d 1. Everybody who has b also has c."""
SECOND = 1 / np.log2(3)
"""The NDCG of one item to find that is second in the list."""


def by_name(check: RealityCheck) -> dict[str, CheckedSystem]:
    return {row.name: row for row in check.rows}


def test_all_rows_by_hand() -> None:
    """x, y and z have a: b and c are equally popular, so b is first or second in half of all lists."""
    test = events([("x", "b"), ("y", "b"), ("z", "d")])
    ours = FixedScores(TRAIN, {"x": {"b": 2, "c": 1}, "y": {"c": 2, "b": 1}, "z": {"d": 9}})
    check = check_reality(ours, test, TRAIN)
    rows = by_name(check)
    assert list(rows) == ["this model", "popularity", "item-knn"]
    assert (check.customers, check.candidates, check.events) == (3, "unseen", "held-out")
    tied, third = (1 + SECOND) / 2, 1 / np.log2(4)
    mine, theirs = np.array([1, SECOND, 1]), np.array([tied, tied, third])
    assert check.ours.ndcg == pytest.approx(mine.mean())
    assert check.ours.recall == 1
    assert check.ours.difference is None
    assert rows["popularity"].ndcg == pytest.approx(theirs.mean())
    assert rows["popularity"].difference == pytest.approx((mine - theirs).mean())
    assert rows["popularity"].standard_error == pytest.approx(np.std(mine - theirs, ddof=1) / np.sqrt(3))
    # Nobody has a together with another item, so that item-kNN ties all three candidates.
    assert rows["item-knn"].ndcg == pytest.approx((1 + SECOND + third) / 3)


def test_a_difference_of_two_standard_errors_is_significant() -> None:
    """Popularity always puts a first for everybody; the model puts it second, for some of the customers."""
    train = events(
        [(f"u{user}", "old") for user in range(20)] + [(f"v{user}", "a") for user in range(9)] + [("w", "b")]
    )
    test = events([(f"u{user}", "a") for user in range(20)])
    for losing, lost in ((3, False), (8, True)):
        wrong: dict[int | str, dict[int | str, float]] = {
            f"u{user}": {"b": 2.0, "a": 1.0} if user < losing else {"a": 1.0} for user in range(20)
        }
        row = by_name(check_reality(FixedScores(train, wrong), test, train))["popularity"]
        share = losing / 20
        assert row.difference == pytest.approx(share * (SECOND - 1))
        assert row.standard_error == pytest.approx((1 - SECOND) * np.sqrt(share * (1 - share) / 19))
        assert row.ahead == row.significant == lost


def test_customers_who_buy_again() -> None:
    """All items are candidates then, and habits are one of the baselines.

    x bought a twice, so a is first. y bought b and c once; b is as popular as a, c less so, and c comes second.
    """
    users, items = ["x", "x", "x", "y", "y"], ["a", "a", "b", "c", "b"]
    test = events([("x", "a"), ("y", "c")])
    train = Interactions.from_pairs(users, items)
    check = check_reality(FixedScores(train, {}), test, train)
    assert check.candidates == "all"
    assert list(by_name(check)) == ["this model", "popularity", "own-frequency", "item-knn"]
    assert by_name(check)["own-frequency"].ndcg == pytest.approx((1 + SECOND) / 2)
    timed = Interactions.from_pairs(users, items, [0, 1, 2, 0, 1])
    assert {"own-frequency", "recent-popularity"} <= by_name(check_reality(FixedScores(timed, {}), test, timed)).keys()


def test_repeats_are_found_by_ids() -> None:
    test = events([("y", "b"), ("x", "a"), ("x", "new"), ("nobody", "a"), ("x", "d")])
    assert sorted(find_repeats(test, TRAIN).tolist()) == [False, False, True]
    assert not find_repeats(events([("nobody", "new")]), TRAIN).any()


def test_only_targets_are_to_be_found_and_customers_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    test = Interactions.from_pairs(["x", "x", "y", "z"], ["b", "c", "c", "d"], labels=[True, False, True, True])
    ours = FixedScores(TRAIN, {"x": {"b": 1}, "y": {"c": 1}, "z": {"d": 1}})
    assert check_reality(ours, test, TRAIN).ours.ndcg == 1
    monkeypatch.setattr(reality_check, "CUSTOMER_LIMIT", 2)
    limited = check_reality(ours, test, TRAIN)
    assert (limited.customers, limited.ours.ndcg) == (2, 1)
    assert limited == check_reality(ours, test, TRAIN)


def test_item_knn_learns_from_a_bounded_number_of_pairs() -> None:
    assert sample_customers(TRAIN, 16) is TRAIN, "the squares of 1, 1, 1, 3 and 2 have the sum 16"
    assert len(sample_customers(TRAIN, 15)) < len(TRAIN)
    assert (sample_customers(TRAIN, 15).lengths ** 2).sum() <= 15
    assert np.count_nonzero(sample_customers(TRAIN, 0).lengths) == 1
    assert list(Baselines(TRAIN).make(TRAIN, repeats=False)) == ["popularity", "item-knn"]


def test_baselines_that_two_checks_share_change_no_result() -> None:
    ours, shared = FixedScores(TRAIN, {"x": {"b": 1}, "w": {"a": 1}}), Baselines(TRAIN)
    for test in (events([("x", "b")]), events([("w", "a"), ("y", "c")])):
        assert check_reality(ours, test, TRAIN, baselines=shared) == check_reality(ours, test, TRAIN)


def test_one_customer_shows_nothing() -> None:
    check = check_reality(FixedScores(TRAIN, {"x": {"d": 1}}), events([("x", "d")]), TRAIN)
    assert {(row.standard_error, row.significant) for row in check.baselines} == {(None, False)}
